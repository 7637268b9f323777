"""Partition states from UpdateMetadata for replicas here, which get their role from LeaderAndIsr alone.

If a StopReplica follows instead, the state is not sent again: it applies after the replica is removed. Usually the
state itself removes the replica (`removed_replicas`). The exceptions are controllers without topic ids, and requests to
the registration in which the role was lost or to an earlier one: for `LostRoles` they may be older than the replica.
"""

from collections.abc import Iterable
from uuid import UUID

from kafkad.core.cluster.control_requests import UpdateMetadataPartition, UpdateMetadataTopic
from kafkad.core.controller.image import NO_LOG_DIR, NO_OWNER, NO_SLOT, Partition
from kafkad.core.hosting.image_changes import ImageChanges


class UnappliedStates:
    """The newest state of each partition."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, int], tuple[UUID, UpdateMetadataPartition]] = {}

    def note(self, topic: UpdateMetadataTopic, state: UpdateMetadataPartition) -> None:
        self._states[topic.topic_name, state.partition_index] = topic.topic_id, state

    def apply_removed(self, name: str, removed: Iterable[Partition], changes: ImageChanges) -> None:
        """The replicas of these partitions were removed: apply their states."""
        for row in removed:
            noted = self._states.pop((name, row.index), None)
            if noted is not None and noted[0] == changes.topic_id(name) and noted[1].leader_epoch > row.leader_epoch:
                changes.put(name, noted[0], without_replica(noted[1]))


def without_replica(state: UpdateMetadataPartition) -> Partition:
    """The row of a partition without a replica here."""
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
