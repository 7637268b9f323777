"""Completes unfinished changes of an earlier incarnation in the coordination store, and adds topics found only on disk.

Each function may be interrupted and repeated; it writes only missing nodes. `adjust_restored` adjusts a store that was
restored from a copy: since the copy was made, partitions may have got higher leader epochs, and producers may have got
further ids.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from kafkad.core.controller.electorate import FIRST_LEADER_EPOCH, Electorate
from kafkad.core.controller.image import Broker
from kafkad.core.controller.producer_ids import start_above_foreign_ids
from kafkad.core.controller.settings import ControllerSettings
from kafkad.core.controller.startup.reconciliation import AdoptedTopic
from kafkad.core.controller.startup.term import ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.stored_metadata import PartitionState, StoredTopic
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.assignment import Assignment, ReplicaAssignment
from kafkad.core.controller.topics.internal_topics import with_single_replica
from kafkad.core.controller.topics.topics import NewTopic
from kafkad.core.coordination_store import CoordinationStore, Delete
from kafkad.core.types import NO_TOPIC_ID, TopicPartition

UNLIMITED_RETENTION: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""The configuration of an adopted topic: a default of compaction or retention would remove records."""


@dataclass(frozen=True, slots=True)
class _Adoption:
    name: str
    id: UUID
    assignments: tuple[Assignment, ...]
    configs: dict[str, str]


def identify(
    tree: MetadataTree, topics: Mapping[str, StoredTopic], new_topic_id: Callable[[], UUID]
) -> dict[str, StoredTopic]:
    """Assign ids to topics that an old broker wrote without one."""
    identified = {}
    for name, topic in topics.items():
        if topic.id == NO_TOPIC_ID:
            topic = replace(topic, id=new_topic_id())
            tree.set_assignments({name: (topic.id, _assignments(topic))})
        identified[name] = topic
    return identified


def extend(
    tree: MetadataTree,
    topics: dict[str, StoredTopic],
    located: Mapping[TopicPartition, int],
    broker_id: int,
) -> tuple[str, ...]:
    """Add partitions on disk to topics that have fewer in the store; returns the names of these topics."""
    extended = set()
    for partition in located:
        topic = topics.get(partition.topic)
        if topic is None or partition.partition < len(topic.assignments):
            continue
        more: tuple[Assignment, ...] = ((broker_id,),) * (partition.partition + 1 - len(topic.assignments))
        topics[topic.name] = replace(topic, assignments=topic.assignments + more)
        extended.add(topic.name)
    for name in extended:
        tree.set_assignments({name: (topics[name].id, _assignments(topics[name]))})
    return tuple(sorted(extended))


def _assignments(topic: StoredTopic) -> list[ReplicaAssignment]:
    return [topic.assignment(index) for index in range(len(topic.assignments))]


def adopt(
    tree: MetadataTree,
    found: Iterable[AdoptedTopic],
    broker_id: int,
    settings: ControllerSettings,
    new_topic_id: Callable[[], UUID],
    found_configs: Mapping[str, dict[str, str]] | None = None,
) -> dict[str, StoredTopic]:
    """Add topics found only on disk to the store. `found_configs` are their configurations, where there are any."""
    configs = found_configs or {}
    adoptions = [
        _Adoption(
            each.name,
            each.topic_id or new_topic_id(),
            ((broker_id,),) * each.partitions,
            configs.get(each.name, configs_of_adopted(each.name, settings.internal_topics)),
        )
        for each in found
    ]
    tree.create_topics(adoptions)
    return {
        each.name: StoredTopic(
            name=each.name, id=each.id, assignments=each.assignments, states={}, configs=each.configs
        )
        for each in adoptions
    }


def configs_of_adopted(name: str, internal_topics: Mapping[str, NewTopic]) -> dict[str, str]:
    """The retention of an adopted topic is unknown: its records are kept until its configuration changes.

    An internal topic gets the configuration of its creation.
    """
    if name in internal_topics:
        internal = with_single_replica(internal_topics[name])
        return {config: value for config, value in internal.configs if value is not None}
    return dict(UNLIMITED_RETENTION)


def complete_states(
    tree: MetadataTree,
    topics: Mapping[str, StoredTopic],
    leader_epochs: Mapping[TopicPartition, int],
    unavailable: Collection[TopicPartition],
    electorate: Electorate,
    broker_id: int,
    registered: Mapping[int, Broker] | None = None,
    *,
    names_broker_epochs: bool = True,
) -> dict[TopicPartition, PartitionState]:
    """The state of every partition: missing states are created, failed leaders are replaced.

    In a cluster, a broker `registered` after the state was written has restarted. Where fetches carry no broker epochs
    (`names_broker_epochs`), a new leader epoch invalidates the fetches of its earlier incarnation.
    """
    others = electorate.without(broker_id)
    states: dict[TopicPartition, PartitionState] = {}
    created: dict[TopicPartition, PartitionState] = {}
    changed: dict[TopicPartition, PartitionState] = {}
    for name, topic in topics.items():
        for index, replicas in enumerate(topic.assignments):
            partition = TopicPartition(name, index)
            stored = topic.states.get(index)
            if stored is None:
                # Appends to an adopted log use an epoch that no batch on disk has.
                epoch = leader_epochs.get(partition, FIRST_LEADER_EPOCH - 1) + 1
                created[partition] = states[partition] = electorate.first_state(partition, replicas, epoch)
                continue
            voters = others if partition in unavailable else electorate
            written = topic.written_ids.get(index, 0)
            restarted = frozenset(each for each, broker in (registered or {}).items() if broker.epoch > written)
            after = voters.state_after_restarts(partition, replicas, stored, restarted)
            after = after or voters.next_state(partition, replicas, stored)
            if after is None and not names_broker_epochs:
                after = voters.state_after_return(stored, restarted.intersection(replicas))
            if after is None:
                states[partition] = stored
            else:
                changed[partition] = after
                states[partition] = replace(after, partition_epoch=stored.partition_epoch + 1)
    tree.create_states(created)
    tree.set_states(changed)
    return states


def adjust_restored(store: CoordinationStore, on_disk: Collection[str], broker_id: int, wall_ms: int) -> None:
    """Remove the partition states of topics that are `on_disk`: new states get leader epochs above those in the logs.

    Raises `CoordinationError`, `UnreadableBlock`, `StorageFailed`.
    """
    ensure_paths(store)
    for topic in set(store.children(nodes.TOPICS)).intersection(on_disk):
        if store.exists(nodes.partitions_path(topic)) is None:
            continue
        numbers = [int(number) for number in store.children(nodes.partitions_path(topic)) if number.isdigit()]
        states = [nodes.state_path(topic, number) for number in numbers]
        store.pipelined([Delete(path) for path in states if store.exists(path) is not None])
    start_above_foreign_ids(store, broker_id, wall_ms, is_restored=True)
