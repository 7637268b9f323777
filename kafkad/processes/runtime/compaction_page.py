"""The page /cleaner: what the cleaners know of each compacted log, as JSON.

A page is made at once, so it shows the answers to earlier requests and asks for new ones. Who wants to know how things
are now asks until `answered` has reached the `asked` of the first page.
"""

import json
from collections.abc import Callable, Iterable
from uuid import UUID

import msgspec

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.controller.image import MetadataImage
from kafkad.core.metrics.metric import Page
from kafkad.wire.processes.cleaning_messages import CompactionRow, Compactions, CompactionsRequest
from kafkad.wire.processes.descriptors import pack_control


class CompactionPage:
    """`cleaners` are all there may be; `send` says whether one can be reached."""

    def __init__(self, cleaners: Iterable[ProcessKey], send: Callable[[ProcessKey, bytes], bool]) -> None:
        self._cleaners = tuple(cleaners)
        self._send = send
        self._asked = 0
        self._answers: dict[ProcessKey, Compactions] = {}

    def heard(self, cleaner: ProcessKey, answer: Compactions) -> None:
        self._answers[cleaner] = answer

    def forget(self, cleaner: ProcessKey) -> None:
        """Its incarnation is gone, and what it knew."""
        self._answers.pop(cleaner, None)

    def render(self, image: MetadataImage) -> Page:
        self._asked += 1
        frame = pack_control(CompactionsRequest(self._asked))
        reached = [cleaner for cleaner in self._cleaners if self._send(cleaner, frame)]
        answers = [self._answers.get(cleaner) for cleaner in reached]
        rows = [_row(row, image) for answer in self._answers.values() for row in answer.rows]
        content = {
            "asked": self._asked,
            "answered": min((0 if answer is None else answer.number for answer in answers), default=0),
            "partitions": sorted((row for row in rows if row is not None), key=_place),
        }
        return Page(content_type="application/json", body=json.dumps(content).encode() + b"\n")


def _place(row: dict[str, object]) -> tuple[str, int]:
    topic, partition = row["topic"], row["partition"]
    assert isinstance(topic, str) and isinstance(partition, int), "a place of a partition"
    return topic, partition


def _row(row: CompactionRow, image: MetadataImage) -> dict[str, object] | None:
    """None for a topic that is not there any more."""
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
