"""Reassigns partitions to other replicas (KafkaController.onPartitionReassignment, ReplicaAssignment).

New replicas are added to the old ones. When all target replicas are in sync, one of them leads, and the others are
removed with their files. Each step raises the leader epoch and writes the state before the assignment. A controller
that loads the tree between the two writes finds the old assignment, with an epoch sent to no broker, and begins again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import structs

from kafkad.core.controller import deltas
from kafkad.core.controller.elected.announcing import AnnouncingController
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.image import NO_LEADER, MetadataImage, Partition, Topic
from kafkad.core.controller.partition_rows import assignment_of, in_state, state_of
from kafkad.core.controller.reassignments import planned
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.topics.assignment import Assignment, ReplicaAssignment
from kafkad.core.errors import KafkaError
from kafkad.core.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentStep:
    """One step of a reassignment: write `state`, then the assignment of `row`, then remove the `removed` replicas."""

    at: TopicPartition
    state: PartitionState
    row: Partition
    removed: tuple[int, ...]


def step_towards(
    electorate: Electorate, at: TopicPartition, row: Partition, requested: ReplicaAssignment
) -> ReassignmentStep:
    """The last step of the reassignment if it can end now, else its first."""
    return ended(electorate, at, row, requested) or _begun(electorate, at, row, requested)


def ended(
    electorate: Electorate, at: TopicPartition, row: Partition, requested: ReplicaAssignment
) -> ReassignmentStep | None:
    """The step to the target replicas alone; None: not all of them are in sync, or none can lead."""
    target = requested.target
    if not target or not set(target) <= set(row.isr):
        return None
    state = electorate.reassigned_state(at, target, state_of(row))
    return None if state.leader == NO_LEADER else _step(at, row, state, ReplicaAssignment(target))


def _begun(
    electorate: Electorate, at: TopicPartition, row: Partition, requested: ReplicaAssignment
) -> ReassignmentStep:
    return _step(at, row, electorate.reassigned_state(at, requested.replicas, state_of(row)), requested)


def _step(at: TopicPartition, row: Partition, state: PartitionState, assignment: ReplicaAssignment) -> ReassignmentStep:
    after = structs.replace(
        in_state(row, state),
        replicas=assignment.replicas,
        adding=assignment.adding,
        removing=assignment.removing,
    )
    removed = tuple(replica for replica in row.replicas if replica not in assignment.replicas)
    return ReassignmentStep(at=at, state=state, row=after, removed=removed)


def endings(electorate: Electorate, rows: Iterable[tuple[TopicPartition, Partition]]) -> list[ReassignmentStep]:
    """The last steps of these partitions' reassignments that can end now."""
    moving = ((at, row) for at, row in rows if row.adding or row.removing)
    steps = (ended(electorate, at, row, assignment_of(row)) for at, row in moving)
    return [step for step in steps if step is not None]


def rows_of(image: MetadataImage, steps: Iterable[ReassignmentStep]) -> list[tuple[Topic, list[Partition]]]:
    """The rows after the steps, by topic."""
    rows: dict[str, list[Partition]] = {}
    for step in steps:
        rows.setdefault(step.at.topic, []).append(step.row)
    return [(image.topics[name], each) for name, each in rows.items()]


def leftover_steps(electorate: Electorate, topics: Iterable[Topic]) -> list[ReassignmentStep]:
    """Steps for reassignments of an earlier term: brokers may lack assignments, states may have removed replicas."""
    steps = []
    for topic in topics:
        for row in topic.partitions:
            present = assignment_of(row)
            is_outside = not {row.leader, *row.isr} <= {NO_LEADER, *row.replicas}
            if (present.is_being_reassigned or is_outside) and not set(row.isr).isdisjoint(row.replicas):
                steps.append(step_towards(electorate, TopicPartition(topic.name, row.index), row, present))
    return steps


class ReassigningController(AnnouncingController):
    """The reassignments of one term."""

    def reassign(
        self,
        requested: Sequence[tuple[TopicPartition, Assignment | None]],
        *,
        replication_factor_may_change: bool = True,
    ) -> list[KafkaError | None]:
        """Begin to reassign partitions to these replicas; None cancels the reassignment of a partition.

        If a partition is named several times, its last entry counts.
        """
        results: dict[TopicPartition, KafkaError | None] = {}
        steps: dict[TopicPartition, ReassignmentStep] = {}
        electorate = self._electorate()
        for at, replicas in dict(requested).items():
            try:
                plan = planned(self.image, at, replicas, replication_factor_may_change=replication_factor_may_change)
            except KafkaError as error:
                results[at] = error
                continue
            results[at] = None
            row = self.image.topics[at.topic].partitions[at.partition]
            if plan != assignment_of(row):
                steps[at] = step_towards(electorate, at, row, plan)
        self._carry_out(list(steps.values()))
        return [results[at] for at, _ in requested]

    def _end_reassignments(self, partitions: Iterable[TopicPartition]) -> None:
        """End the reassignments of these partitions whose target replicas are all in sync."""
        rows = ((at, self.image.topics[at.topic].partitions[at.partition]) for at in partitions)
        self._carry_out(endings(self._electorate(), rows))

    def _carry_out(self, steps: Sequence[ReassignmentStep]) -> None:
        if not steps:
            return
        self._announce()
        self._store_steps(steps)
        rows = rows_of(self.image, steps)
        self.take_deltas()
        self._requests += self._announcer.roles(rows, is_new=False)
        self._stop_removed(steps)
        self._requests += self._announcer.metadata(rows)

    def _store_steps(self, steps: Sequence[ReassignmentStep]) -> None:
        """Store the changes of the steps: first the states, then the assignments."""
        if not steps:
            return
        self._tree.set_states({step.at: step.state for step in steps})
        by_topic: dict[str, list[Partition]] = {}
        for step in steps:
            by_topic.setdefault(step.at.topic, []).append(step.row)
        changes = tuple(deltas.PartitionsChanged(name, tuple(rows)) for name, rows in by_topic.items())
        after = deltas.apply(self.image, deltas.MetadataDelta(self.image.version + 1, changes))
        topics = [after.topics[name] for name in by_topic]
        self._tree.set_all_assignments(
            {topic.name: (topic.id, [assignment_of(row) for row in topic.partitions]) for topic in topics}
        )
        self._publish(changes)

    def _stop_removed(self, steps: Sequence[ReassignmentStep]) -> None:
        by_broker: dict[int, dict[TopicPartition, int]] = {}
        for step in steps:
            epochs = self._removed.setdefault(step.at, {})
            for broker in step.row.replicas:
                epochs.pop(broker, None)
            for broker in step.removed:
                epochs[broker] = step.row.leader_epoch
                by_broker.setdefault(broker, {})[step.at] = step.row.leader_epoch
            if not epochs:
                del self._removed[step.at]
        for broker, rows in sorted(by_broker.items()):
            self._requests += self._announcer.removals(broker, rows)
