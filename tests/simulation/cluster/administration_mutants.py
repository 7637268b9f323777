"""Clusters that do wrong what an administrator asks for, and what must be said of each.

Deletions, reassignments, elections of preferred leaders and controlled shutdowns, with one rule of each broken.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from kafkad.core.cluster.control_requests import StopReplicaPartition
from kafkad.core.controller.elected import elected, reassigning
from kafkad.core.controller.elected.controlled_shutdown import partitions_of
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.image import NO_LEADER, Broker, Partition, Topic
from kafkad.core.controller.partition_rows import state_of
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.assignment import Assignment, ReplicaAssignment
from kafkad.core.errors import ErrorCode
from kafkad.core.hosting import hosting
from kafkad.core.hosting.hosting import Hosting
from kafkad.core.log.segments.layout import marked_directory_name
from kafkad.core.types import TopicPartition
from kafkad.processes.controller.requests.controlled_shutdown import ControlledShutdown
from kafkad.processes.worker.partitions import Partitions
from tests.simulation.cluster.casting import SHUTDOWNS, ClusterShape
from tests.simulation.cluster.mutants import ClusterMutant
from tests.simulation.cluster.run import ClusterMutation
from tests.simulation.ports import Patch

# Deletions.


def _renames_nothing(self: Partitions, row: Any, now_ms: int) -> Path:
    """The slot is free, and the directory stays under its name."""
    name = marked_directory_name(row.owned.name, uuid4().hex, "delete")
    return Path(self._config.log_dirs.log_dirs[row.owned.log_dir]) / name


def _forgets_deletions_at_once() -> Sequence[Patch]:
    """As soon as one broker has made it."""
    replicas_deleted = ElectedController.replicas_deleted

    def by_all(self: ElectedController, names: Sequence[str], broker: int) -> None:
        for name in self.deletions.keys() & set(names):
            self.deletions[name].replicas.clear()
        replicas_deleted(self, names, broker)

    return [(ElectedController, "replicas_deleted", by_all)]


def _records_no_deletion(self: MetadataTree, _topics: object) -> None:
    """Who is elected next knows nothing of it."""


# Reassignments.


def one_is_enough(
    electorate: Electorate, at: TopicPartition, row: Partition, wanted: ReplicaAssignment
) -> reassigning.ReassignmentStep | None:
    """One of the target is in sync."""
    target = wanted.target
    if not target or set(target).isdisjoint(row.isr):
        return None
    state = electorate.reassigned_state(at, target, state_of(row))
    return None if state.leader == NO_LEADER else reassigning._step(at, row, state, ReplicaAssignment(target))


def _stays_in_sync() -> Sequence[Patch]:
    reassigned_state = Electorate.reassigned_state

    def with_all(
        self: Electorate, partition: TopicPartition, replicas: Assignment, state: PartitionState
    ) -> PartitionState:
        return replace(reassigned_state(self, partition, replicas, state), isr=state.isr)

    return [(Electorate, "reassigned_state", with_all)]


def _stays(self: Hosting, name: str, state: StopReplicaPartition, *_: object) -> ErrorCode:
    """A broker that says it has removed its replica."""
    return ErrorCode.NONE


def _sees_nothing(*_: object) -> list[Partition]:
    """Nor does it see in UpdateMetadata that it has none."""
    return []


# Elections of preferred leaders.


def _prefers_the_first(
    self: Electorate, partition: TopicPartition, assignment: Assignment, state: PartitionState
) -> PartitionState | None:
    """Whether it is in sync or not."""
    leader = assignment[0]
    return None if leader == state.leader else replace(state, leader=leader, leader_epoch=state.leader_epoch + 1)


def _in_the_same_epoch() -> Sequence[Patch]:
    preferred_state = Electorate.preferred_state

    def same(
        self: Electorate, partition: TopicPartition, assignment: Assignment, state: PartitionState
    ) -> PartitionState | None:
        moved = preferred_state(self, partition, assignment, state)
        return None if moved is None else replace(moved, leader_epoch=state.leader_epoch)

    return [(Electorate, "preferred_state", same)]


# Controlled shutdowns.


def _says_nothing_remains() -> Sequence[Patch]:
    def none_remains(leaving: int, topics: Iterable[Topic]) -> tuple[list[tuple[Topic, list[Partition]]], list[Any]]:
        return partitions_of(leaving, topics)[0], []

    return [(elected, "partitions_of", none_remains)]


def _moves_no_leader(*_: object) -> None:
    pass


def _asks_nobody(self: ControlledShutdown, _broker: Broker | None, _now_ms: int) -> None:
    """It ends before others lead."""
    if self._is_registered and not self.is_over:
        self._state._end("other brokers lead all partitions")


def _stays_a_member(leaving: int, row: Partition) -> None:
    """The leaders wait for who has stopped."""


def _deleting(shape: ClusterShape) -> ClusterShape:
    return replace(_small(shape), deletions=4)


def _moving(shape: ClusterShape) -> ClusterShape:
    return replace(_small(shape), moves=10)


def _moving_in_peace(shape: ClusterShape) -> ClusterShape:
    """Who begins anew sets aside what is not his."""
    return replace(_moving(shape), faults=0)


def _leaving(shape: ClusterShape) -> ClusterShape:
    return replace(_small(shape), troubles=(SHUTDOWNS,))


def _small(shape: ClusterShape) -> ClusterShape:
    lonely = replace(shape, transactors=0, keepers=0, forwarders=0, members=0)
    return replace(lonely, partitions=1, producers=1, moves=0, deletions=0)


def _mutant(
    *patches: Patch,
    shape: Callable[[ClusterShape], ClusterShape],
    found: str,
    seed: int,
    also: Callable[[], Sequence[Patch]] = tuple,
) -> ClusterMutant:
    for owner, name, _ in patches:
        assert hasattr(owner, name), f"{owner} has no {name}: nothing would be broken"
    mutation = ClusterMutation(shape=shape, patches=lambda: [*patches, *also()])
    return ClusterMutant(mutation=mutation, found=found, seed=seed)


MUTANTS: Mapping[str, ClusterMutant] = {
    "keeps the directory of a deleted topic": _mutant(
        (Partitions, "_rename_directory", _renames_nothing), shape=_deleting, found="still has fleeting-0", seed=0
    ),
    "forgets a deletion before all have made it": _mutant(
        also=_forgets_deletions_at_once, shape=_deleting, found="still has fleeting-0", seed=0
    ),
    "records no deletion": _mutant(
        (MetadataTree, "record_deletions", _records_no_deletion),
        shape=_deleting,
        found="lacks what was committed",
        seed=10,
    ),
    "ends a reassignment early": _mutant(
        (reassigning, "ended", one_is_enough), shape=_moving, found="the reassignment has ended", seed=0
    ),
    "leaves the removed in the ISR": _mutant(also=_stays_in_sync, shape=_moving, found="its replicas are", seed=0),
    "keeps the replica that was removed": _mutant(
        (Hosting, "_stop", _stays),
        (hosting, "removed_replicas", _sees_nothing),
        shape=_moving_in_peace,
        found="nobody has a replica but those that the assignments name",
        seed=1,
    ),
    "prefers who is not in sync": _mutant(
        (Electorate, "preferred_state", _prefers_the_first), shape=_moving, found="leads, and is not in sync", seed=16
    ),
    "prefers in the same epoch": _mutant(also=_in_the_same_epoch, shape=_moving, found="lead in epoch", seed=3),
    "says that nothing remains": _mutant(
        (elected, "led_by_others", _moves_no_leader),
        also=_says_nothing_remains,
        shape=_leaving,
        found="others led in its place",
        seed=0,
    ),
    "stops without asking": _mutant(
        (ControlledShutdown, "take_request", _asks_nobody), shape=_leaving, found="others led in its place", seed=0
    ),
    "stays in the ISR when it stops": _mutant(
        (elected, "not_in_sync", _stays_a_member), shape=_leaving, found="others led in its place", seed=2
    ),
}
"""Not among them: a broker that drops the state of a partition whose replica is removed later (`UnappliedStates`).
What is said to a later registration removes the replica by itself, so it takes a StopReplica that reaches the earlier
one after its session was lost: that is played in `tests/core/hosting/test_hosting.py`.
"""
