"""Counts a completed request or rebalance in its histogram."""

from bisect import bisect_left
from typing import Protocol

from kafkad.core.metrics.catalogue import COUNTED_AS, LATENCY_LIMITS_MS, REBALANCE_LIMITS_MS, REBALANCES, TOTAL_TIME


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
