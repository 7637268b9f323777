"""Filter batches of aborted transactions, as consumers do with read_committed (KIP-98).

An aborted transaction extends from its first offset, in the index or the Fetch response, to the producer's next marker.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.window import BatchWindow
from kafkad.core.log.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG

_UNKNOWN = (1 << 63) - 1


class Aborted(NamedTuple):
    """An aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int = _UNKNOWN
    """The offset of its marker; unknown in Fetch responses. Compaction may remove the marker."""


class CommittedFilter:
    """Call `visible` for windows in offset order, from the first requested offset on."""

    def __init__(self, aborted: Iterable[Aborted] = ()) -> None:
        self._ahead: list[Aborted] = []
        self._open: dict[int, int] = {}
        self.add(aborted)

    def add(self, aborted: Iterable[Aborted]) -> None:
        """Add aborted transactions, for example from the next Fetch response."""
        known = set(self._ahead)
        self._ahead += [each for each in aborted if each not in known]
        self._ahead.sort(key=lambda each: each.first_offset, reverse=True)

    def may_end_at(self, offset: int) -> bool:
        """Whether an unreadable record at this offset may be the marker of an aborted transaction with an unknown end.

        Without the marker, later records of the same producer would seem to be aborted too.
        """
        ahead = (each for each in self._ahead if each.first_offset < offset)
        return any(each.last_offset == _UNKNOWN for each in ahead) or _UNKNOWN in self._open.values()

    def visible(self, window: BatchWindow) -> Flags:
        """Flags of the batches with data for consumers: no markers, no batches of aborted transactions."""
        attributes = window.headers["attributes"]
        flags: Flags = (attributes & CONTROL_FLAG) == 0
        rows = np.flatnonzero(attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG))
        if rows.size == 0:
            return flags
        fields = (window.last_offset[rows], window.column("producer_id")[rows], attributes[rows])
        for row, last, producer_id, bits in zip(rows.tolist(), *(field.tolist() for field in fields), strict=True):
            while self._ahead and self._ahead[-1].first_offset <= last:
                begun = self._ahead.pop()
                self._open[begun.producer_id] = begun.last_offset
            if bits & CONTROL_FLAG:
                self._open.pop(producer_id, None)
            elif last <= self._open.get(producer_id, -1):
                flags[row] = False
        return flags
