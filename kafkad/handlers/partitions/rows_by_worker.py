"""The partitions of a request by the worker that owns them, with the rows of the response.

Each worker gets one message, and returns its results in the same order.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from kafkad.core.errors import ErrorCode
from kafkad.wire.processes.descriptors import short_topic_id

Row = TypeVar("Row")


class RowsByWorker(Generic[Row]):
    """`Row` is the API's row of a partition in the response."""

    def __init__(self) -> None:
        self._rows: dict[int, list[tuple[int, int, Row]]] = {}

    def add(self, worker: int, slot: int, topic_id: bytes, row: Row) -> None:
        self._rows.setdefault(worker, []).append((slot, short_topic_id(topic_id), row))

    def workers(self) -> list[int]:
        return list(self._rows)

    def entries(self, worker: int) -> list[tuple[int, int, Row]]:
        """(slot, short_id, row) of each partition that `worker` owns."""
        return self._rows[worker]

    def rows(self, worker: int) -> Iterable[Row]:
        return (row for _slot, _short_id, row in self._rows[worker])


WORKER_LOST = ErrorCode.NOT_LEADER_OR_FOLLOWER
"""The code for the partitions of a dead worker. A new incarnation replaces the worker, so clients should retry."""
