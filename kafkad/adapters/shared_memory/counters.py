"""The counters of all processes, which every process can read without a lock.

Each process slot has one block with one writer; readers sum over processes. A block belongs to the process, not to the
incarnation: a restarted process continues the counters of its previous incarnation, and resets only its gauges.
`kafkad.core.metrics.catalogue` defines the indexes.
"""

from collections.abc import Iterable
from typing import TypeAlias

from kafkad.adapters.shared_memory.process_registry import PROCESS_SLOTS
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.metrics.catalogue import BLOCK_WORDS

WORDS_PER_BLOCK = BLOCK_WORDS
BLOCK_BYTES = WORDS_PER_BLOCK * 8
COUNTERS_BYTES = PROCESS_SLOTS * BLOCK_BYTES

CounterBlock: TypeAlias = memoryview
"""Unsigned 64-bit words: `block[i] += n`. A plain view, because a wrapper class would double the cost."""


class Counters:
    """All blocks of the broker, in a region of `COUNTERS_BYTES`."""

    def __init__(self, region: SharedRegion) -> None:
        self._words = region.view[:COUNTERS_BYTES].cast("Q")

    def block(self, slot: int) -> CounterBlock:
        """The block of a process slot; only that process writes to it."""
        assert 0 <= slot < PROCESS_SLOTS, f"process slot {slot} is not below {PROCESS_SLOTS}"
        return self._words[slot * WORDS_PER_BLOCK : (slot + 1) * WORDS_PER_BLOCK]

    def sum(self, index: int) -> int:
        """The total of word `index` over all processes."""
        assert 0 <= index < WORDS_PER_BLOCK, f"counter {index} is not below {WORDS_PER_BLOCK}"
        return sum(self._words[index::WORDS_PER_BLOCK])

    def zero(self, slot: int, gauges: Iterable[int]) -> None:
        """Reset the gauges of a restarted process to zero: the values are from the previous incarnation."""
        block = self.block(slot)
        for index in gauges:
            block[index] = 0
