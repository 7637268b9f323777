"""What a life before this one left half done in the coordination store, and what only the disks know: put right.

Each function may be cut short and repeated; it writes only what is missing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from kafkad.core.controller.electorate import FIRST_LEADER_EPOCH, Electorate
from kafkad.core.controller.startup.reconciliation import AdoptedTopic
from kafkad.core.controller.store.tree import MetadataTree, PartitionState, StoredTopic
from kafkad.core.controller.topics.assignment import Assignment
from kafkad.core.types import NO_TOPIC_ID, TopicPartition


@dataclass(frozen=True, slots=True)
class _Adoption:
    name: str
    id: UUID
    assignments: tuple[Assignment, ...]
    configs: dict[str, str]


def identify(
    tree: MetadataTree, topics: Mapping[str, StoredTopic], new_topic_id: Callable[[], UUID]
) -> dict[str, StoredTopic]:
    """Give an id to topics that were written by someone who knew none."""
    identified = {}
    for name, topic in topics.items():
        if topic.id == NO_TOPIC_ID:
            topic = replace(topic, id=new_topic_id())
            tree.set_assignments(name, topic.id, topic.assignments)
        identified[name] = topic
    return identified


def extend(
    tree: MetadataTree,
    topics: dict[str, StoredTopic],
    located: Mapping[TopicPartition, int],
    broker_id: int,
) -> tuple[str, ...]:
    """Topics with more partitions on disk than in the store get them all; their names are given back."""
    extended = set()
    for partition in located:
        topic = topics.get(partition.topic)
        if topic is None or partition.partition < len(topic.assignments):
            continue
        more: tuple[Assignment, ...] = ((broker_id,),) * (partition.partition + 1 - len(topic.assignments))
        topics[topic.name] = replace(topic, assignments=topic.assignments + more)
        extended.add(topic.name)
    for name in extended:
        tree.set_assignments(name, topics[name].id, topics[name].assignments)
    return tuple(sorted(extended))


def adopt(
    tree: MetadataTree, found: Iterable[AdoptedTopic], broker_id: int, new_topic_id: Callable[[], UUID]
) -> dict[str, StoredTopic]:
    """Topics that only the disks know become topics of the store."""
    adoptions = [
        _Adoption(each.name, each.topic_id or new_topic_id(), ((broker_id,),) * each.partitions, {}) for each in found
    ]
    tree.create_topics(adoptions)
    return {
        each.name: StoredTopic(
            name=each.name, id=each.id, assignments=each.assignments, states={}, configs=each.configs
        )
        for each in adoptions
    }


def complete_states(
    tree: MetadataTree,
    topics: Mapping[str, StoredTopic],
    leader_epochs: Mapping[TopicPartition, int],
    unavailable: Collection[TopicPartition],
    electorate: Electorate,
    broker_id: int,
) -> dict[TopicPartition, PartitionState]:
    """The state of every partition: missing ones are made, leaders that are not there are replaced."""
    others = electorate.without(broker_id)
    states: dict[TopicPartition, PartitionState] = {}
    created: dict[TopicPartition, PartitionState] = {}
    changed: dict[TopicPartition, PartitionState] = {}
    for name, topic in topics.items():
        for index, replicas in enumerate(topic.assignments):
            partition = TopicPartition(name, index)
            stored = topic.states.get(index)
            if stored is None:
                # Appends to an adopted log go on in an epoch that no batch on disk has.
                epoch = leader_epochs.get(partition, FIRST_LEADER_EPOCH - 1) + 1
                created[partition] = states[partition] = electorate.first_state(partition, replicas, epoch)
                continue
            voters = others if partition in unavailable else electorate
            following = voters.next_state(partition, replicas, stored)
            if following is None:
                states[partition] = stored
            else:
                changed[partition] = following
                states[partition] = replace(following, partition_epoch=stored.partition_epoch + 1)
    tree.create_states(created)
    tree.set_states(changed)
    return states
