"""Counts events in the words of a process: completed requests, rebalances, and batches that were not appended.

As in Apache Kafka, a corrupt or too large batch does not count as failed: the counter of failures is for problems that
need an operator.
"""

from bisect import bisect_left
from typing import Protocol

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.record_checks import InvalidRecords
from kafkad.core.metrics.catalogue import (
    BYTES_REJECTED,
    COUNTED_AS,
    FAILED_PRODUCE,
    INVALID_CRC,
    INVALID_SEQUENCE,
    LATENCY_LIMITS_MS,
    NO_KEY_COMPACTED,
    REBALANCE_LIMITS_MS,
    REBALANCES,
    TOTAL_TIME,
)


class Block(Protocol):
    """The words of a process, or a list in place of them."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, word: int, /) -> None: ...


_LIMITS_US = [int(limit * 1000) for limit in LATENCY_LIMITS_MS]
_TIME_WORDS = len(LATENCY_LIMITS_MS) + 2
_FIRST_TIME_WORDS = [TOTAL_TIME + key * _TIME_WORDS for key in COUNTED_AS]
_TIME_SUM = _TIME_WORDS - 1


def observe_total_time(block: Block, api_key: int, elapsed_us: int) -> None:
    """Count one completed request in the histogram of its API; for Fetch as in `request_index`."""
    first = _FIRST_TIME_WORDS[api_key]
    block[first + bisect_left(_LIMITS_US, elapsed_us)] += 1
    block[first + _TIME_SUM] += elapsed_us


def observe_rebalance(block: Block, elapsed_ms: int) -> None:
    """Count one completed rebalance."""
    block[REBALANCES + bisect_left(REBALANCE_LIMITS_MS, elapsed_ms)] += 1
    block[REBALANCES + len(REBALANCE_LIMITS_MS) + 1] += max(0, elapsed_ms)


_CLIENT_ERRORS = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def count_rejected(block: Block, error: KafkaError, size: int) -> None:
    """Count a batch of `size` bytes that was rejected with `error`."""
    match error.code:
        case ErrorCode.CORRUPT_MESSAGE:
            block[INVALID_CRC] += 1
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
            block[BYTES_REJECTED] += size
        case ErrorCode.INVALID_RECORD if isinstance(error, InvalidRecords):
            block[NO_KEY_COMPACTED] += len(error.record_errors)
        case ErrorCode.INVALID_RECORD:
            block[INVALID_SEQUENCE] += 1
    if error.code not in _CLIENT_ERRORS:
        block[FAILED_PRODUCE] += 1


def count_storage_failure(block: Block) -> None:
    """Count a batch that the disk failed to write."""
    block[FAILED_PRODUCE] += 1
