"""Reads the sequential nodes by which brokers notify the controller, which removes them: failed log directories, and
in-sync replicas that leaders of Apache Kafka before 2.7 and administrators write into partition states.
"""

from collections.abc import Collection

from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.stored_metadata import PartitionState, stored_state
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.store.unreadable_nodes import UnreadableNodes
from kafkad.core.controller.topics.names import is_legal
from kafkad.core.coordination_store import CoordinationStore
from kafkad.core.types import TopicPartition


def take_log_dir_events(tree: MetadataTree) -> set[int]:
    """The brokers that reported failed log directories since the last call; watches for more."""
    return {event.broker for event in tree.take(nodes.LOG_DIR_EVENTS, nodes.decode_log_dir_event)}


def take_isr_changes(tree: MetadataTree) -> list[TopicPartition]:
    """The partitions named since the last call; watches for more."""
    events = tree.take(nodes.ISR_CHANGES, nodes.decode_partitions_named)
    named = dict.fromkeys(TopicPartition(each.topic, each.partition) for event in events for each in event.partitions)
    # Any client can write these nodes: a topic name may be invalid in a path.
    return [at for at in named if is_legal(at.topic)]


def stored_states(
    store: CoordinationStore, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionState]:
    """The states that exist and can be read."""
    paths = [nodes.state_path(at.topic, at.partition) for at in partitions]
    states, unreadable = {}, UnreadableNodes()
    for at, path, node in zip(partitions, paths, store.get_many(paths), strict=True):
        state = None if node is None else unreadable.read(path, node.data, nodes.read_state)
        if node is not None and state is not None:
            states[at] = stored_state(state, node.version)
    return states
