"""Detects the log on which this cleaner died. After two deaths the next incarnation quarantines the log.

A policy may never return, allocate all memory, or end the interpreter. Without this, each incarnation would die at
once, and no other log would be cleaned. The words are in the process's counter block, which outlives the process.
"""

from enum import IntEnum

from kafkad.core.metrics.catalogue import CLEANER_WORK
from kafkad.core.metrics.counting import Block

_MOST_DEATHS = 2
_AT, _LAST, _DEATHS = range(CLEANER_WORK, CLEANER_WORK + 3)


class Work(IntEnum):
    """The kinds of work on a log."""

    PLANNING = 0
    COMPACTING = 1


class UnfinishedWork:
    """Created at the start of an incarnation: reads the words of the previous one."""

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
        """The step has returned."""
        self._block[_AT] = 0

    def end(self, slot: int, work: Work) -> None:
        """The work is complete: earlier deaths had another cause."""
        self._block[_AT] = 0
        if self._block[_LAST] == _word(slot, work):
            self._block[_LAST] = self._block[_DEATHS] = 0

    def take_deaths(self, slot: int) -> int:
        """The consecutive deaths of cleaners at this log; 0 without any, and after the first call for the log."""
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
