"""Finds the batches of aborted transactions, and the markers that can be removed (CleanedTransactionMetadata).

Data of an aborted transaction is removed. A marker may be removed when no batch of its transaction is left; until then
the entry of an aborted transaction stays in the transaction index of the cleaned segment.
"""

from collections import deque
from collections.abc import Iterable

import numpy as np

from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.window import BatchWindow
from kafkad.core.log.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, CorruptBatch
from kafkad.core.log.records.end_markers import read_end_marker
from kafkad.core.log.records.record import MalformedRecords
from kafkad.core.log.segments.transaction_index import AbortedTransaction


class _Aborted:
    """An aborted transaction before its marker."""

    __slots__ = ("entry", "has_batches")

    def __init__(self, entry: AbortedTransaction) -> None:
        self.entry = entry
        self.has_batches = False


class CleanedTransactions:
    """The transactions met so far in a log, whose windows are read in order."""

    __slots__ = ("_aborted", "_committed", "_ongoing", "retained")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = deque(sorted(set(aborted), key=lambda entry: entry.first_offset))
        self._ongoing: dict[int, _Aborted] = {}
        self._committed: set[int] = set()
        self.retained: list[AbortedTransaction] = []
        """The entries for the index of the segment that is being written, in the order of their markers."""

    def discardable(self, window: BatchWindow) -> Flags:
        """The batches of `window` with aborted data, and the markers of transactions without batches."""
        flags = np.zeros(len(window), np.bool_)
        attributes = window.headers["attributes"]
        rows = np.flatnonzero(attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG))
        if rows.size == 0:
            return flags
        fields = (window.last_offset[rows], window.column("producer_id")[rows], attributes[rows])
        for row, last, producer_id, bits in zip(rows.tolist(), *(field.tolist() for field in fields), strict=True):
            self._reach(last)
            if bits & CONTROL_FLAG:
                flags[row] = self._marker_is_free(window, row, producer_id)
            else:
                flags[row] = self._is_aborted(producer_id)
        return flags

    def _reach(self, offset: int) -> None:
        while self._aborted and self._aborted[0].first_offset <= offset:
            entry = self._aborted.popleft()
            self._ongoing.setdefault(entry.producer_id, _Aborted(entry))

    def _is_aborted(self, producer_id: int) -> bool:
        aborted = self._ongoing.get(producer_id)
        if aborted is None:
            self._committed.add(producer_id)
            return False
        aborted.has_batches = True
        return True

    def _marker_is_free(self, window: BatchWindow, row: int, producer_id: int) -> bool:
        if window.headers["records_count"][row] == 0:
            # The marker is empty: an earlier pass cleaned it.
            return True
        at, size = int(window.at[row]), int(window.size[row])
        try:
            marker = read_end_marker(memoryview(window.data)[at : at + size])
        except MalformedRecords as error:
            raise CorruptBatch(window.position_of(row), str(error)) from error
        if marker is None:
            return False
        if marker.commit:
            had_batches = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_batches
        aborted = self._ongoing.pop(producer_id, None)
        if aborted is None or not aborted.has_batches:
            return True
        self.retained.append(aborted.entry)
        return False
