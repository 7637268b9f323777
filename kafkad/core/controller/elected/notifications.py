"""What brokers tell the controller by sequential nodes, which it removes: log directories that failed, and in-sync
replicas that a leader has written into the state itself, as those of Apache Kafka before 2.7 and administrators do.
"""

from collections.abc import Callable
from typing import TypeVar

from kafkad.core.controller.startup.term import Term
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.stored_metadata import PartitionState, stored_state
from kafkad.core.controller.store.unreadable_nodes import UnreadableNodes
from kafkad.core.coordination_store import CoordinationError, CoordinationStore, Delete, NoNode
from kafkad.core.types import TopicPartition

Event = TypeVar("Event")


def take_log_dir_events(store: CoordinationStore, term: Term) -> set[int]:
    """The brokers that have said since that a log directory failed; watches for more."""
    return {event.broker for event in _take(store, term, nodes.LOG_DIR_EVENTS, nodes.decode_log_dir_event)}


def take_isr_changes(store: CoordinationStore, term: Term) -> dict[TopicPartition, PartitionState]:
    """The stored states of the partitions that were named since; watches for more."""
    events = _take(store, term, nodes.ISR_CHANGES, nodes.decode_partitions_named)
    named = dict.fromkeys(TopicPartition(each.topic, each.partition) for event in events for each in event.partitions)
    paths = [nodes.state_path(at.topic, at.partition) for at in named]
    states, odd = {}, UnreadableNodes()
    for at, path, node in zip(named, paths, store.get_many(paths), strict=True):
        state = None if node is None else odd.read(path, node.data, nodes.read_state)
        if node is not None and state is not None:
            states[at] = stored_state(state, node.version)
    return states


def _take(store: CoordinationStore, term: Term, below: str, decode: Callable[[bytes], Event]) -> list[Event]:
    """Those that can be read. All are removed."""
    paths = [f"{below}/{name}" for name in store.children(below, watch=True)]
    odd = UnreadableNodes()
    found = zip(paths, store.get_many(paths), strict=True)
    events = [odd.read(path, node.data, decode) for path, node in found if node is not None]
    for outcome in store.pipelined([Delete(path) for path in paths], guard=term.guard):
        if isinstance(outcome, CoordinationError) and not isinstance(outcome, NoNode):
            raise outcome
    return [event for event in events if event is not None]
