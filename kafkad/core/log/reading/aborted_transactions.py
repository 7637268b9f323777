"""Which aborted transactions does a read_committed reader need, to skip their records?

All with a record in the response, and perhaps some more: the last offset of the response is known only to within an
index entry. Markers may be segments later than the records. Only transactions below the last stable offset matter, so
each is already in an index file.
"""

from kafkad.core.log.reading.segment_facts import SegmentFacts
from kafkad.core.log.segments.layout import LOG, TXN_INDEX, file_name
from kafkad.core.log.segments.transaction_index import AbortedTransaction, collect_aborted
from kafkad.core.ports import LogFile, SegmentStore

_MAX_OPEN_FILES = 32


class AbortedLookup:
    """The transaction indexes of the segments of one generation; of these only `newest` may still get one."""

    __slots__ = ("_facts", "_files", "_newest", "_store")

    def __init__(self, store: SegmentStore, facts: SegmentFacts, newest: int) -> None:
        self._store = store
        self._facts = facts
        self._newest = newest
        self._files: dict[int, LogFile] = {}
        """The most recently read files, least recently read first."""

    def between(self, segment_base: int, fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Transactions with records from `fetch_offset`, in segment `segment_base`, to below `upper_bound`.

        Raises FileNotFoundError when a segment was removed meanwhile.
        """
        found: list[AbortedTransaction] = []
        unindexed: set[int] = set()
        for base in self._facts.possibly_indexed(segment_base):
            file = self._file(base)
            if file is None:
                if base != self._newest:
                    unindexed.add(base)
                continue
            collected = collect_aborted(file, fetch_offset, upper_bound)
            found += collected.aborted
            if collected.is_complete:
                break
        if unindexed:
            self._facts.mark_unindexed(unindexed)
        return found

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, base: int) -> LogFile | None:
        file = self._files.pop(base, None) or self._open(base)
        if file is not None:
            self._files[base] = file
            if len(self._files) > _MAX_OPEN_FILES:
                self._files.pop(next(iter(self._files))).close()
        return file

    def _open(self, base: int) -> LogFile | None:
        """None for a segment without an index: the usual case, so this is cheap."""
        name = file_name(base, TXN_INDEX)
        if self._store.has(name):
            return self._store.open(name)
        # Removal of a segment renames its log first: if the log exists, a missing index never existed.
        log = file_name(base, LOG)
        if not self._store.has(log):
            raise FileNotFoundError(log)
        return None
