"""The results of the partitions, by topic, in Apache Kafka's order.

A topic that is requested twice has two results, unless the request has unknown topics or partitions: then their rows
come first, and all rows of a topic are merged.
"""

from collections.abc import Iterable
from uuid import UUID

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.offsets.messages import TopicResult

Rows = list[tuple[int, ErrorCode]]


class Results:
    __slots__ = ("_known", "_unknown")

    def __init__(self) -> None:
        self._known: list[TopicResult] = []
        self._unknown: dict[tuple[str, UUID], Rows] = {}

    def of(self, name: str, topic_id: UUID) -> Rows:
        """The rows of a known topic; the caller appends to them."""
        rows: Rows = []
        self._known.append(TopicResult(name, topic_id, rows))
        return rows

    def unknown(self, name: str, topic_id: UUID, partitions: Iterable[int], code: ErrorCode) -> None:
        rows = self._unknown.setdefault((name, topic_id), [])
        rows.extend((partition, code) for partition in partitions)

    def rows(self) -> list[TopicResult]:
        if not self._unknown:
            return self._known
        for name, topic_id, rows in self._known:
            self._unknown.setdefault((name, topic_id), []).extend(rows)
        return [TopicResult(name, topic_id, rows) for (name, topic_id), rows in self._unknown.items()]
