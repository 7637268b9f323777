"""Where records come from: plain values, which go to tasks in other processes and on other machines."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.records import EARLIEST, LATEST, FetchedPartition, fetch, offsets
from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.window import BatchWindow, split_window
from kafkad.core.errors import ErrorCode
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.export.problems import BrokerAway, DataLost, ExportFailed, not_answered
from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.damage import Damaged
from kafkad.export.reading.decoding import arrow_batches
from kafkad.export.reading.fetched_damage import LARGEST_FETCH, Ask, set_aside
from kafkad.export.reading.kept_files import can_be_read
from kafkad.export.reading.retrying import Retries
from kafkad.export.reading.segments import OffsetGone, SegmentReader
from kafkad.export.reading.shared_client import SharedClient
from kafkad.export.reading.transactions import Aborted, CommittedFilter
from kafkad.export.reading.unreadable import batch_of, without_unreadable

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
    kept: Mapping[int, str] = field(default_factory=dict)
    """Folders with the same files as they were planned, while whoever planned runs on this host."""
    is_committed: bool = True
    with_headers: bool = True
    with_metadata: bool = False
    skips_lost: bool = False
    """What is no longer in the log when it is read is left out, and nobody is told."""
    sets_damage_aside: bool = False
    """What is damaged is a piece of its own, instead of an error, as far as it can be told where it ends."""
    max_bytes_per_sec: int = 0
    """0: no limit; otherwise for each task."""
    timeout_s: float = 30.0


def read_range(source: Source, wanted: OffsetRange, client: SharedClient) -> Iterator[pa.RecordBatch]:
    """The records of the range, as Arrow batches of some megabytes. Raises `ExportFailed`."""
    return (piece for piece in read_pieces(source, wanted, client) if not isinstance(piece, Damaged))


def read_pieces(source: Source, wanted: OffsetRange, client: SharedClient) -> Iterator[pa.RecordBatch | Damaged]:
    """The same, and what was damaged between them and is set aside."""
    committed = CommittedFilter()
    pace = _Pace(source.max_bytes_per_sec)
    try:
        for window in _windows(source, wanted, client, committed):
            pace.count(len(window.data))
            pieces = [window] if isinstance(window, Damaged) else _decoded(source, wanted, window, committed)
            for piece in pieces:
                # The range that has its first offset has all of it.
                if not isinstance(piece, Damaged) or wanted.start <= piece.offset < wanted.end:
                    yield piece
    except CorruptBatch as error:
        raise ExportFailed(f"{source.topic}-{wanted.partition}: a record batch is damaged, {error}") from error


def without_damaged(pieces: Iterable[pa.RecordBatch | Damaged], damaged: list[Damaged]) -> Iterator[pa.RecordBatch]:
    """The records of the pieces; what is damaged is added to the list."""
    for piece in pieces:
        if isinstance(piece, Damaged):
            damaged.append(piece)
        else:
            yield piece


def _decoded(
    source: Source, wanted: OffsetRange, window: BatchWindow, committed: CommittedFilter
) -> Iterator[pa.RecordBatch | Damaged]:
    """The records of the window, and each batch that can't be read. Raises `ExportFailed` where that is not wanted."""

    def decode(window: BatchWindow, visible: Flags, start: int) -> Iterator[pa.RecordBatch]:
        return arrow_batches(
            window,
            visible,
            source.topic,
            wanted.partition,
            start,
            wanted.end,
            with_headers=source.with_headers,
            with_metadata=source.with_metadata,
        )

    visible = committed.visible(window)
    if source.sets_damage_aside:
        yield from without_unreadable(window, visible, wanted.start, decode)
        return
    try:
        yield from decode(window, visible, wanted.start)
    except CorruptBatch as error:
        found = batch_of(window, error)
        raise ExportFailed(
            f"{source.topic}-{wanted.partition}: at offset {found.offset}, {found}. kafkad export run --on-damage dlq"
            " puts the batch among the dead letters, and skip leaves it out"
        ) from error


def _windows(
    source: Source, wanted: OffsetRange, client: SharedClient, committed: CommittedFilter
) -> Iterator[BatchWindow | Damaged]:
    directory = source.directories.get(wanted.partition)
    start = wanted.start
    if directory is not None:
        kept = source.kept.get(wanted.partition)
        reader = SegmentReader(directory, kept if kept is not None and can_be_read(kept) else None)
        try:
            if reader.reaches(wanted.end):
                if source.is_committed:
                    committed.learn(reader.aborted(start, wanted.end))
                read = reader.pieces if source.sets_damage_aside else reader.windows
                for window in read(start, wanted.end):
                    start = _end_of(window)
                    yield window
                return
            if source.bootstrap is None:
                raise DataLost(f"{directory} ends before offset {wanted.end}, and no broker is available")
        except OffsetGone as gone:
            if source.bootstrap is None:
                raise DataLost(f"{gone}, and no broker is available") from gone
            start = max(start, gone.offset)
    yield from _fetched(source, wanted, start, client, committed)


def _fetched(
    source: Source, wanted: OffsetRange, start: int, shared: SharedClient, committed: CommittedFilter
) -> Iterator[BatchWindow | Damaged]:
    """Through the broker, from `start` on. A broker that restarts meanwhile is asked again, behind what it has sent."""
    if source.bootstrap is None:
        raise ExportFailed(f"{source.topic}-{wanted.partition} is in no directory here, and no broker is named")
    retries = Retries(source.timeout_s)
    while True:
        try:
            client = shared.connected(source.bootstrap, source.timeout_s)
            for window in _fetched_or_skipped(client, source, wanted, start, committed):
                start = _end_of(window)
                yield window
                retries.answered()
        except BrokerCallFailed as failed:
            shared.close()
            retries.wait(not_answered(failed))
        else:
            shared.used()
            return


def _fetched_or_skipped(
    client: BrokerClient, source: Source, wanted: OffsetRange, start: int, committed: CommittedFilter
) -> Iterator[BatchWindow | Damaged]:
    """What is no longer in the log is left out, if so wanted."""
    while True:
        try:
            yield from _fetched_from(client, source, wanted, start, committed)
        except DataLost:
            earliest = offsets(client, source.topic, [wanted.partition], EARLIEST)[wanted.partition]
            if not source.skips_lost or earliest <= start:
                raise
            start = earliest
        else:
            return


def _fetched_from(
    client: BrokerClient, source: Source, wanted: OffsetRange, start: int, committed: CommittedFilter
) -> Iterator[BatchWindow | Damaged]:
    """A response has whole batches, and a part of one behind them."""
    partition, first, end = wanted
    name = f"{source.topic}-{partition}"
    ask = partial(_ask, client, source, partition, committed)
    size, cut_off = FETCH_BYTES, 0
    # A new leader may not know yet how far its log is committed.
    deadline_s = time.monotonic() + source.timeout_s
    while start < end:
        answer = ask(start, size)
        try:
            window = _whole_batches(client, source.topic, answer, cut_off)
        except CorruptBatch as error:
            damaged = _set_aside(ask, source, name, start, error, committed, is_first=start == first)
            start = damaged.end
            yield damaged
            continue
        if len(window) == 0:
            if answer.records:
                size, cut_off = min(2 * size, LARGEST_FETCH), len(answer.records)
            elif (answer.last_stable_offset if source.is_committed else answer.high_watermark) >= end:
                # Compacted away up to the end.
                return
            elif time.monotonic() > deadline_s:
                raise BrokerAway(f"{name}: the broker has records only up to {answer.high_watermark} now")
            continue
        deadline_s = time.monotonic() + source.timeout_s
        size, cut_off = FETCH_BYTES, 0
        start = _end_of(window)
        yield window


def _end_of(piece: BatchWindow | Damaged) -> int:
    """The first offset behind it."""
    return piece.end if isinstance(piece, Damaged) else int(piece.last_offset[-1]) + 1


def _ask(
    client: BrokerClient, source: Source, partition: int, committed: CommittedFilter, offset: int, size: int
) -> FetchedPartition:
    topic = source.topic
    try:
        answers: list[FetchedPartition] = []
        while not answers:
            # A broker that throttles this client says nothing of any partition, and lets the next request wait.
            answers = fetch(
                client,
                topic,
                {partition: offset},
                max_wait_ms=_WAIT_MS,
                max_bytes=size,
                is_committed=source.is_committed,
            )
    except BrokerCallFailed as failed:
        if failed.code is ErrorCode.CORRUPT_MESSAGE:
            raise _damaged(f"{topic}-{partition}", offset, "the broker can't read it either") from failed
        if failed.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        raise DataLost(f"{topic}-{partition}: offset {offset} is no longer in the log") from failed
    (answer,) = answers
    committed.learn(Aborted(*row) for row in answer.aborted)
    return answer


def _whole_batches(client: BrokerClient, topic: str, answer: FetchedPartition, cut_off: int) -> BatchWindow:
    """Those before the first one that is damaged; none, if more bytes are needed than there are. With fewer, there were
    `cut_off` bytes.

    Raises `CorruptBatch` when the first of all is damaged.
    """
    try:
        window = split_window(answer.records, 0, 1 << 62)
    except CorruptBatch as error:
        if error.position == 0:
            raise
        window = split_window(answer.records[: error.position], 0, error.position)
    if len(window) == 0:
        if 0 < len(answer.records) <= cut_off:
            raise CorruptBatch(0, f"it is longer than the {cut_off} bytes that are there")
        return window
    last = int(window.last_offset[-1])
    # What an answer says of the high watermark may be older than its records.
    if last >= answer.high_watermark and last >= offsets(client, topic, [answer.partition], LATEST)[answer.partition]:
        raise CorruptBatch(0, f"it or one behind it has offset {last}, beyond the high watermark")
    return window


def _set_aside(
    ask: Ask, source: Source, name: str, start: int, error: CorruptBatch, committed: CommittedFilter, *, is_first: bool
) -> Damaged:
    """Raises `ExportFailed` where it is not wanted, or not possible."""
    try:
        if not source.sets_damage_aside:
            raise error
        damaged = set_aside(ask, start, error, FETCH_BYTES, is_committed=source.is_committed, may_begin_before=is_first)
        if damaged.end - damaged.offset == 1 and committed.may_end_at(damaged.offset):
            raise CorruptBatch(0, f"{error.reason}, and it may be the marker of an aborted transaction")
    except CorruptBatch as unclear:
        raise _damaged(name, start, f"as the broker sent it: {unclear.reason}") from unclear
    return damaged


def _damaged(name: str, offset: int, what: str) -> ExportFailed:
    return ExportFailed(
        f"{name}: the record batch at offset {offset} is damaged, {what}. On the machine of its segment files, --source"
        " files says where, and --on-damage dlq or skip goes on behind it"
    )


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
