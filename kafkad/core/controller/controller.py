"""The controller: the only writer of topics, partitions and configurations.

Each method checks first, then writes the coordination store, then updates the metadata image; after a crash between the
last two, `startup` completes the change from the store. Deltas carry the changes to the other processes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kafkad.core.controller import deltas
from kafkad.core.controller.elections import Elections, ElectionType, elections
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.image import (
    DEFAULT_BROKER,
    NO_LOG_DIR,
    NO_SLOT,
    MetadataImage,
    Partition,
    Topic,
)
from kafkad.core.controller.partition_rows import (
    after_move,
    assignment_of,
    directory_offline,
    in_states,
    make_partition,
    moves_begun,
    state_of,
)
from kafkad.core.controller.reassignments import reassignment_error
from kafkad.core.controller.settings import ControllerSettings
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.store.storing import reject_without_space
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.assignment import Assignment, ReplicaAssignment
from kafkad.core.controller.topics.internal_topics import with_single_replica
from kafkad.core.controller.topics.names import CollisionIndex
from kafkad.core.controller.topics.pending_deletion import OFFLINE, PendingDeletion, log_dirs_of
from kafkad.core.controller.topics.placement import NO_PLACE, Placement
from kafkad.core.controller.topics.topics import NewTopic
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.errors import KafkaError
from kafkad.core.types import TopicPartition

_PARTITIONS_FINISHED_AT_ONCE = 500
"""This many take about 20 ms; the nodes of one topic are removed together."""


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic to create; name, counts and configurations are checked."""

    name: str
    id: UUID
    assignments: tuple[Assignment, ...]
    configs: dict[str, str]


class Controller:
    """Created by `startup.start`. Each change increases `image.version` by one."""

    def __init__(
        self,
        *,
        settings: ControllerSettings,
        tree: MetadataTree,
        election: LeaderElectionStrategy,
        image: MetadataImage,
        placement: Placement,
        deletions: Mapping[str, PendingDeletion],
    ) -> None:
        self.settings = settings
        self.id = settings.broker_id
        """The broker id of the controller."""
        self.image = image
        self.collisions = CollisionIndex(image.topics)
        self.deletions = dict(deletions)
        self.unreadable_topics: frozenset[str] = frozenset()
        """Names of topics whose nodes can't be read; a topic of such a name can't be created."""
        self._unfinished: dict[str, None] = {}
        """Topics whose directories are all deleted, and whose nodes are not."""
        self._names_of_deleted: dict[UUID, str] = {}
        self._tree = tree
        self._election = election
        self._placement = placement
        self.prefer_log_dir = placement.prefer
        self.cordon = placement.cordon
        self._outbox: list[deltas.MetadataDelta] = []

    @property
    def slots_ever_used(self) -> int:
        """One more than the highest slot in use so far; shared memory keeps it for the next controller process."""
        return self._placement.slots_ever_used

    @property
    def cordoned_dirs(self) -> frozenset[int]:
        """The log directories that get no new partitions."""
        return self._placement.cordoned

    def take_deltas(self) -> list[deltas.MetadataDelta]:
        """The deltas to publish, oldest first; empties the list."""
        taken, self._outbox = self._outbox, []
        return taken

    def create_topics(self, planned: Sequence[PlannedTopic]) -> list[Topic]:
        """Create the topics; all become visible in one version.

        Raises KafkaError before any change if the partition table or the store has no space for them.
        """
        if not planned:
            return []
        self.require_space([replicas for topic in planned for replicas in topic.assignments])
        electorate = self._electorate()
        states = {
            (at := TopicPartition(topic.name, index)): electorate.first_state(at, replicas)
            for topic in planned
            for index, replicas in enumerate(topic.assignments)
        }
        with reject_without_space():
            self._tree.create_topics(planned)
        self._tree.create_states(states)
        topics = [
            Topic(
                name=plan.name,
                id=plan.id,
                configs=plan.configs,
                partitions=self._place(plan.name, 0, plan.assignments, states),
            )
            for plan in planned
        ]
        for topic in topics:
            self.collisions.add(topic.name)
        self._publish(tuple(deltas.TopicCreated(topic) for topic in topics))
        return topics

    def add_partitions(self, additional: Mapping[str, Sequence[Assignment]]) -> None:
        """Add partitions to topics; all become visible in one version.

        Raises KafkaError before any change if the partition table or the store has no space for them.
        """
        if not additional:
            return
        self.require_space([replicas for assignments in additional.values() for replicas in assignments])
        electorate = self._electorate()
        topics = {name: self.image.topics[name] for name in additional}
        states = {
            (at := TopicPartition(name, index)): electorate.first_state(at, replicas)
            for name, assignments in additional.items()
            for index, replicas in enumerate(assignments, len(topics[name].partitions))
        }
        every = {
            name: (topic.id, [*map(assignment_of, topic.partitions), *map(ReplicaAssignment, additional[name])])
            for name, topic in topics.items()
        }
        with reject_without_space():
            self._tree.set_assignments(every)
        self._tree.create_states(states)
        self._publish(
            tuple(
                deltas.PartitionsAdded(name, self._place(name, len(topics[name].partitions), assignments, states))
                for name, assignments in additional.items()
            )
        )

    def delete_topics(self, names: Sequence[str]) -> None:
        """Record the deletions and hide the topics; directories and nodes are removed later (`partitions_deleted`)."""
        if not names:
            return
        topics = [self.image.topics[name] for name in names]
        with reject_without_space():
            self._tree.record_deletions([(topic.name, topic.id, len(topic.partitions)) for topic in topics])
        for topic in topics:
            slots = {each.slot: each.index for each in topic.partitions if each.slot != NO_SLOT}
            remaining = set(slots.values())
            if any(each.slot != NO_SLOT and each.log_dir == NO_LOG_DIR for each in topic.partitions):
                # The start with this directory finds its partitions and deletes them.
                remaining.add(OFFLINE)
            self.deletions[topic.name] = PendingDeletion(len(topic.partitions), remaining, slots, log_dirs_of(topic))
            self._names_of_deleted[topic.id] = topic.name
            self.collisions.remove(topic.name)
            self._placement.free(topic.partitions, self.image.version + 1)
        self._publish(
            tuple(
                deltas.TopicDeleted(topic.name, topic.id, tuple(each.slot for each in topic.partitions))
                for topic in topics
            )
        )
        for name in names:
            self.partitions_deleted(name, ())

    def deletions_under_way(self) -> set[str]:
        """The deletions in progress; the others wait until an offline log directory is online again."""
        return {name for name, pending in self.deletions.items() if pending.remaining != {OFFLINE}}

    def slots_deleted(self, topic_id: UUID, slots: Sequence[int]) -> bool:
        """Like `partitions_deleted`, for a worker: a worker names a deleted topic by id and slots only."""
        name = self._names_of_deleted.get(topic_id)
        pending = self.deletions.get(name) if name is not None else None
        if name is None or pending is None:
            return True
        done = self.partitions_deleted(name, [pending.slots[slot] for slot in slots if slot in pending.slots])
        if done:
            del self._names_of_deleted[topic_id]
        return done

    def partitions_deleted(self, name: str, partitions: Sequence[int]) -> bool:
        """These directories are deleted. True when all of the topic are; then call `finish_deletions`."""
        pending = self.deletions.get(name)
        if pending is None:
            return True
        pending.remaining.difference_update(partitions)
        if not pending.remaining:
            self._unfinished[name] = None
        return not pending.remaining

    @property
    def has_unfinished_deletions(self) -> bool:
        return bool(self._unfinished)

    def finish_deletions(self) -> None:
        """Remove the nodes of several topics in one commit, because each commit waits for the disk."""
        remaining = _PARTITIONS_FINISHED_AT_ONCE
        some: list[tuple[str, int]] = []
        for name in self._unfinished:
            some.append((name, self.deletions[name].partitions))
            remaining -= some[-1][1]
            if remaining <= 0:
                break
        self._tree.finish_deletions(some)
        for name, _ in some:
            del self.deletions[name], self._unfinished[name]

    def acknowledged(self, version: int) -> None:
        """Every live process has applied `version`: slots freed by then may be reused."""
        self._placement.acknowledged(version)

    def elect_leaders(self, requested: Iterable[TopicPartition] | None, kind: ElectionType) -> Elections:
        """Elect leaders where an election is needed and possible. `requested` None: all partitions."""
        results = elections(self.image, self._electorate(), requested, kind)
        states = {at: each for at, each in results.items() if isinstance(each, PartitionState)}
        if states:
            self._tree.set_states(states)
            self._publish(in_states(self.image, states))
        return results

    def reassign(
        self,
        requested: Sequence[tuple[TopicPartition, Assignment | None]],
        *,
        replication_factor_may_change: bool = True,
    ) -> list[KafkaError | None]:
        """Begin to reassign partitions to these replicas; None cancels the reassignment of a partition.

        On a single broker each reassignment either changes nothing or is rejected.
        """
        may_change = replication_factor_may_change
        return [
            reassignment_error(self.image, at, to, replication_factor_may_change=may_change) for at, to in requested
        ]

    def set_topic_config(self, name: str, configs: dict[str, str]) -> None:
        self._set_config(nodes.topic_config_path(name), f"topics/{name}", configs)
        self._publish((deltas.TopicConfigChanged(name, configs),))

    def set_broker_config(self, broker: str, configs: dict[str, str]) -> None:
        entity = nodes.DEFAULT_ENTITY if broker == DEFAULT_BROKER else broker
        self._set_config(nodes.broker_config_path(broker), f"brokers/{entity}", configs)
        self._publish((deltas.BrokerConfigChanged(broker, configs),))

    def set_group_config(self, group_id: str, configs: dict[str, str]) -> None:
        self._set_config(nodes.group_config_path(group_id), f"groups/{group_id}", configs)
        self._publish((deltas.GroupConfigChanged(group_id, configs),))

    def _set_config(self, path: str, entity: str, configs: dict[str, str]) -> None:
        with reject_without_space():
            self._tree.set_config(path, entity, configs)

    def adapt_internal_topic(self, internal: NewTopic) -> NewTopic:
        """The internal topic with the replicas that a single broker can have."""
        return with_single_replica(internal)

    def without_support(self, _levels: Mapping[str, int]) -> list[int]:
        """The brokers that do not support these feature levels."""
        return []

    def set_features(self, levels: dict[str, int]) -> None:
        """Set the feature levels of the cluster."""
        with reject_without_space():
            epoch = self._tree.set_features(levels)
        self._publish((deltas.FeaturesChanged(levels, epoch),))

    def directory_failed(self, log_dir: int) -> None:
        """The log directory is offline: its replicas are offline, and it gets no new partitions."""
        self._placement.directory_failed(log_dir)
        for name, deletion in self.deletions.items():
            if deletion.directory_failed(log_dir):
                self._unfinished.pop(name, None)
        others = self._electorate().without(self.settings.broker_id)
        states: dict[TopicPartition, PartitionState] = {}
        for topic in self.image.topics.values():
            for partition in topic.partitions:
                at = TopicPartition(topic.name, partition.index)
                if partition.log_dir == log_dir and (
                    state := others.next_state(at, partition.replicas, state_of(partition))
                ):
                    states[at] = state
        changes = directory_offline(self.image, log_dir, states)
        if changes:
            self._tree.set_states(states)
        self._change_directories(changes)

    def move_partitions(self, targets: Mapping[TopicPartition, int]) -> None:
        """Move partitions to these log directories; the present directory of a partition cancels its move."""
        self._change_directories(moves_begun(self.image, targets))

    def partition_moved(self, topic_id: bytes, index: int, log_dir: int, target: int) -> None:
        """The owner reports the end of a move: the partition is in `log_dir`, the move to `target` is over."""
        self._change_directories(after_move(self.image, topic_id, index, log_dir, target))

    def _change_directories(self, changes: tuple[deltas.PartitionsChanged, ...]) -> None:
        self._placement.count(self.image, changes)
        if changes:
            self._publish(changes)

    def require_space(self, assignments: Sequence[Assignment], taken: int = 0) -> int:
        """The number of new partitions of this broker. Raises KafkaError without space for `taken` and them."""
        share = sum(self.settings.broker_id in replicas for replicas in assignments)
        self._placement.require(taken + share)
        return share

    def _place(
        self,
        name: str,
        first: int,
        assignments: Sequence[Assignment],
        states: Mapping[TopicPartition, PartitionState],
    ) -> tuple[Partition, ...]:
        here = [index for index, replicas in enumerate(assignments, first) if self.settings.broker_id in replicas]
        taken = self._placement.take(len(here), [TopicPartition(name, index) for index in here])
        places = dict(zip(here, taken, strict=True))
        return tuple(
            make_partition(index, places.get(index, NO_PLACE), replicas, states[TopicPartition(name, index)])
            for index, replicas in enumerate(assignments, first)
        )

    def _electorate(self) -> Electorate:
        return Electorate(self._election, self.image.brokers)

    def _publish(self, changes: tuple[deltas.Change, ...]) -> None:
        delta = deltas.MetadataDelta(self.image.version + 1, changes)
        self.image = deltas.apply(self.image, delta)
        self._outbox.append(delta)
