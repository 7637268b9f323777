"""The numbers that processes count, where everybody can read and nobody has to lock.

Each process slot has one block with one writer; readers sum over processes. A block belongs to the role, not
to the incarnation: a restarted process goes on counting where its predecessor stopped, and only zeroes its gauges.
Which index means what is `kafkad.core.metrics.catalogue`'s.
"""

from collections.abc import Iterable
from typing import TypeAlias

from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.metrics.catalogue import BLOCK_WORDS

PROCESS_SLOTS = 64
WORDS_PER_BLOCK = BLOCK_WORDS
BLOCK_BYTES = WORDS_PER_BLOCK * 8
COUNTERS_BYTES = PROCESS_SLOTS * BLOCK_BYTES

CounterBlock: TypeAlias = memoryview
"""Unsigned 64-bit words: `block[i] += n`. A view itself, as a class around it would double the cost."""


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
        """What a restarted process does with its gauges: they described the incarnation before."""
        block = self.block(slot)
        for index in gauges:
            block[index] = 0
