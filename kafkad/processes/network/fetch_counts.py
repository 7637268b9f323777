"""The counters of fetches, of the broker and of each partition."""

from collections.abc import Sequence
from typing import Protocol

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.errors import ErrorCode
from kafkad.core.metrics.catalogue import BYTES_OUT, FAILED_FETCH, REPLICATION_BYTES_OUT, TOTAL_FETCH, error_index
from kafkad.core.types import LOG_END
from kafkad.handlers.partitions.fetch_measure import LogReadResult, Measure


class Traffic(Protocol):
    """The counters of bytes by partition. Each network process has its own `column`."""

    def add_traffic(self, slot: int, column: int, amount: int) -> None: ...


class FetchCounts:
    """The counters of this process."""

    def __init__(self, block: CounterBlock, traffic: Traffic, column: int) -> None:
        self._block = block
        self._traffic = traffic
        self._column = column

    def count_response(self, measure: Measure, results: Sequence[LogReadResult]) -> None:
        """Count a response with these results of `measure`."""
        block = self._block
        block[TOTAL_FETCH] += len(results)
        if measure.bytes_found and measure.isolation == LOG_END:
            # Followers do not count in the traffic of topics.
            places = [result.place for result in results]
            block[REPLICATION_BYTES_OUT] += sum(place.length for place in places if place is not None)
        elif measure.bytes_found:
            bytes_out = 0
            for result in results:
                if result.place is not None:
                    bytes_out += result.place.length
                    self._traffic.add_traffic(result.row.slot, self._column, result.place.length)
            block[BYTES_OUT] += bytes_out
        if measure.is_urgent or measure.absent:
            for result in results:
                if result.error:
                    block[error_index(result.error)] += 1
                    block[FAILED_FETCH] += result.error == ErrorCode.KAFKA_STORAGE_ERROR
