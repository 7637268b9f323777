"""The last leader epochs of replicas here that have no role now.

A start and a lost session remove the roles, until the controller assigns them to the next registration. Meanwhile the
end of a reassignment may have removed the replica, with a StopReplica to the earlier registration.
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
    """The last role of each replica without one, and the broker epoch in which it had the role."""

    def __init__(self) -> None:
        self._roles: dict[tuple[UUID, int], _Role] = {}

    def lost(self, topic_id: UUID, row: Partition, broker_epoch: int) -> None:
        if row.leader_epoch != NO_LEADER_EPOCH:
            self._roles[topic_id, row.index] = _Role(row.leader_epoch, broker_epoch)

    def leader_epoch(self, topic_id: UUID, row: Partition, broker_epoch: int) -> int | None:
        """A later leader epoch, in metadata sent to the registration `broker_epoch`, is newer than this replica.

        None if metadata sent to this registration may be older than the role.
        """
        if row.leader_epoch != NO_LEADER_EPOCH:
            return row.leader_epoch
        last = self._roles.get((topic_id, row.index), _NONE_YET)
        return last.leader_epoch if broker_epoch > last.broker_epoch else None
