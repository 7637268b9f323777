"""The page /cleaner: the state of each compacted log, as JSON.

A page is rendered at once from the latest responses of the cleaners, and requests new responses. For the present state,
a client reads the page until `answered` has reached the `asked` of the first page.
"""

import json
from collections.abc import Iterable
from uuid import UUID

import msgspec

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.controller.image import MetadataImage
from kafkad.core.metrics.metric import Page
from kafkad.processes.runtime.peers import Sender
from kafkad.wire.processes.cleaning_messages import CompactionRow, Compactions, CompactionsRequest
from kafkad.wire.processes.descriptors import pack_control


class CompactionPage:
    """`cleaners` are all configured cleaners."""

    def __init__(self, cleaners: Iterable[ProcessKey], peers: Sender) -> None:
        self._cleaners = tuple(cleaners)
        self._peers = peers
        self._requested = 0
        self._latest: dict[ProcessKey, Compactions] = {}

    def update(self, cleaner: ProcessKey, compactions: Compactions) -> None:
        self._latest[cleaner] = compactions

    def forget(self, cleaner: ProcessKey) -> None:
        """Drop the state of an incarnation that has exited."""
        self._latest.pop(cleaner, None)

    def render(self, image: MetadataImage) -> Page:
        self._requested += 1
        frame = pack_control(CompactionsRequest(self._requested))
        reached = [cleaner for cleaner in self._cleaners if self._peers.send(cleaner, frame)]
        latest = [self._latest.get(cleaner) for cleaner in reached]
        rows = [_row(row, image) for compactions in self._latest.values() for row in compactions.rows]
        content = {
            "asked": self._requested,
            "answered": min((0 if each is None else each.number for each in latest), default=0),
            "partitions": sorted((row for row in rows if row is not None), key=_partition_of),
        }
        return Page(content_type="application/json", body=json.dumps(content).encode() + b"\n")


def _partition_of(row: dict[str, object]) -> tuple[str, int]:
    topic, partition = row["topic"], row["partition"]
    assert isinstance(topic, str) and isinstance(partition, int), "a row names a partition"
    return topic, partition


def _row(row: CompactionRow, image: MetadataImage) -> dict[str, object] | None:
    """None for a deleted topic."""
    topic = image.names_by_id.get(UUID(bytes=row.topic_id))
    if topic is None:
        return None
    return {
        "topic": topic,
        "partition": row.partition,
        "state": row.state,
        "dirty_ratio": round(row.dirty_ratio, 4),
        "cleanable_bytes": row.cleanable_bytes,
        "last": None if row.last is None else msgspec.structs.asdict(row.last),
        "failure": row.failure or None,
        "retry_ms": row.retry_ms or None,
    }
