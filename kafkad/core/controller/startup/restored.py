"""Adjusts a store that was restored from a copy.

Since the copy was made, partitions may have got higher leader epochs, and producers may have got further ids.
"""

from collections.abc import Collection

from kafkad.core.controller.producer_ids import start_above_foreign_ids
from kafkad.core.controller.startup.term import ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationStore, Delete


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
