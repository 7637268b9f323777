"""Which partitions of a request is each worker asked about, and which rows of the reply get its answers?

A worker is asked once, and answers in the order of the question.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from kafkad.core.errors import ErrorCode
from kafkad.wire.processes.descriptors import short_topic_id

Row = TypeVar("Row")


class RowsByWorker(Generic[Row]):
    """`Row` is the API's record of each partition until its owner answers."""

    def __init__(self) -> None:
        self._rows: dict[int, list[tuple[int, int, Row]]] = {}

    def add(self, worker: int, slot: int, topic_id: bytes, row: Row) -> None:
        self._rows.setdefault(worker, []).append((slot, short_topic_id(topic_id), row))

    def workers(self) -> list[int]:
        return list(self._rows)

    def asked(self, worker: int) -> list[tuple[int, int, Row]]:
        """(slot, short_id, row) of each partition that `worker` owns."""
        return self._rows[worker]

    def rows(self, worker: int) -> Iterable[Row]:
        return (row for _slot, _short_id, row in self._rows[worker])


LOST = ErrorCode.NOT_LEADER_OR_FOLLOWER
"""The code for the partitions of a dead worker: it is about to be replaced, so the client retries."""
