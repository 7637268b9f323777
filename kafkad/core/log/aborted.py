"""Which aborted transactions must a reader with read_committed be told of, to pass over their records?

All that have a record in what is sent, and perhaps some more: where the bytes end in the middle of the log, their
last offset is only known to within an index entry. Markers may come segments later than the records. Only those
below the last stable offset are asked about, so that every one of them is in an index file already.
"""

from collections.abc import Sequence

from kafkad.core.log.layout import LOG, TXN_INDEX, file_name
from kafkad.core.log.txn_index import AbortedTransaction, collect_aborted
from kafkad.core.ports import LogFile, SegmentStore


class AbortedLookup:
    """The transaction indexes of the segments of one generation."""

    __slots__ = ("_bases", "_files", "_store", "_without")

    def __init__(self, store: SegmentStore, segment_bases: Sequence[int]) -> None:
        self._store = store
        self._bases = segment_bases
        self._files: dict[int, LogFile] = {}
        self._without: set[int] = set()
        """Segments that are complete and have no index."""

    def between(self, segment_base: int, fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Those with records from `fetch_offset`, in segment `segment_base`, to below `upper_bound`.

        Raises FileNotFoundError when a segment was removed meanwhile.
        """
        found: list[AbortedTransaction] = []
        for base in self._bases:
            if base < segment_base or base in self._without:
                continue
            file = self._files.get(base) or self._open(base)
            if file is None:
                continue
            collected = collect_aborted(file, fetch_offset, upper_bound)
            found += collected.aborted
            if collected.is_complete:
                break
        return found

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _open(self, base: int) -> LogFile | None:
        """None for a segment without an index, which is what most are: it must cost next to nothing."""
        name = file_name(base, TXN_INDEX)
        if self._store.has(name):
            file = self._files[base] = self._store.open(name)
            return file
        # Of a segment that is removed the log is renamed first: if that is there, there never was an index.
        log = file_name(base, LOG)
        if not self._store.has(log):
            raise FileNotFoundError(log)
        if base != self._bases[-1]:
            self._without.add(base)
        return None
