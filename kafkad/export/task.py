"""One task of an export: the records of some ranges into Parquet files, which no table knows yet.

Values in, values out: engines send tasks to other processes and machines.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkad.export.places import TableFolder
from kafkad.export.problems import ExportFailed
from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.source import Source, read_range
from kafkad.export.schema import RECORDS

GROUP_BYTES = 64 * 1024 * 1024
PARTITIONINGS = ("none", "day", "hour")
DATE, HOUR = "date", "hour"
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""The date of records whose timestamp is outside the years 1 to 9999."""
_FIRST_US = -62_135_596_800_000_000
_END_US = 253_402_300_800_000_000
_HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`run_id` is in the names of all files of one run: no run writes over the files of another."""

    source: Source
    ranges: tuple[OffsetRange, ...]
    out: str
    run_id: str
    partition_by: str = "none"
    target_file_bytes: int = 256 * 1024 * 1024
    compression: str = "zstd"


class WrittenFile(NamedTuple):
    """A file of records of one partition. `path` is below the table's folder; times are microseconds since 1970."""

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

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(self._asdict())


def run_task(task: Task) -> Iterator[WrittenFile]:
    """Each file as soon as it is complete. Raises `ExportFailed`."""
    folder = TableFolder(task.out)
    for wanted in task.ranges:
        writers: dict[tuple[str | None, str | None], _FileWriter] = {}
        try:
            for batch in read_range(task.source, wanted):
                for date, hour, part in _divided(batch, task.partition_by):
                    writer = writers.get((date, hour))
                    if writer is None:
                        writer = writers[date, hour] = _FileWriter(folder, task, wanted, date, hour)
                    writer.write(part)
                    if writer.is_full:
                        yield writer.close()
                        del writers[date, hour]
            for key in list(writers):
                yield writers.pop(key).close()
        except OSError as error:
            raise ExportFailed(f"{task.out} can't be written: {error}") from error
        finally:
            for writer in writers.values():
                writer.abandon()


class _FileWriter:
    """A file that is written. It gets its name when it is complete."""

    def __init__(
        self, folder: TableFolder, task: Task, wanted: OffsetRange, date: str | None, hour: str | None
    ) -> None:
        self._folder = folder
        self._task = task
        self._wanted = wanted
        self._date, self._hour = date, hour
        self._first = self._last = -1
        self._rows = 0
        self._times: list[int] = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        parts = ["_tmp", task.run_id, *self._subfolders(), f"{wanted.partition}-{wanted.start}.parquet"]
        self._unfinished = "/".join(parts)
        self._sink = folder.create(self._unfinished)
        self._writer = pq.ParquetWriter(
            self._sink,
            RECORDS,
            compression=task.compression,
            use_dictionary=["key", "topic"],
            write_statistics=["offset", "timestamp"],
        )

    @property
    def is_full(self) -> bool:
        written: int = self._sink.tell()
        return written + self._pending_bytes // 4 >= self._task.target_file_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        if self._rows == 0:
            self._first = batch.column("offset")[0].as_py()
        self._last = batch.column("offset")[-1].as_py()
        self._rows += batch.num_rows
        bounds = pc.min_max(batch.column("timestamp").cast(pa.int64()))
        self._times += [each for each in (bounds["min"].as_py(), bounds["max"].as_py()) if each is not None]
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> WrittenFile:
        self._flush()
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        task, wanted = self._task, self._wanted
        name = f"{task.source.topic}-{wanted.partition}-{self._first:020d}-{self._last:020d}-{task.run_id}.parquet"
        path = "/".join([*self._subfolders(), name])
        self._folder.finish(self._unfinished, path)
        return WrittenFile(
            path=path,
            size=size,
            partition=wanted.partition,
            first_offset=self._first,
            last_offset=self._last,
            rows=self._rows,
            min_timestamp=min(self._times, default=None),
            max_timestamp=max(self._times, default=None),
            date=self._date,
            hour=self._hour,
        )

    def abandon(self) -> None:
        """The task fails: what was written is nobody's."""
        self._sink.close()
        self._folder.remove(self._unfinished)

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.Table.from_batches(self._pending))
            self._pending, self._pending_bytes = [], 0

    def _subfolders(self) -> list[str]:
        rows = [(DATE, self._date), (HOUR, self._hour)]
        return [f"{name}={value}" for name, value in rows if value is not None]


def _divided(batch: pa.RecordBatch, partition_by: str) -> Iterator[tuple[str | None, str | None, pa.RecordBatch]]:
    """The rows of each date (and hour) of UTC, in the order of their offsets."""
    if partition_by == "none":
        yield None, None, batch
        return
    times = batch.column("timestamp").cast(pa.int64()).fill_null(_END_US).to_numpy()
    hours = np.where((times >= _FIRST_US) & (times < _END_US), times // _HOUR_US, _END_US // _HOUR_US)
    if partition_by == "day":
        hours = hours // 24 * 24
    for hour in np.unique(hours).tolist():
        rows = np.flatnonzero(hours == hour)
        part = batch if rows.size == batch.num_rows else batch.take(pa.array(rows))
        date, clock = _names(hour)
        yield date, clock if partition_by == "hour" else None, part


def _names(hour: int) -> tuple[str, str]:
    if hour >= _END_US // _HOUR_US // 24 * 24:
        return NO_DATE, NO_DATE
    at = datetime.fromtimestamp(0, UTC) + timedelta(hours=hour)
    return f"{at.year:04d}-{at:%m-%d}", f"{at.hour:02d}"


def check_coverage(ranges: Sequence[OffsetRange], files: Sequence[WrittenFile]) -> None:
    """No file has records outside the ranges that were planned. Raises `ExportFailed`."""
    for file in files:
        if not any(
            each.partition == file.partition and each.start <= file.first_offset <= file.last_offset < each.end
            for each in ranges
        ):
            raise ExportFailed(f"{file.path} has offsets that were not asked for")
