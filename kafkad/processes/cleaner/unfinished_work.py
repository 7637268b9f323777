"""Which log was this cleaner at when it died? If it was the same one twice, the next incarnation leaves it alone.

A policy may never return, take all memory, or end the interpreter: the process dies of it, and would die again at once
when it is started anew, while no other log is cleaned. The words are in the process's block, which outlives it.
"""

from enum import IntEnum

from kafkad.core.metrics.catalogue import CLEANER_WORK
from kafkad.core.metrics.histograms import Block

_MOST_DEATHS = 2
_AT, _LAST, _DEATHS = range(CLEANER_WORK, CLEANER_WORK + 3)


class Work(IntEnum):
    """What is done with a log."""

    PLANNING = 0
    COMPACTING = 1


class UnfinishedWork:
    """Made at the start of an incarnation: it looks at what the one before has left."""

    def __init__(self, block: Block) -> None:
        self._block = block
        at, block[_AT] = block[_AT], 0
        if at:
            block[_DEATHS] = block[_DEATHS] + 1 if block[_LAST] == at else 1
            block[_LAST] = at
        self._blamed = block[_LAST] if at and block[_DEATHS] >= _MOST_DEATHS else 0

    def begin(self, slot: int, work: Work) -> None:
        self._block[_AT] = _word(slot, work)

    def pause(self) -> None:
        """What was begun has come back."""
        self._block[_AT] = 0

    def end(self, slot: int, work: Work) -> None:
        """It is done: earlier deaths had another reason."""
        self._block[_AT] = 0
        if self._block[_LAST] == _word(slot, work):
            self._block[_LAST] = self._block[_DEATHS] = 0

    def take_blame(self, slot: int) -> int:
        """How often in a row a cleaner has died while it was at this log; 0 if not, and when it was asked before."""
        if self._blamed == 0 or slot not in (_slot(self._blamed, work) for work in Work):
            return 0
        self._blamed = 0
        return self._block[_DEATHS]


def _word(slot: int, work: Work) -> int:
    """Never 0."""
    return 1 + len(Work) * slot + work


def _slot(word: int, work: Work) -> int | None:
    slot, rest = divmod(word - 1, len(Work))
    return slot if rest == work else None
