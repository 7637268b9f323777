"""Which aborted transactions does a read_committed reader need, to skip their records?

All that have a record in what is sent, and perhaps some more: the last offset sent is only known to within an index
entry. Markers may be segments later than the records. Only transactions below the last stable offset are asked for,
so each of them is in an index file already.
"""

from kafkad.core.log.reading.segment_facts import SegmentFacts
from kafkad.core.log.segments.layout import LOG, TXN_INDEX, file_name
from kafkad.core.log.segments.transaction_index import AbortedTransaction, collect_aborted
from kafkad.core.ports import LogFile, SegmentStore

_MOST_OPEN = 32


class AbortedLookup:
    """The transaction indexes of one generation's segments; only segment `newest` may still get one."""

    __slots__ = ("_facts", "_files", "_newest", "_store")

    def __init__(self, store: SegmentStore, facts: SegmentFacts, newest: int) -> None:
        self._store = store
        self._facts = facts
        self._newest = newest
        self._files: dict[int, LogFile] = {}
        """The ones read last, the one read longest ago first."""

    def between(self, segment_base: int, fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Those with records from `fetch_offset`, in segment `segment_base`, to below `upper_bound`.

        Raises FileNotFoundError when a segment was removed meanwhile.
        """
        found: list[AbortedTransaction] = []
        without: set[int] = set()
        for base in self._facts.perhaps_indexed(segment_base):
            file = self._file(base)
            if file is None:
                if base != self._newest:
                    without.add(base)
                continue
            collected = collect_aborted(file, fetch_offset, upper_bound)
            found += collected.aborted
            if collected.is_complete:
                break
        if without:
            self._facts.have_no_index(without)
        return found

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, base: int) -> LogFile | None:
        file = self._files.pop(base, None) or self._open(base)
        if file is not None:
            self._files[base] = file
            if len(self._files) > _MOST_OPEN:
                self._files.pop(next(iter(self._files))).close()
        return file

    def _open(self, base: int) -> LogFile | None:
        """None for a segment without an index. Most have none, so this must be cheap."""
        name = file_name(base, TXN_INDEX)
        if self._store.has(name):
            return self._store.open(name)
        # Removing a segment renames its log first: while the log is there, a missing index never existed.
        log = file_name(base, LOG)
        if not self._store.has(log):
            raise FileNotFoundError(log)
        return None
