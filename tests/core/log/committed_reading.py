"""What a consumer with read_committed takes from a log, by the rules that clients follow; and what is there to take.

The long way round: every batch of every segment file, without indexes and without producer state.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.reading.log_reader import LogReader
from kafkad.core.log.records.batch import HEADER_SIZE, BatchHeader, read_header
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.records.end_markers import read_end_marker
from kafkad.core.log.segments.layout import LOG, file_name
from kafkad.core.log.segments.transaction_index import AbortedTransaction
from kafkad.core.ports import SegmentStore
from tests.core.log.log_content import segment_bases


class Content(NamedTuple):
    """A batch as it lies in a segment; `commits` is None unless it is a marker."""

    segment_base: int
    header: BatchHeader
    commits: bool | None


def content(store: SegmentStore, log_end: int) -> list[Content]:
    found: list[Content] = []
    for base in segment_bases(store):
        file = store.open(file_name(base, LOG))
        for position, header in walk_batches(file.read_at, 0, file.size()):
            if header.base_offset >= log_end:
                break
            marker = read_end_marker(memoryview(file.read_at(header.size, position))) if header.is_control else None
            found.append(Content(base, header, marker.commit if marker is not None else None))
    return found


class Outcome:
    """What a list of batches amounts to: who aborted what, what is open, and the index entries for it."""

    def __init__(self, batches: list[Content], high_watermark: int) -> None:
        self.open: dict[int, int] = {}
        """Producer id → first offset."""
        self.index: dict[int, list[AbortedTransaction]] = {}
        """By segment."""
        self.aborted_offsets: set[int] = set()
        self.unstable: list[int] = []
        written: dict[int, list[int]] = {}
        for segment_base, header, commits in batches:
            producer_id = header.producer_id
            if commits is None:
                if header.is_transactional:
                    self.open.setdefault(producer_id, header.base_offset)
                    written.setdefault(producer_id, []).append(header.base_offset)
                continue
            first = self.open.pop(producer_id, None)
            offsets = written.pop(producer_id, [])
            if first is None:
                continue
            if header.base_offset >= high_watermark:
                self.unstable.append(first)
            if not commits:
                self.aborted_offsets.update(offsets)
                stable = min(self.open.values(), default=header.base_offset + 1)
                entry = AbortedTransaction(producer_id, first, header.base_offset, stable)
                self.index.setdefault(segment_base, []).append(entry)
        self.last_stable = min([*self.open.values(), *self.unstable, high_watermark])

    def committed(self, batches: list[Content]) -> list[int]:
        """First offsets of the batches that may be read."""
        return [
            header.base_offset
            for _, header, commits in batches
            if commits is None
            and header.base_offset not in self.aborted_offsets
            and header.last_offset < self.last_stable
        ]


def consume(log: PartitionLog, start: int, max_bytes: int) -> list[int]:
    """First offsets of the batches that a consumer is given, fetch by fetch, from `start` to the last stable offset."""
    reader = LogReader(log.store, log.manifest())
    upper = log.last_stable
    taken: list[int] = []
    offset = start
    while offset < upper.offset:
        extent = reader.locate(offset, upper, max_bytes)
        aborted = reader.aborted(offset, extent, upper)
        records = log.store.open(file_name(extent.segment_base, LOG)).read_at(extent.length, extent.position)
        if extent.length == 0:
            # Nothing is left between here and there: the power took it.
            break
        for header, is_taken in _filtered(memoryview(records), sorted(aborted, key=lambda row: row[1])):
            offset = header.next_offset
            if is_taken and header.base_offset >= start:
                taken.append(header.base_offset)
    return taken


def _filtered(records: memoryview, aborted: list[tuple[int, int]]) -> Iterator[tuple[BatchHeader, bool]]:
    """Kafka's consumer: the transactions that begin up to here are aborted until their marker comes."""
    passing_over: set[int] = set()
    at = 0
    while len(records) - at >= HEADER_SIZE:
        header = read_header(records, at)
        if at + header.size > len(records):
            return
        while aborted and aborted[0][1] <= header.last_offset:
            passing_over.add(aborted.pop(0)[0])
        if header.is_control:
            marker = read_end_marker(records[at : at + header.size])
            if marker is not None and not marker.commit:
                passing_over.discard(header.producer_id)
        is_aborted = header.is_transactional and header.producer_id in passing_over
        yield header, not header.is_control and not is_aborted
        at += header.size
