"""Where records come from: plain values, which go to tasks in other processes and on other machines."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.records import EARLIEST, fetch, offsets
from kafkad.core.columns.window import BatchWindow, split_window
from kafkad.core.errors import ErrorCode
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.export.problems import BrokerAway, DataLost, ExportFailed, not_answered
from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.damage import Damaged
from kafkad.export.reading.decoding import arrow_batches
from kafkad.export.reading.segments import OffsetGone, SegmentReader
from kafkad.export.reading.transactions import Aborted, CommittedFilter

FETCH_BYTES = 16 * 1024 * 1024
_WAIT_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The records of one topic. `directories`: of the partitions that are read from files; the others, and what has
    left the directory meanwhile, come from `bootstrap`.
    """

    topic: str
    bootstrap: str | None = None
    directories: Mapping[int, str] = field(default_factory=dict)
    is_committed: bool = True
    with_headers: bool = True
    skips_lost: bool = False
    """What is no longer in the log when it is read is left out, and nobody is told."""
    sets_damage_aside: bool = False
    """What is damaged in a directory is a piece of its own, instead of an error."""
    max_bytes_per_sec: int = 0
    """0: no limit; otherwise for each task."""
    timeout_s: float = 30.0


def read_range(source: Source, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of the range, as Arrow batches of some megabytes. Raises `ExportFailed`."""
    return (piece for piece in read_pieces(source, wanted) if not isinstance(piece, Damaged))


def read_pieces(source: Source, wanted: OffsetRange) -> Iterator[pa.RecordBatch | Damaged]:
    """The same, and what was damaged between them and is set aside."""
    committed = CommittedFilter()
    pace = _Pace(source.max_bytes_per_sec)
    try:
        for window in _windows(source, wanted, committed):
            pace.count(len(window.data))
            if isinstance(window, Damaged):
                if wanted.start <= window.offset < wanted.end:
                    yield window
                continue
            visible = committed.visible(window)
            yield from arrow_batches(
                window,
                visible,
                source.topic,
                wanted.partition,
                wanted.start,
                wanted.end,
                with_headers=source.with_headers,
            )
    except CorruptBatch as error:
        raise ExportFailed(f"{source.topic}-{wanted.partition}: a record batch is damaged, {error}") from error


def _windows(source: Source, wanted: OffsetRange, committed: CommittedFilter) -> Iterator[BatchWindow | Damaged]:
    directory = source.directories.get(wanted.partition)
    start = wanted.start
    if directory is not None:
        reader = SegmentReader(directory)
        try:
            if source.is_committed:
                committed.learn(reader.aborted(start, wanted.end))
            read = reader.pieces if source.sets_damage_aside else reader.windows
            for window in read(start, wanted.end):
                start = window.end if isinstance(window, Damaged) else int(window.last_offset[-1]) + 1
                yield window
        except OffsetGone as gone:
            if source.bootstrap is None:
                raise DataLost(f"{gone}, and there is no broker to ask") from gone
            start = max(start, gone.offset)
        else:
            return
    yield from _fetched(source, OffsetRange(wanted.partition, start, wanted.end), committed)


def _fetched(source: Source, wanted: OffsetRange, committed: CommittedFilter) -> Iterator[BatchWindow]:
    """Through the broker: a response has whole batches, and a part of one behind them."""
    if source.bootstrap is None:
        raise ExportFailed(f"{source.topic}-{wanted.partition} is in no directory here, and no broker is named")
    start = wanted.start
    try:
        with BrokerClient(source.bootstrap, source.timeout_s) as client:
            while True:
                try:
                    yield from _fetched_from(client, source, wanted._replace(start=start), committed)
                except DataLost:
                    earliest = offsets(client, source.topic, [wanted.partition], EARLIEST)[wanted.partition]
                    if not source.skips_lost or earliest <= start:
                        raise
                    start = earliest
                else:
                    return
    except BrokerCallFailed as failed:
        raise not_answered(failed) from failed


def _fetched_from(
    client: BrokerClient, source: Source, wanted: OffsetRange, committed: CommittedFilter
) -> Iterator[BatchWindow]:
    topic, partition, start, end = source.topic, *wanted
    size = FETCH_BYTES
    # A new leader may not know yet how far its log is committed.
    deadline_s = time.monotonic() + source.timeout_s
    while start < end:
        try:
            (answer,) = fetch(
                client,
                topic,
                {partition: start},
                max_wait_ms=_WAIT_MS,
                max_bytes=size,
                is_committed=source.is_committed,
            )
        except BrokerCallFailed as failed:
            if failed.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            raise DataLost(f"{topic}-{partition}: offset {start} is no longer in the log") from failed
        committed.learn(Aborted(*row) for row in answer.aborted)
        window = split_window(answer.records, 0, 1 << 62)
        if len(window) == 0:
            if answer.records:
                size *= 2
            elif (answer.last_stable_offset if source.is_committed else answer.high_watermark) >= end:
                # Compacted away up to the end.
                return
            elif time.monotonic() > deadline_s:
                raise BrokerAway(f"{topic}-{partition}: the broker has records only up to {answer.high_watermark} now")
            continue
        deadline_s = time.monotonic() + source.timeout_s
        start = int(window.last_offset[-1]) + 1
        yield window


class _Pace:
    """Sleeps so that no more than so many bytes a second are read."""

    def __init__(self, bytes_per_sec: int) -> None:
        self._rate = bytes_per_sec
        self._began_s = time.monotonic()
        self._read = 0

    def count(self, size: int) -> None:
        if self._rate:
            self._read += size
            ahead_s = self._read / self._rate - (time.monotonic() - self._began_s)
            if ahead_s > 0:
                time.sleep(ahead_s)
