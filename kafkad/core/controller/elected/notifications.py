"""What brokers tell the controller by sequential nodes, which it removes: log directories that failed, and in-sync
replicas that a leader has written into the state itself, as those of Apache Kafka before 2.7 and administrators do.
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
    """The brokers that have said since that a log directory failed; watches for more."""
    return {event.broker for event in tree.take(nodes.LOG_DIR_EVENTS, nodes.decode_log_dir_event)}


def take_isr_changes(tree: MetadataTree) -> list[TopicPartition]:
    """The partitions that were named since; watches for more."""
    events = tree.take(nodes.ISR_CHANGES, nodes.decode_partitions_named)
    named = dict.fromkeys(TopicPartition(each.topic, each.partition) for event in events for each in event.partitions)
    # Anybody may write anything there: a path with it may be none.
    return [at for at in named if is_legal(at.topic)]


def stored_states(
    store: CoordinationStore, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionState]:
    """Those that are there and can be read."""
    paths = [nodes.state_path(at.topic, at.partition) for at in partitions]
    states, odd = {}, UnreadableNodes()
    for at, path, node in zip(partitions, paths, store.get_many(paths), strict=True):
        state = None if node is None else odd.read(path, node.data, nodes.read_state)
        if node is not None and state is not None:
            states[at] = stored_state(state, node.version)
    return states
