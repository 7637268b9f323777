"""The source of records: a plain value for tasks in other processes and on other machines, and reading from it."""

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
from kafkad_lakehouse.export.problems import BrokerUnavailable, DataLost, ExportFailed, export_failure
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.damage import Damaged
from kafkad_lakehouse.export.reading.decoding import arrow_batches
from kafkad_lakehouse.export.reading.fetched_damage import LARGEST_FETCH, FetchAt, set_aside
from kafkad_lakehouse.export.reading.kept_files import can_be_read
from kafkad_lakehouse.export.reading.retrying import Retries
from kafkad_lakehouse.export.reading.segments import OffsetMissing, SegmentReader
from kafkad_lakehouse.export.reading.shared_client import SharedClient
from kafkad_lakehouse.export.reading.transactions import Aborted, CommittedFilter
from kafkad_lakehouse.export.reading.unreadable import batch_of, without_unreadable

FETCH_BYTES = 16 * 1024 * 1024
_WAIT_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The records of one topic. Partitions in `directories` are read from files. Other partitions, and offsets that a
    directory no longer has, are fetched from `bootstrap`.
    """

    topic: str
    bootstrap: str | None = None
    directories: Mapping[int, str] = field(default_factory=dict)
    kept: Mapping[int, str] = field(default_factory=dict)
    """Folders with the segment files that were present at planning; see `kept_files`."""
    is_committed: bool = True
    with_headers: bool = True
    with_metadata: bool = False
    skips_lost: bool = False
    """Skip offsets that the log no longer has, without a message."""
    sets_damage_aside: bool = False
    """Return damage as a `Damaged` piece instead of an error, if its end is known."""
    max_bytes_per_sec: int = 0
    """The limit for each task; 0: no limit."""
    timeout_s: float = 30.0


def read_range(source: Source, offset_range: OffsetRange, client: SharedClient) -> Iterator[pa.RecordBatch]:
    """The records of the range in Arrow batches of some megabytes. Raises `ExportFailed`."""
    return (piece for piece in read_pieces(source, offset_range, client) if not isinstance(piece, Damaged))


def read_pieces(source: Source, offset_range: OffsetRange, client: SharedClient) -> Iterator[pa.RecordBatch | Damaged]:
    """As `read_range`, with the damaged pieces between the batches."""
    committed = CommittedFilter()
    rate_limiter = _RateLimiter(source.max_bytes_per_sec)
    try:
        for window in _windows(source, offset_range, client, committed):
            rate_limiter.count(len(window.data))
            pieces = [window] if isinstance(window, Damaged) else _decoded(source, offset_range, window, committed)
            for piece in pieces:
                # A damaged piece belongs to the range with its first offset.
                if not isinstance(piece, Damaged) or offset_range.start <= piece.offset < offset_range.end:
                    yield piece
    except CorruptBatch as error:
        raise ExportFailed(f"{source.topic}-{offset_range.partition}: a record batch is damaged, {error}") from error


def without_damaged(pieces: Iterable[pa.RecordBatch | Damaged], damaged: list[Damaged]) -> Iterator[pa.RecordBatch]:
    """The record batches; damaged pieces are appended to `damaged`."""
    for piece in pieces:
        if isinstance(piece, Damaged):
            damaged.append(piece)
        else:
            yield piece


def _decoded(
    source: Source, offset_range: OffsetRange, window: BatchWindow, committed: CommittedFilter
) -> Iterator[pa.RecordBatch | Damaged]:
    """The records of the window and its unreadable batches. Raises `ExportFailed` unless damage is set aside."""

    def decode(window: BatchWindow, visible: Flags, start: int) -> Iterator[pa.RecordBatch]:
        return arrow_batches(
            window,
            visible,
            source.topic,
            offset_range.partition,
            start,
            offset_range.end,
            with_headers=source.with_headers,
            with_metadata=source.with_metadata,
        )

    visible = committed.visible(window)
    if source.sets_damage_aside:
        yield from without_unreadable(window, visible, offset_range.start, decode)
        return
    try:
        yield from decode(window, visible, offset_range.start)
    except CorruptBatch as error:
        found = batch_of(window, error)
        raise ExportFailed(
            f"{source.topic}-{offset_range.partition}: at offset {found.offset}, {found}. kafkad export run --on-damage"
            " dlq writes the batch to the dead letters, and skip skips it"
        ) from error


def _windows(
    source: Source, offset_range: OffsetRange, client: SharedClient, committed: CommittedFilter
) -> Iterator[BatchWindow | Damaged]:
    directory = source.directories.get(offset_range.partition)
    start = offset_range.start
    if directory is not None:
        kept = source.kept.get(offset_range.partition)
        reader = SegmentReader(directory, kept if kept is not None and can_be_read(kept) else None)
        try:
            if reader.reaches(offset_range.end):
                if source.is_committed:
                    committed.add(reader.aborted(start, offset_range.end))
                read = reader.pieces if source.sets_damage_aside else reader.windows
                for window in read(start, offset_range.end):
                    start = _end_of(window)
                    yield window
                return
            if source.bootstrap is None:
                raise DataLost(f"{directory} ends before offset {offset_range.end}, and no broker is available")
        except OffsetMissing as missing:
            if source.bootstrap is None:
                raise DataLost(f"{missing}, and no broker is available") from missing
            start = max(start, missing.offset)
    yield from _fetched(source, offset_range, start, client, committed)


def _fetched(
    source: Source, offset_range: OffsetRange, start: int, shared: SharedClient, committed: CommittedFilter
) -> Iterator[BatchWindow | Damaged]:
    """Fetch from the broker from `start` on. After a restart of the broker, continue after the last batch."""
    if source.bootstrap is None:
        raise ExportFailed(f"{source.topic}-{offset_range.partition} is in no directory here, and no broker is named")
    retries = Retries(source.timeout_s)
    while True:
        try:
            client = shared.connected(source.bootstrap, source.timeout_s)
            for window in _fetched_or_skipped(client, source, offset_range, start, committed):
                start = _end_of(window)
                yield window
                retries.reset()
        except BrokerCallFailed as failed:
            shared.close()
            retries.wait(export_failure(failed))
        else:
            shared.used()
            return


def _fetched_or_skipped(
    client: BrokerClient, source: Source, offset_range: OffsetRange, start: int, committed: CommittedFilter
) -> Iterator[BatchWindow | Damaged]:
    """Fetch the range; with `skips_lost` skip offsets that the log no longer has."""
    while True:
        try:
            yield from _fetched_from(client, source, offset_range, start, committed)
        except DataLost:
            earliest = offsets(client, source.topic, [offset_range.partition], EARLIEST)[offset_range.partition]
            if not source.skips_lost or earliest <= start:
                raise
            start = earliest
        else:
            return


def _fetched_from(
    client: BrokerClient, source: Source, offset_range: OffsetRange, start: int, committed: CommittedFilter
) -> Iterator[BatchWindow | Damaged]:
    """Fetch the range. A response has complete batches, and may end with an incomplete one."""
    partition, first, end = offset_range
    name = f"{source.topic}-{partition}"
    fetch_at = partial(_fetch_at, client, source, partition, committed)
    size, cut_off = FETCH_BYTES, 0
    # A new leader may not have advanced its high watermark yet.
    deadline_s = time.monotonic() + source.timeout_s
    while start < end:
        response = fetch_at(start, size)
        try:
            window = _whole_batches(client, source.topic, response, cut_off)
        except CorruptBatch as error:
            damaged = _set_aside(fetch_at, source, name, start, error, committed, is_first=start == first)
            start = damaged.end
            yield damaged
            continue
        if len(window) == 0:
            if response.records:
                size, cut_off = min(2 * size, LARGEST_FETCH), len(response.records)
            elif (response.last_stable_offset if source.is_committed else response.high_watermark) >= end:
                # Compacted away up to the end.
                return
            elif time.monotonic() > deadline_s:
                raise BrokerUnavailable(f"{name}: the broker has records only up to {response.high_watermark} now")
            continue
        deadline_s = time.monotonic() + source.timeout_s
        size, cut_off = FETCH_BYTES, 0
        start = _end_of(window)
        yield window


def _end_of(piece: BatchWindow | Damaged) -> int:
    """The first offset after the piece."""
    return piece.end if isinstance(piece, Damaged) else int(piece.last_offset[-1]) + 1


def _fetch_at(
    client: BrokerClient, source: Source, partition: int, committed: CommittedFilter, offset: int, size: int
) -> FetchedPartition:
    topic = source.topic
    try:
        responses: list[FetchedPartition] = []
        while not responses:
            # A broker that throttles this client returns no partition, and delays the next request.
            responses = fetch(
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
    (response,) = responses
    committed.add(Aborted(*row) for row in response.aborted)
    return response


def _whole_batches(client: BrokerClient, topic: str, response: FetchedPartition, cut_off: int) -> BatchWindow:
    """The complete batches before the first damaged one; none if the first batch is incomplete.

    `cut_off` is the number of bytes of the previous response, if its first batch was incomplete. Raises `CorruptBatch`
    if the first batch is damaged.
    """
    try:
        window = split_window(response.records, 0, 1 << 62)
    except CorruptBatch as error:
        if error.position == 0:
            raise
        window = split_window(response.records[: error.position], 0, error.position)
    if len(window) == 0:
        if 0 < len(response.records) <= cut_off:
            raise CorruptBatch(0, f"its length is more than the available {cut_off} bytes")
        return window
    last = int(window.last_offset[-1])
    # The high watermark in a response may be older than its records.
    if (
        last >= response.high_watermark
        and last >= offsets(client, topic, [response.partition], LATEST)[response.partition]
    ):
        raise CorruptBatch(0, f"this or a later batch has offset {last}, after the high watermark")
    return window


def _set_aside(
    fetch_at: FetchAt,
    source: Source,
    name: str,
    start: int,
    error: CorruptBatch,
    committed: CommittedFilter,
    *,
    is_first: bool,
) -> Damaged:
    """The damaged batch. Raises `ExportFailed` unless damage is set aside and the end of the batch is known."""
    try:
        if not source.sets_damage_aside:
            raise error
        damaged = set_aside(
            fetch_at, start, error, FETCH_BYTES, is_committed=source.is_committed, may_begin_before=is_first
        )
        if damaged.end - damaged.offset == 1 and committed.may_end_at(damaged.offset):
            raise CorruptBatch(0, f"{error.reason}, and it may be the marker of an aborted transaction")
    except CorruptBatch as unclear:
        raise _damaged(name, start, f"as the broker sent it: {unclear.reason}") from unclear
    return damaged


def _damaged(name: str, offset: int, what: str) -> ExportFailed:
    return ExportFailed(
        f"{name}: the record batch at offset {offset} is damaged, {what}. On the broker's machine, --source files"
        " prints its position, and --on-damage dlq or skip continues after it"
    )


class _RateLimiter:
    """Sleeps to limit reading to a number of bytes a second."""

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
