"""The stored metadata as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from msgspec import UNSET

from kafkad.core.controller.image import NO_LEADER
from kafkad.core.controller.store.nodes import StateNode
from kafkad.core.controller.topics.assignment import Assignment, ReplicaAssignment
from kafkad.core.types import NO_LEADER_EPOCH, RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A state node; `partition_epoch` is its version."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int = RECOVERED
    partition_epoch: int = 0


def stored_state(node: StateNode, version: int) -> PartitionState:
    return PartitionState(
        leader=node.leader,
        leader_epoch=node.leader_epoch,
        isr=node.isr,
        leader_recovery_state=RECOVERED if node.leader_recovery_state is UNSET else node.leader_recovery_state,
        partition_epoch=version,
    )


UNREADABLE = PartitionState(leader=NO_LEADER, leader_epoch=NO_LEADER_EPOCH, isr=(), partition_epoch=-1)
"""The state of a partition with an unreadable node: without an ISR, no leader is elected and nothing is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """`id` NO_TOPIC_ID: an old broker wrote the topic without one. A state may be missing after a crash in creation."""

    name: str
    id: UUID
    assignments: tuple[Assignment, ...]
    states: Mapping[int, PartitionState]
    configs: dict[str, str]
    adding: Mapping[int, Assignment] = field(default_factory=dict)
    removing: Mapping[int, Assignment] = field(default_factory=dict)
    written_ids: Mapping[int, int] = field(default_factory=dict)
    """By partition, the id of the change that last wrote the state (ZooKeeper: mzxid)."""

    def assignment(self, index: int) -> ReplicaAssignment:
        replicas = self.assignments[index]
        adding, removing = self.adding.get(index, ()), self.removing.get(index, ())
        return ReplicaAssignment(
            replicas,
            tuple(each for each in adding if each in replicas),
            tuple(each for each in removing if each in replicas),
        )


@dataclass(frozen=True, slots=True)
class RecordedDeletion:
    """`topic_id` None: recorded by a broker that leaves the node empty, and the topic node is removed."""

    topic_id: UUID | None
    partitions: int


@dataclass(frozen=True, slots=True)
class StoredMetadata:
    topics: Mapping[str, StoredTopic]
    deletions: Mapping[str, RecordedDeletion]
    broker_configs: Mapping[str, dict[str, str]]
    group_configs: Mapping[str, dict[str, str]]
