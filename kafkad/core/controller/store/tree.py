"""Topics and configurations in the coordination store.

Writes have Kafka's order, and `load` understands each state between two writes: a topic without partition states is
completed, a topic with a recorded deletion does not exist. The guard of the term is part of each write.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar
from uuid import UUID

from msgspec import UNSET

from kafkad.core.controller.startup.term import Term
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.stored_metadata import (
    UNREADABLE,
    PartitionState,
    RecordedDeletion,
    StoredMetadata,
    StoredTopic,
    stored_state,
)
from kafkad.core.controller.store.storing import PartlyStored
from kafkad.core.controller.store.unreadable_nodes import UnreadableNodes
from kafkad.core.controller.topics.assignment import Assignment, ReplicaAssignment
from kafkad.core.controller.topics.names import is_legal
from kafkad.core.coordination_store import (
    Change,
    Check,
    CoordinationError,
    CoordinationStore,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    SetData,
)
from kafkad.core.ports import NoSpaceLeft
from kafkad.core.types import NO_TOPIC_ID, RECOVERED, RECOVERING, TopicPartition

Notice = TypeVar("Notice")

# ZooKeeper accepts 1 MB a request (jute.maxbuffer); a topic node of 100,000 partitions alone comes near it.
_TRANSACTION_BYTES = 512 * 1024
_NOTIFICATIONS_KEPT = 100


class TopicToWrite(Protocol):
    """A new topic, as the tree writes it."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> UUID: ...
    @property
    def assignments(self) -> tuple[Assignment, ...]: ...
    @property
    def configs(self) -> dict[str, str]: ...


class MetadataTree:
    def __init__(self, store: CoordinationStore, term: Term) -> None:
        self._store = store
        self.term = term

    def load(self, left_out: UnreadableNodes | None = None) -> StoredMetadata:
        """`left_out` gets the nodes that can't be read; without it an unreadable node is an error."""
        unreadable = UnreadableNodes(are_errors=True) if left_out is None else left_out
        topic_nodes = self._load_topics(unreadable)
        deletions = self._load_deletions(topic_nodes, unreadable)
        live = {name: node for name, node in topic_nodes.items() if name not in deletions}
        configs = self._load_configs([nodes.topic_config_path(name) for name in live], unreadable)
        states, written_ids = self._load_states(live, unreadable)
        topics = {
            name: StoredTopic(
                name=name,
                id=nodes.decode_id(node.topic_id) if node.topic_id else NO_TOPIC_ID,
                assignments=tuple(node.partitions[str(index)] for index in range(len(node.partitions))),
                states=states[name],
                configs=config,
                adding=_by_index(node, node.adding_replicas),
                removing=_by_index(node, node.removing_replicas),
                written_ids=written_ids[name],
            )
            for (name, node), config in zip(live.items(), configs, strict=True)
        }
        groups = self._load_groups(unreadable)
        group_configs = self._load_configs([nodes.group_config_path(group) for group in groups], unreadable)
        return StoredMetadata(
            topics,
            deletions,
            self._broker_configs(unreadable),
            dict(zip(groups, group_configs, strict=True)),
        )

    def load_broker_configs(self) -> dict[str, dict[str, str]]:
        """By broker id as text, empty for the default of all brokers; unreadable nodes are ignored."""
        return self._broker_configs(UnreadableNodes())

    def _broker_configs(self, unreadable: UnreadableNodes) -> dict[str, dict[str, str]]:
        names = self._store.children(nodes.BROKER_CONFIGS)
        configs = self._load_configs([f"{nodes.BROKER_CONFIGS}/{name}" for name in names], unreadable)
        return dict(zip(("" if name == nodes.DEFAULT_ENTITY else name for name in names), configs, strict=True))

    def create_topics(self, topics: Sequence[TopicToWrite]) -> None:
        """Write topic and configuration nodes, each topic in one transaction; `create_states` writes the states."""
        groups: list[list[Create | SetData]] = []
        for topic in topics:
            data = _topic_data(topic.id, [ReplicaAssignment(replicas) for replicas in topic.assignments])
            config = self._config_change(nodes.topic_config_path(topic.name), topic.configs)
            groups.append([config, Create(nodes.topic_path(topic.name), data)])
        self._commit_groups(groups)

    def create_states(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Create the state nodes and their parents; existing nodes stay as they are."""
        changes: list[Change] = []
        seen: set[str] = set()
        for partition, state in states.items():
            if partition.topic not in seen:
                seen.add(partition.topic)
                changes.append(Create(nodes.partitions_path(partition.topic)))
            changes.append(Create(nodes.partition_path(partition.topic, partition.partition)))
            path = nodes.state_path(partition.topic, partition.partition)
            changes.append(Create(path, self._state_data(state)))
        self._pipeline(changes, NodeExists)

    def set_states(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Each write expects the partition epoch of `state`; the new epoch is one higher."""
        changes: list[Change] = [
            SetData(
                nodes.state_path(partition.topic, partition.partition),
                self._state_data(state),
                state.partition_epoch,
            )
            for partition, state in states.items()
        ]
        self._pipeline(changes)

    def set_assignments(self, topics: Mapping[str, tuple[UUID, Sequence[ReplicaAssignment]]]) -> None:
        """Topics by name, each with its id, each in one transaction."""
        self._commit_groups([SetData(nodes.topic_path(name), _topic_data(*topic))] for name, topic in topics.items())

    def set_all_assignments(self, topics: Mapping[str, tuple[UUID, Sequence[ReplicaAssignment]]]) -> None:
        """Topics by name, each with its id."""
        self._pipeline(SetData(nodes.topic_path(name), _topic_data(*topic)) for name, topic in topics.items())

    def set_config(self, path: str, entity: str, configs: Mapping[str, str]) -> None:
        """Write the configuration, and the notification for other brokers."""
        notification = nodes.encode(nodes.ConfigChangeNode(entity_path=entity))
        self._commit([self._config_change(path, configs), Create(nodes.CONFIG_CHANGE, notification, sequence=True)])

    def load_features(self) -> tuple[dict[str, int], int] | None:
        """The feature levels of the cluster, and the number of changes to them; None in a new cluster."""
        (node,) = self._store.get_many([nodes.FEATURES])
        return None if node is None else (nodes.read_features(node.data), node.version)

    def set_features(self, levels: Mapping[str, int]) -> int:
        """Returns the number of changes to the levels."""
        data = nodes.encode(nodes.FeatureNode(features=dict(levels)))
        is_new = self._store.exists(nodes.FEATURES) is None
        self._commit([Create(nodes.FEATURES, data) if is_new else SetData(nodes.FEATURES, data)])
        return self._store.get(nodes.FEATURES).version

    def prune_notifications(self) -> None:
        """Remove all but the newest config notifications; a broker that missed more reads all configurations."""
        names = self._store.children(nodes.CONFIG_CHANGES)
        old = [Delete(f"{nodes.CONFIG_CHANGES}/{name}") for name in names[:-_NOTIFICATIONS_KEPT]]
        self._pipeline(old, NoNode)

    def record_deletions(self, topics: Iterable[tuple[str, UUID, int]]) -> None:
        """From now on the topics are deleted, also after a crash; nodes are removed later."""
        self._commit(
            [
                Create(
                    nodes.deletion_path(name),
                    nodes.encode(nodes.DeletionNode(topic_id=nodes.encode_id(topic_id), partitions=count)),
                )
                for name, topic_id, count in topics
            ]
        )

    def finish_deletions(self, topics: Sequence[tuple[str, int]]) -> None:
        """Remove the nodes of these topics (name, number of partitions), and last the records of their deletion.

        Their directories are already deleted. May be repeated.
        """
        paths: list[str] = []
        for name, partitions in topics:
            for partition in range(partitions):
                paths += (nodes.state_path(name, partition), nodes.partition_path(name, partition))
            paths += (nodes.partitions_path(name), nodes.topic_path(name), nodes.topic_config_path(name))
        _remove(self._store, paths, self.term.guard)
        _remove(self._store, [nodes.deletion_path(name) for name, _ in topics], self.term.guard)

    def take(self, below: str, decode: Callable[[bytes], Notice]) -> list[Notice]:
        """The readable notifications below this path. All are removed; watches for more."""
        paths = [f"{below}/{name}" for name in self._store.children(below, watch=True)]
        unreadable = UnreadableNodes()
        found = zip(paths, self._store.get_many(paths), strict=True)
        notices = [unreadable.read(path, node.data, decode) for path, node in found if node is not None]
        _remove(self._store, paths, self.term.guard)
        return [each for each in notices if each is not None]

    def _load_topics(self, unreadable: UnreadableNodes) -> dict[str, nodes.TopicNode]:
        names = self._store.children(nodes.TOPICS)
        paths = [nodes.topic_path(name) for name in names]
        # In a cluster, tools may change them.
        read = self._store.get_many(paths, watch=not unreadable.are_errors)
        topics: dict[str, nodes.TopicNode] = {}
        ids: set[str] = set()
        for name, path, found in zip(names, paths, read, strict=True):
            if found is None or (unreadable.are_errors and not found.data):
                continue
            node = unreadable.read(path, found.data, nodes.read_topic)
            if node is None:
                unreadable.leave_out(path, name, "the node can't be read")
            elif not unreadable.are_errors and not is_legal(name):
                unreadable.leave_out(path, name, "the topic name is invalid")
            elif not unreadable.are_errors and node.topic_id in ids:
                unreadable.leave_out(path, name, "another topic has the same id")
            else:
                topics[name] = node
                ids |= {node.topic_id} if node.topic_id else set()
        return topics

    def _load_groups(self, unreadable: UnreadableNodes) -> list[str]:
        names = self._store.children(nodes.GROUP_CONFIGS)
        groups = [unreadable.read(f"{nodes.GROUP_CONFIGS}/{name}", name.encode(), _group_of) for name in names]
        return [group for group in groups if group is not None]

    def _load_deletions(
        self, topic_nodes: Mapping[str, nodes.TopicNode], unreadable: UnreadableNodes
    ) -> dict[str, RecordedDeletion]:
        names = self._store.children(nodes.DELETIONS)
        deletions = {}
        paths = [nodes.deletion_path(name) for name in names]
        for name, path, data in zip(names, paths, self._read(paths), strict=True):
            topic = topic_nodes.get(name)
            if name in unreadable.topics:
                # The brokers with replicas are unknown.
                unreadable.leave_out(path, name, "the topic node can't be read")
                continue
            recorded = unreadable.read(path, data, _recorded_deletion) if data else None
            if recorded is not None:
                deletions[name] = recorded
            elif topic is not None and topic.topic_id:
                deletions[name] = RecordedDeletion(nodes.decode_id(topic.topic_id), len(topic.partitions))
            else:
                deletions[name] = RecordedDeletion(None, len(topic.partitions) if topic else 0)
        return deletions

    def _load_states(
        self, topics: Mapping[str, nodes.TopicNode], unreadable: UnreadableNodes
    ) -> tuple[dict[str, dict[int, PartitionState]], dict[str, dict[int, int]]]:
        """The states by topic and partition, and the ids of the changes that last wrote them."""
        partitions = [(name, index) for name, node in topics.items() for index in range(len(node.partitions))]
        paths = [nodes.state_path(name, index) for name, index in partitions]
        states: dict[str, dict[int, PartitionState]] = {name: {} for name in topics}
        written_ids: dict[str, dict[int, int]] = {name: {} for name in topics}
        for (name, index), path, node in zip(partitions, paths, self._store.get_many(paths), strict=True):
            if not topics[name].partitions[str(index)] and not unreadable.are_errors:
                unreadable.reasons[path] = "the partition has no replicas"
                states[name][index] = UNREADABLE
            elif node is not None and (node.data or not unreadable.are_errors):
                state = unreadable.read(path, node.data, nodes.read_state)
                states[name][index] = UNREADABLE if state is None else stored_state(state, node.version)
                written_ids[name][index] = node.stat.modified_id
        return states, written_ids

    def _load_configs(self, paths: Sequence[str], unreadable: UnreadableNodes) -> list[dict[str, str]]:
        rows = zip(paths, self._read(paths), strict=True)
        read = [unreadable.read(path, data, nodes.decode_config) if data else None for path, data in rows]
        return [{} if node is None else node.config for node in read]

    def _read(self, paths: Sequence[str]) -> list[bytes]:
        return [b"" if node is None else node.data for node in self._store.get_many(paths)]

    def _state_data(self, state: PartitionState) -> bytes:
        return nodes.encode(
            nodes.StateNode(
                controller_epoch=self.term.epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=state.isr,
                leader_recovery_state=UNSET if state.leader_recovery_state == RECOVERED else RECOVERING,
            )
        )

    def _config_change(self, path: str, configs: Mapping[str, str]) -> Create | SetData:
        data = nodes.encode(nodes.ConfigNode(config=dict(configs)))
        # A deletion by an older broker leaves the configuration node without its topic.
        return Create(path, data) if self._store.exists(path) is None else SetData(path, data)

    def _commit(self, changes: Sequence[Change]) -> None:
        self._store.transaction([self.term.guard, *changes])

    def _commit_groups(self, groups: Iterable[Sequence[Create | SetData]]) -> None:
        """Each group in one transaction, with as many others as fit."""
        batches: list[list[Change]] = []
        size = 0
        for group in groups:
            added = sum(len(change.data) + len(change.path) for change in group)
            if not batches or size + added > _TRANSACTION_BYTES:
                batches.append([])
                size = 0
            size += added
            batches[-1] += group
        for number, batch in enumerate(batches):
            try:
                self._commit(batch)
            except NoSpaceLeft as error:
                if number == 0:
                    raise
                raise PartlyStored(
                    f"{number} of {len(batches)} transactions of a change are stored: {error}"
                ) from error

    def _pipeline(self, changes: Iterable[Change], expected: type[CoordinationError] | None = None) -> None:
        for outcome in self._store.pipelined(list(changes), guard=self.term.guard):
            if isinstance(outcome, CoordinationError) and not (expected and isinstance(outcome, expected)):
                raise outcome


def _recorded_deletion(data: bytes) -> RecordedDeletion:
    record = nodes.decode_deletion(data)
    return RecordedDeletion(nodes.decode_id(record.topic_id), record.partitions)


def _group_of(name: bytes) -> str:
    return nodes.group_of(name.decode())


def _by_index(node: nodes.TopicNode, replicas: Mapping[str, Assignment]) -> dict[int, Assignment]:
    """The node may have partitions that the topic does not have, if a tool wrote it."""
    return {int(index): each for index, each in replicas.items() if index in node.partitions and each}


def _topic_data(topic_id: UUID, assignments: Sequence[ReplicaAssignment]) -> bytes:
    rows = [(str(index), each) for index, each in enumerate(assignments)]
    return nodes.encode(
        nodes.TopicNode(
            partitions={index: each.replicas for index, each in rows},
            topic_id=nodes.encode_id(topic_id),
            adding_replicas={index: each.adding for index, each in rows if each.adding},
            removing_replicas={index: each.removing for index, each in rows if each.removing},
        )
    )


def _remove(store: CoordinationStore, paths: Sequence[str], guard: Check) -> None:
    """Remove the nodes in this order, with all nodes that others created below them (Apache Kafka: deleteRecursive). A
    missing node is no error. Raises the errors of the store.
    """
    outcomes = store.pipelined([Delete(path) for path in paths], guard=guard)
    for path, outcome in zip(paths, outcomes, strict=True):
        if isinstance(outcome, NotEmpty):
            below = _with_all_below(store, path)
            _raise_all_but(NoNode, store.pipelined([Delete(each) for each in reversed(below)], guard=guard))
        else:
            _raise_all_but(NoNode, [outcome])


def _raise_all_but(expected: type[CoordinationError], outcomes: Sequence[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, CoordinationError) and not isinstance(outcome, expected):
            raise outcome


def _with_all_below(store: CoordinationStore, path: str) -> list[str]:
    """The node and all nodes below it, parents first."""
    found: list[str] = []
    pending = [path]
    while pending:
        found.append(pending.pop())
        with suppress(NoNode):
            pending += [f"{found[-1]}/{name}" for name in store.children(found[-1])]
    return found
