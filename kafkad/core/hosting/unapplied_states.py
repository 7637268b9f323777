"""What was said of a partition whose replica here takes its role from LeaderAndIsr alone.

A StopReplica may follow in its place, and nobody says the state again: it holds once the replica is gone. As a rule the
replica goes with the state (`removed_replicas`), and nothing is left to be noted. Two controllers need this: one that
names no topic ids, and one whose requests are for the registration in which the role was lost, or for one before: to
`LostRoles` they may be older than the replica.
"""

from collections.abc import Iterable
from uuid import UUID

from kafkad.core.cluster.control_requests import UpdateMetadataPartition, UpdateMetadataTopic
from kafkad.core.controller.image import NO_LOG_DIR, NO_OWNER, NO_SLOT, Partition
from kafkad.core.hosting.image_changes import ImageChanges


class UnappliedStates:
    """The newest of each partition."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, int], tuple[UUID, UpdateMetadataPartition]] = {}

    def note(self, topic: UpdateMetadataTopic, state: UpdateMetadataPartition) -> None:
        self._states[topic.topic_name, state.partition_index] = topic.topic_id, state

    def heed(self, name: str, removed: Iterable[Partition], changes: ImageChanges) -> None:
        """The replicas of these partitions were removed."""
        for row in removed:
            noted = self._states.pop((name, row.index), None)
            if noted is not None and noted[0] == changes.topic_id(name) and noted[1].leader_epoch > row.leader_epoch:
                changes.put(name, noted[0], elsewhere(noted[1]))


def elsewhere(state: UpdateMetadataPartition) -> Partition:
    """A partition without a replica here."""
    return Partition(
        index=state.partition_index,
        slot=NO_SLOT,
        owner=NO_OWNER,
        log_dir=NO_LOG_DIR,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.zk_version,
        replicas=state.replicas,
        isr=state.isr,
        offline=state.offline_replicas,
    )
