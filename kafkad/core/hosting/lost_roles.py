"""Which leader epoch is known of a replica here that has no role now?

A start and a lost session take the roles away, and the controller gives them again to the next registration. Meanwhile
a reassignment may have ended that removed the replica, and its StopReplica may have been for the registration before.
"""

from typing import NamedTuple
from uuid import UUID

from kafkad.core.controller.image import Partition
from kafkad.core.types import NO_BROKER_EPOCH, NO_LEADER_EPOCH


class _Role(NamedTuple):
    leader_epoch: int
    broker_epoch: int


_NONE_YET = _Role(NO_LEADER_EPOCH, NO_BROKER_EPOCH)


class LostRoles:
    """The last role of each replica that has lost it, and the registration in which it had it."""

    def __init__(self) -> None:
        self._roles: dict[tuple[UUID, int], _Role] = {}

    def lost(self, topic_id: UUID, row: Partition, broker_epoch: int) -> None:
        if row.leader_epoch != NO_LEADER_EPOCH:
            self._roles[topic_id, row.index] = _Role(row.leader_epoch, broker_epoch)

    def leader_epoch(self, topic_id: UUID, row: Partition, broker_epoch: int) -> int | None:
        """What is said in a later leader epoch, to the registration `broker_epoch`, is newer than this replica.

        None: what is said to that registration may be older. It is the one in which the role was lost, or an earlier.
        """
        if row.leader_epoch != NO_LEADER_EPOCH:
            return row.leader_epoch
        former = self._roles.get((topic_id, row.index), _NONE_YET)
        return former.leader_epoch if broker_epoch > former.broker_epoch else None
