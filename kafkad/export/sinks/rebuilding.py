"""The log of a Parquet table is gone, its files are there: the log is made anew from what the files say of themselves.

Within a folder and a partition a file has all records from its first to its last offset. So of two files where one has
the offsets of the other, the smaller one was merged into the larger one, or is of a run that was killed: it is left
out. What can't be known any more is up to when the table was complete, and why offsets are in no file.
"""

import base64
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kafkad.export.places import TableFolder
from kafkad.export.problems import AnotherExport, ExportFailed
from kafkad.export.ranges import OffsetRange
from kafkad.export.request import KEEP_ALL
from kafkad.export.schema import RECORDS
from kafkad.export.sinks.foreign_files import files_of_runs
from kafkad.export.sinks.manifest_log import FORMAT, LOG, ManifestLog
from kafkad.export.sinks.merging import new_run_id
from kafkad.export.values.columns import plain, widened
from kafkad.export.writing import DATE, HOUR, SAID, NameOfFile, WrittenFile, divided_by, parse_name


class Rebuilt(NamedTuple):
    """The table as its new log has it: so many files, and from where to where they go. `empty` are the offsets between
    them that are in no file, and `left_out` files that do not belong to the table.
    """

    out: str
    files: int
    ranges: Sequence[OffsetRange]
    empty: Sequence[OffsetRange]
    left_out: Sequence[str]


class _Of(NamedTuple):
    """Of which topic a file is."""

    cluster_id: str
    topic_id: str
    topic: str
    keeps: str


class _Said(NamedTuple):
    """`of` is None, and `start` the first offset, where the file does not say it: that is what a kafkad of before has
    written.
    """

    file: WrittenFile
    run_id: str
    columns: pa.Schema
    start: int
    of: _Of | None


def has_lost_log(folder: TableFolder) -> bool:
    """Whether there are files of runs, and no commit."""
    return ManifestLog(folder).last() is None and bool(files_of_runs(folder))


def rebuild_log(folder: TableFolder, topic: str) -> Rebuilt:
    """Make the first commit of a new log with all files of the table. Raises `ExportFailed`."""
    # The newest last: it knows of which topic the table is now, and all columns.
    said = sorted((_said(folder, path) for path in files_of_runs(folder)), key=lambda each: (each.run_id, each.file))
    known = [each.of for each in said if each.of is not None]
    if not known:
        raise ExportFailed(
            f"{folder.out}: its files do not say of which topic they are, as a kafkad of before has written them: only"
            f" a copy of {LOG} helps"
        )
    of = known[-1]
    _check_same_table(folder, said, of, topic)
    earlier = [each for each in said if each.of is not None and each.of != of]
    now = [each for each in said if each not in earlier]
    kept = [*_without_contained(earlier), *_without_contained(now)]
    paths = {each.file.path for each in kept}
    ranges = [_reach(partition, now) for partition in sorted({each.file.partition for each in now})]
    if not ManifestLog(folder).publish(0, _manifest(of, kept, now, ranges, has_earlier_topic=bool(earlier)), paths):
        raise AnotherExport(f"{folder.out}: another process has created its log meanwhile")
    return Rebuilt(
        out=folder.out,
        files=len(kept),
        ranges=ranges,
        empty=[gap for whole in ranges for gap in _gaps(whole, now)],
        left_out=[each.file.path for each in said if each.file.path not in paths],
    )


def _said(folder: TableFolder, path: str) -> _Said:
    *folders, last = path.split("/")
    name = parse_name(last)
    assert name is not None, path
    try:
        with folder.open(path) as file, pq.ParquetFile(file) as parquet:
            size, footer, columns = file.size(), parquet.metadata, parquet.schema_arrow
    except pa.ArrowInvalid as error:
        raise ExportFailed(f"{folder.out}/{path} can't be read: {error}") from error
    said = json.loads((footer.metadata or {}).get(SAID.encode(), b"{}"))
    first_us, last_us = (said["min_timestamp"], said["max_timestamp"]) if said else _times(footer)
    dates = dict(each.split("=", 1) for each in folders)
    written = WrittenFile(
        path=path,
        size=size,
        partition=name.partition,
        first_offset=name.first_offset,
        last_offset=name.last_offset,
        rows=footer.num_rows,
        min_timestamp=first_us,
        max_timestamp=last_us,
        date=dates.get(DATE),
        hour=dates.get(HOUR),
        unparsed=said.get("unparsed", 0),
    )
    of = _Of(said["cluster_id"], said["topic_id"], said["topic"], said["keeps"]) if said else None
    _check_name(folder, path, name, of)
    return _Said(written, name.run_id, columns.remove_metadata(), said.get("start", name.first_offset), of)


def _check_name(folder: TableFolder, path: str, name: NameOfFile, of: _Of | None) -> None:
    if of is not None and of.topic != name.topic:
        raise ExportFailed(f"{folder.out}/{path} is of topic {of.topic!r}, as it says itself")


def _times(footer: pq.FileMetaData) -> tuple[int | None, int | None]:
    """The smallest and the largest, in microseconds, where each group of rows says them."""
    number = footer.schema.names.index("timestamp")
    groups = [footer.row_group(each).column(number).statistics for each in range(footer.num_row_groups)]
    if not groups or not all(each is not None and each.has_min_max for each in groups):
        return None, None
    bounds = pa.array([time for each in groups for time in (each.min, each.max)], RECORDS.field("timestamp").type)
    times = bounds.cast(pa.int64()).to_pylist()
    return min(times), max(times)


def _check_same_table(folder: TableFolder, said: Sequence[_Said], of: _Of, topic: str) -> None:
    for each in said:
        name = parse_name(each.file.path.rpartition("/")[2])
        named = each.of.topic if each.of is not None else name.topic if name is not None else topic
        if named != topic:
            raise ExportFailed(f"{folder.out}/{each.file.path} is of topic {named!r}, not {topic!r}")
        if each.of is not None and each.of.cluster_id != of.cluster_id:
            raise ExportFailed(f"{folder.out} has files of two clusters, {each.of.cluster_id} and {of.cluster_id}")
    if any(each.of is None for each in said) and len({each.of for each in said if each.of is not None}) > 1:
        raise ExportFailed(f"{folder.out} has files of an earlier topic {topic!r}, and some that do not say of which")
    if of.keeps != KEEP_ALL:
        raise ExportFailed(
            f"{folder.out} has the latest of each key, and which files those are only {LOG} has said: export it anew"
        )


def _without_contained(said: Iterable[_Said]) -> Iterator[_Said]:
    """Without files whose offsets a larger one has. Raises `ExportFailed` for two that share only some."""
    newest_first = sorted(said, key=lambda each: each.run_id, reverse=True)
    last: _Said | None = None
    for each in sorted(newest_first, key=_by_offsets):
        if last is None or _place(each.file) != _place(last.file) or each.file.first_offset > last.file.last_offset:
            last = each
            yield each
        elif each.file.last_offset > last.file.last_offset:
            raise ExportFailed(
                f"{last.file.path} and {each.file.path} both have offsets {each.file.first_offset} to"
                f" {last.file.last_offset}, and each of them has others: move the one away that is not of the table"
            )


def _by_offsets(said: _Said) -> tuple[object, ...]:
    return *_place(said.file), said.file.first_offset, -said.file.last_offset


def _place(file: WrittenFile) -> tuple[int, str, str]:
    return file.partition, file.date or "", file.hour or ""


def _reach(partition: int, said: Iterable[_Said]) -> OffsetRange:
    of_partition = [each for each in said if each.file.partition == partition]
    return OffsetRange(
        partition, min(each.start for each in of_partition), max(each.file.last_offset for each in of_partition) + 1
    )


def _gaps(whole: OffsetRange, said: Iterable[_Said]) -> Iterator[OffsetRange]:
    at = whole.start
    for first, last in sorted(
        (each.file.first_offset, each.file.last_offset) for each in said if each.file.partition == whole.partition
    ):
        if first > at:
            yield whole._replace(start=at, end=first)
        at = max(at, last + 1)


def _manifest(
    of: _Of, kept: Sequence[_Said], now: Sequence[_Said], ranges: Sequence[OffsetRange], *, has_earlier_topic: bool
) -> dict[str, object]:
    reached: dict[str, int] = {}
    now_ms = time.time_ns() // 1_000_000
    for each in now:
        if each.file.max_timestamp is not None:
            partition, time_us = str(each.file.partition), min(each.file.max_timestamp, now_ms * 1_000)
            reached[partition] = max(reached.get(partition, time_us), time_us)
    files = [each.file for each in kept]
    folders = [name for name, value in ((DATE, files[-1].date), (HOUR, files[-1].hour)) if value is not None]
    return {
        "format": FORMAT,
        "commit": 0,
        "cluster_id": of.cluster_id,
        "topic": of.topic,
        "topic_id": of.topic_id,
        "offsets": {str(each.partition): each.end for each in ranges},
        "begins": {str(each.partition): each.start for each in ranges},
        "ranges": [each._asdict() for each in ranges],
        "lost": [],
        "files": [each._asdict() for each in files],
        "keeps": of.keeps,
        "partition_by": divided_by(folders),
        "has_earlier_topic": has_earlier_topic,
        "run": new_run_id(),
        "reached": reached,
        "complete_until": None,
        "schema": base64.b64encode(_columns(kept).serialize().to_pybytes()).decode(),
        "time_ms": now_ms,
    }


def _columns(said: Iterable[_Said]) -> pa.Schema:
    """Those of the oldest file, and what later ones have beside them."""
    kinds: dict[str, pa.DataType] = {}
    for each in sorted(said, key=lambda each: each.run_id):
        for column in each.columns:
            kind = plain(column.type)
            kinds[column.name] = widened(kinds[column.name], kind, column.name) if column.name in kinds else kind
    return pa.schema(list(kinds.items()))
