"""Write the Parquet files of a table, in folders by date and hour if requested, with statistics."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.table_folder import TableFolder, pending_path, unfinished_path
from kafkad_lakehouse.export.values.columns import PARSED, leaves

_GROUP_BYTES = 64 * 1024 * 1024
DATE, HOUR = "date", "hour"
PARTITIONS = {"none": [], "day": [DATE], "hour": [DATE, HOUR]}
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""The date of records with a timestamp outside the years 1 to 9999."""
FIRST_US = -62_135_596_800_000_000
END_US = 253_402_300_800_000_000
"""Times of the years 1 to 9999 are in the range FIRST_US <= time < END_US."""
_HOUR_US = 3_600_000_000
_EPOCH = datetime.fromtimestamp(0, UTC)
_NAME = re.compile(r"(.+)-(\d+)-(\d{20})-(\d{20})-(\d{8}T\d{6}-[0-9a-f]{8})(-[0-9a-f]{8})?\.parquet")
"""Topic, partition, first and last offset, run, and attempt."""
FOOTER_KEY = "kafkad.export"
"""The key in the footer of files for the identity of their table; see `Layout.identity`."""


class RunFileName(NamedTuple):
    """The parsed name of a file that a run wrote."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    run_id: str


def parse_name(name: str) -> RunFileName | None:
    """None if the name is not a file name of a run."""
    found = _NAME.fullmatch(name)
    return None if found is None else RunFileName(found[1], int(found[2]), int(found[3]), int(found[4]), found[5])


def is_run_file_name(name: str) -> bool:
    """Whether the name is a file name of a run."""
    return _NAME.fullmatch(name) is not None


def identity(cluster_id: str, topic_id: UUID, topic: str, keeps: str) -> dict[str, str]:
    """For `Layout.identity`."""
    return {"cluster_id": cluster_id, "topic_id": str(topic_id), "topic": topic, "keeps": keeps}


def divided_by(columns: Sequence[str]) -> str | None:
    """The --partition-by value for these partition columns; None if no value has them."""
    return next((name for name, each in PARTITIONS.items() if each == list(columns)), None)


def is_run_file(path: str) -> bool:
    """Whether the path, relative to the table's folder, is a path of a file that a run wrote."""
    *folders, name = path.split("/")
    return is_run_file_name(name) and all(each.startswith((f"{DATE}=", f"{HOUR}=")) for each in folders)


def hour_number(date: str | None, hour: str | None) -> int | None:
    """The first hour of a file, in hours since 1970; None without a date."""
    if date in (None, NO_DATE):
        return None
    return int((datetime.fromisoformat(f"{date}T{hour or '00'}:00Z") - _EPOCH) / timedelta(hours=1))


class WrittenFile(NamedTuple):
    """A file with records of one partition.

    `path` is relative to the table's folder; times are microseconds since 1970.
    """

    path: str
    size: int
    partition: int
    first_offset: int
    last_offset: int
    rows: int
    min_timestamp: int | None
    max_timestamp: int | None
    date: str | None = None
    hour: str | None = None
    unparsed: int = 0
    """The number of rows with an unparsable key or value, or with a damaged batch."""
    is_dead_letters: bool = False
    """Whether the file belongs to the table of dead letters."""

    def to_json(self) -> str:
        return json.dumps(self._asdict())


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How one run writes the files of a table. `run_id` is part of all file names, so no run overwrites other files."""

    out: str
    topic: str
    run_id: str
    schema: pa.Schema = RECORDS
    partition_by: str = "none"
    has_dates: bool = False
    """Whether date and hour are also columns of the files."""
    by_transform: bool = False
    """Whether the table is partitioned by a transform of the timestamp (Iceberg). Timestamps outside the years 1 to
    9999 are then in the first or last hour of these years, where queries by time find them.
    """
    target_file_bytes: int = 256 * 1024 * 1024
    compression: str = "zstd"
    is_dead_letters: bool = False
    identity: Mapping[str, str] = field(default_factory=dict)
    """The topic of the table, for the footers of its files: the table's log can be rebuilt from them. Empty: none."""
    waits: bool = False
    """Whether files get their names after the commit, on a disk: some readers list the folder instead of the log."""
    attempt: str = ""
    """A part of the file names, for engines that may run a task more than once."""
    has_bounds: bool = True
    """Whether files have statistics of times. A time outside the years 1 to 9999 begins a new file without them,
    because pyiceberg can't read such statistics.
    """

    @property
    def file_schema(self) -> pa.Schema:
        names = PARTITIONS[self.partition_by] if self.has_dates else []
        return pa.schema([*self.schema, *(pa.field(name, pa.string()) for name in names)])


class RangeWriter:
    """Writes the records of a range, in offset order, to files of a table. Raises OSError."""

    def __init__(self, layout: Layout, offset_range: OffsetRange) -> None:
        self._layout = layout
        self._offset_range = offset_range
        self._folder: TableFolder | None = None
        self._files: dict[tuple[str | None, str | None], _FileWriter] = {}
        self.rows = self.files = 0
        """The numbers of written rows and of returned files."""

    def write(self, batch: pa.RecordBatch, unparsed: int = 0) -> Iterator[WrittenFile]:
        """Yields the files that are full."""
        self.rows += batch.num_rows
        if batch.num_rows == 0:
            return
        if self._folder is None:
            self._folder = TableFolder(self._layout.out)
        for date, hour, part in _divided(batch, self._layout):
            has_bounds = self._layout.has_bounds and not any(map(_has_no_date, part.columns))
            file = self._files.get((date, hour))
            if file is not None and file.has_bounds and not has_bounds:
                self.files += 1
                yield file.close()
                file = None
            if file is None:
                file = self._files[date, hour] = _FileWriter(
                    self._folder, self._layout, self._offset_range, date, hour, has_bounds=has_bounds
                )
            file.write(part, unparsed)
            unparsed = 0
            if file.is_full:
                self.files += 1
                yield file.close()
                del self._files[date, hour]

    def close(self) -> Iterator[WrittenFile]:
        for key in list(self._files):
            self.files += 1
            yield self._files[key].close()
            del self._files[key]

    def abandon(self) -> None:
        """Delete the incomplete files."""
        for file in self._files.values():
            file.abandon()


class _FileWriter:
    """Writes one file, which gets its name when it is complete, or after the commit."""

    def __init__(
        self,
        folder: TableFolder,
        layout: Layout,
        offset_range: OffsetRange,
        date: str | None,
        hour: str | None,
        *,
        has_bounds: bool,
    ) -> None:
        self._folder = folder
        self._layout = layout
        self._offset_range = offset_range
        self._date, self._hour = date, hour
        self.has_bounds = has_bounds
        self._first = self._last = -1
        self._rows = self._unparsed = 0
        self._times: list[int] = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        name = f"{offset_range.partition}-{offset_range.start}{layout.attempt}.parquet"
        self._unfinished = unfinished_path(layout.run_id, "/".join([*self._subfolders(), name]))
        self._schema = layout.file_schema
        dates = [name for name in (DATE, HOUR) if name in self._schema.names]
        parsed = [self._schema.field(name) for name in PARSED.values() if name in self._schema.names]
        typed = [leaf for field in parsed for leaf in leaves(field)]
        self._sink = folder.create(self._unfinished)
        self._writer = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=layout.compression,
            use_dictionary=["key", "topic", *dates, *typed],
            write_statistics=["partition", "offset", *dates, *(["timestamp", *typed] if has_bounds else [])],
        )

    @property
    def is_full(self) -> bool:
        written: int = self._sink.tell()
        return written + self._pending_bytes // 4 >= self._layout.target_file_bytes

    def write(self, batch: pa.RecordBatch, unparsed: int) -> None:
        if self._rows == 0:
            self._first = batch.column("offset")[0].as_py()
        self._last = batch.column("offset")[-1].as_py()
        self._rows += batch.num_rows
        self._unparsed += unparsed
        self._times += _bounds(batch.column("timestamp"), pa.int64())
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> WrittenFile:
        self._flush()
        layout, offset_range = self._layout, self._offset_range
        first_us, last_us = min(self._times, default=None), max(self._times, default=None)
        if layout.identity:
            footer = {**layout.identity, "start": offset_range.start, "unparsed": self._unparsed}
            footer |= {"min_timestamp": first_us, "max_timestamp": last_us}
            self._writer.add_key_value_metadata({FOOTER_KEY: json.dumps(footer)})
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        place = f"{layout.topic}-{offset_range.partition}-{self._first:020d}-{self._last:020d}"
        path = "/".join([*self._subfolders(), f"{place}-{layout.run_id}{layout.attempt}.parquet"])
        self._folder.finish(self._unfinished, pending_path(layout.run_id, path) if layout.waits else path)
        return WrittenFile(
            path=path,
            size=size,
            partition=offset_range.partition,
            first_offset=self._first,
            last_offset=self._last,
            rows=self._rows,
            min_timestamp=first_us,
            max_timestamp=last_us,
            date=self._date,
            hour=self._hour,
            unparsed=self._unparsed,
            is_dead_letters=layout.is_dead_letters,
        )

    def abandon(self) -> None:
        """Delete the file; the task reports its error elsewhere."""
        with suppress(OSError, ValueError):
            self._writer.close()
        # Otherwise the destructor closes the file again, and prints a stack trace.
        self._writer.is_open = False
        with suppress(OSError):
            self._sink.close()
        with suppress(ExportFailed):
            self._folder.remove(self._unfinished)

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending)
            for name, value in ((DATE, self._date), (HOUR, self._hour)):
                if name in self._schema.names:
                    column = pa.repeat(pa.scalar(None if value == NO_DATE else value, pa.string()), table.num_rows)
                    table = table.append_column(pa.field(name, pa.string()), column)
            self._writer.write_table(table)
            self._pending, self._pending_bytes = [], 0

    def _subfolders(self) -> list[str]:
        rows = [(DATE, self._date), (HOUR, self._hour)]
        return [f"{name}={value}" for name, value in rows if value is not None]


def _has_no_date(column: pa.Array) -> bool:
    """Whether a time in the column is outside the years 1 to 9999; lists and maps are not checked."""
    kind = column.type
    if pa.types.is_struct(kind):
        return any(_has_no_date(column.field(number)) for number in range(kind.num_fields))
    if not pa.types.is_timestamp(kind) and not pa.types.is_date32(kind):
        return False
    unit_us = 1 if pa.types.is_timestamp(kind) else 24 * _HOUR_US
    bounds = _bounds(column, pa.int64() if unit_us == 1 else pa.int32())
    return bool(bounds) and not (bounds[0] * unit_us >= FIRST_US and bounds[1] * unit_us < END_US)


def _bounds(times: pa.Array, kind: pa.DataType) -> tuple[int, ...]:
    """The smallest and the largest time as numbers of type `kind`; empty if all are null."""
    known = times.cast(kind).drop_null().to_numpy()
    return (int(known.min()), int(known.max())) if known.size else ()


def _divided(batch: pa.RecordBatch, layout: Layout) -> Iterator[tuple[str | None, str | None, pa.RecordBatch]]:
    """The rows of each date (and hour) in UTC, in offset order."""
    if layout.partition_by == "none":
        yield None, None, batch
        return
    times = batch.column("timestamp").cast(pa.int64())
    is_dated = times.is_valid().to_numpy(zero_copy_only=False)
    times = times.fill_null(0).to_numpy()
    if layout.by_transform:
        times = times.clip(FIRST_US, END_US - 1)
    hours = np.where(is_dated & (times >= FIRST_US) & (times < END_US), times // _HOUR_US, END_US // _HOUR_US)
    if layout.partition_by == "day":
        hours = hours // 24 * 24
    for hour in np.unique(hours).tolist():
        rows = np.flatnonzero(hours == hour)
        part = batch if rows.size == batch.num_rows else batch.take(pa.array(rows))
        date, clock = _names(hour)
        yield date, clock if layout.partition_by == "hour" else None, part


def _names(hour: int) -> tuple[str, str]:
    if hour >= END_US // _HOUR_US // 24 * 24:
        return NO_DATE, NO_DATE
    at = _EPOCH + timedelta(hours=hour)
    return f"{at.year:04d}-{at:%m-%d}", f"{at.hour:02d}"
