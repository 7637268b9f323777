"""The controller: the only writer of topics, partitions and configurations.

Each method checks first, then writes the coordination store, then updates the metadata image; after a crash between the
last two, the next term completes the change from the store. Deltas carry the changes to the brokers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kafkad.core.controller import deltas
from kafkad.core.controller.elections import Elections, ElectionType, elections
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.image import (
    DEFAULT_BROKER,
    MetadataImage,
    Partition,
    Topic,
)
from kafkad.core.controller.partition_rows import (
    assignment_of,
    in_states,
    make_partition,
)
from kafkad.core.controller.settings import ControllerSettings
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.store.storing import reject_without_space
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.assignment import Assignment, ReplicaAssignment
from kafkad.core.controller.topics.internal_topics import with_single_replica
from kafkad.core.controller.topics.names import CollisionIndex
from kafkad.core.controller.topics.placement import NO_PLACE
from kafkad.core.controller.topics.topics import NewTopic
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Deletion:
    """A topic that is being deleted: each broker's remaining partitions, and the brokers that failed to delete."""

    topic: Topic
    replicas: dict[int, list[int]]
    failed: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic to create; name, counts and configurations are checked."""

    name: str
    id: UUID
    assignments: tuple[Assignment, ...]
    configs: dict[str, str]


class Controller:
    """Each change increases `image.version` by one. It places partitions on brokers, which place them on disks."""

    def __init__(
        self,
        *,
        broker_id: int,
        settings: ControllerSettings,
        tree: MetadataTree,
        election: LeaderElectionStrategy,
        image: MetadataImage,
    ) -> None:
        self.settings = settings
        self.id = broker_id
        self.image = image
        self.collisions = CollisionIndex(image.topics)
        self.deletions: dict[str, Deletion] = {}
        """Topics that are deleted for clients, and still have replicas."""
        self.unreadable_topics: frozenset[str] = frozenset()
        """Names of topics whose nodes can't be read; a topic of such a name can't be created."""
        self._tree = tree
        self._election = election
        self._outbox: list[deltas.MetadataDelta] = []

    def take_deltas(self) -> list[deltas.MetadataDelta]:
        """The deltas to publish, oldest first; empties the list."""
        taken, self._outbox = self._outbox, []
        return taken

    def create_topics(self, planned: Sequence[PlannedTopic]) -> list[Topic]:
        """Create the topics; all become visible in one version.

        Raises KafkaError before any change if there is no space for them.
        """
        if not planned:
            return []
        self.require_space(sum(len(topic.assignments) for topic in planned))
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
                partitions=_rows(plan.name, 0, plan.assignments, states),
            )
            for plan in planned
        ]
        for topic in topics:
            self.collisions.add(topic.name)
        self._publish(tuple(deltas.TopicCreated(topic) for topic in topics))
        return topics

    def add_partitions(self, additional: Mapping[str, Sequence[Assignment]]) -> None:
        """Add partitions to topics; all become visible in one version.

        Raises KafkaError before any change if there is no space for them.
        """
        if not additional:
            return
        self.require_space(sum(map(len, additional.values())))
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
                deltas.PartitionsAdded(name, _rows(name, len(topics[name].partitions), assignments, states))
                for name, assignments in additional.items()
            )
        )

    def elect_leaders(self, requested: Iterable[TopicPartition] | None, kind: ElectionType) -> Elections:
        """Elect leaders where an election is needed and possible. `requested` None: all partitions."""
        results = elections(self.image, self._electorate(), requested, kind)
        states = {at: each for at, each in results.items() if isinstance(each, PartitionState)}
        if states:
            self._tree.set_states(states)
            self._publish(in_states(self.image, states))
        return results

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
        """As configured: with too few brokers the creation fails, until more brokers register (KIP-115).
        A single broker creates it with one replica.
        """
        return with_single_replica(internal) if self.settings.is_single else internal

    def set_features(self, levels: dict[str, int]) -> None:
        """Set the feature levels of the cluster."""
        with reject_without_space():
            epoch = self._tree.set_features(levels)
        self._publish((deltas.FeaturesChanged(levels, epoch),))

    def require_space(self, _count: int) -> None:
        """Raises KafkaError if there is no space for so many more partitions. A cluster's brokers report it later."""

    def _electorate(self) -> Electorate:
        return Electorate(self._election, self.image.brokers)

    def _publish(self, changes: tuple[deltas.Change, ...]) -> None:
        delta = deltas.MetadataDelta(self.image.version + 1, changes)
        self.image = deltas.apply(self.image, delta)
        self._outbox.append(delta)


def _rows(
    name: str, first: int, assignments: Sequence[Assignment], states: Mapping[TopicPartition, PartitionState]
) -> tuple[Partition, ...]:
    return tuple(
        make_partition(index, NO_PLACE, replicas, states[TopicPartition(name, index)])
        for index, replicas in enumerate(assignments, first)
    )
