"""Rebuild the lost log of a Parquet table from the names and footers of its files.

Within a folder and a partition a file has all records from its first to its last offset. So if the offsets of a file
are part of a larger file, the smaller file was merged into the larger one, or is of a run that was killed: it is
omitted. The marker of complete hours, and the reasons for gaps between files, can't be recovered.
"""

import base64
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kafkad_lakehouse.export.problems import CommitConflict, ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.request import KEEP_ALL
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.sinks.foreign_files import files_of_runs
from kafkad_lakehouse.export.sinks.manifest_log import FORMAT, LOG, ManifestLog
from kafkad_lakehouse.export.sinks.merging import new_run_id
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.values.columns import plain, widened
from kafkad_lakehouse.export.writing import DATE, FOOTER_KEY, HOUR, RunFileName, WrittenFile, divided_by, parse_name


class RebuiltLog(NamedTuple):
    """The table in its new log: the number of files, and the ranges of their offsets.

    `empty` are ranges of offsets in no file, and `left_out` are files that do not belong to the table.
    """

    out: str
    files: int
    ranges: Sequence[OffsetRange]
    empty: Sequence[OffsetRange]
    left_out: Sequence[str]


class _TopicIdentity(NamedTuple):
    """The topic of a file."""

    cluster_id: str
    topic_id: str
    topic: str
    keeps: str


class _TableFile(NamedTuple):
    """A file with its name and footer. Files of an earlier kafkad have no footer: `identity` is then None, and `start`
    is the first offset.
    """

    file: WrittenFile
    run_id: str
    columns: pa.Schema
    start: int
    identity: _TopicIdentity | None


def has_lost_log(folder: TableFolder) -> bool:
    """Whether there are files of runs but no commit."""
    return ManifestLog(folder).last() is None and bool(files_of_runs(folder))


def rebuild_log(folder: TableFolder, topic: str) -> RebuiltLog:
    """Make the first commit of a new log, with all files of the table. Raises `ExportFailed`."""
    # The newest file is the last one: it has the current topic of the table, and all columns.
    files = sorted(
        (_read_file(folder, path) for path in files_of_runs(folder)), key=lambda each: (each.run_id, each.file)
    )
    known = [each.identity for each in files if each.identity is not None]
    if not known:
        raise ExportFailed(
            f"{folder.out}: the log can't be rebuilt: the files are of an earlier kafkad, without their topic id; only"
            f" a copy of {LOG} helps"
        )
    identity = known[-1]
    _check_same_table(folder, files, identity, topic)
    earlier = [each for each in files if each.identity is not None and each.identity != identity]
    now = [each for each in files if each not in earlier]
    kept = [*_without_contained(earlier), *_without_contained(now)]
    paths = {each.file.path for each in kept}
    ranges = [_reach(partition, now) for partition in sorted({each.file.partition for each in now})]
    if not ManifestLog(folder).publish(
        0, _manifest(identity, kept, now, ranges, has_earlier_topic=bool(earlier)), paths
    ):
        raise CommitConflict(f"{folder.out}: another process has created the log concurrently")
    return RebuiltLog(
        out=folder.out,
        files=len(kept),
        ranges=ranges,
        empty=[gap for whole in ranges for gap in _gaps(whole, now)],
        left_out=[each.file.path for each in files if each.file.path not in paths],
    )


def _read_file(folder: TableFolder, path: str) -> _TableFile:
    *folders, last = path.split("/")
    name = parse_name(last)
    assert name is not None, path
    try:
        with folder.open(path) as file, pq.ParquetFile(file) as parquet:
            size, footer, columns = file.size(), parquet.metadata, parquet.schema_arrow
    except pa.ArrowInvalid as error:
        raise ExportFailed(f"{folder.out}/{path} can't be read: {error}") from error
    footer_fields = json.loads((footer.metadata or {}).get(FOOTER_KEY.encode(), b"{}"))
    first_us, last_us = (
        (footer_fields["min_timestamp"], footer_fields["max_timestamp"]) if footer_fields else _times(footer)
    )
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
        unparsed=footer_fields.get("unparsed", 0),
    )
    identity = (
        _TopicIdentity(
            footer_fields["cluster_id"], footer_fields["topic_id"], footer_fields["topic"], footer_fields["keeps"]
        )
        if footer_fields
        else None
    )
    _check_name(folder, path, name, identity)
    return _TableFile(
        written, name.run_id, columns.remove_metadata(), footer_fields.get("start", name.first_offset), identity
    )


def _check_name(folder: TableFolder, path: str, name: RunFileName, identity: _TopicIdentity | None) -> None:
    if identity is not None and identity.topic != name.topic:
        raise ExportFailed(f"{folder.out}/{path} is of topic {identity.topic!r}, according to its footer")


def _times(footer: pq.FileMetaData) -> tuple[int | None, int | None]:
    """The smallest and the largest timestamp in microseconds; None unless each row group has statistics."""
    number = footer.schema.names.index("timestamp")
    groups = [footer.row_group(each).column(number).statistics for each in range(footer.num_row_groups)]
    if not groups or not all(each is not None and each.has_min_max for each in groups):
        return None, None
    bounds = pa.array([time for each in groups for time in (each.min, each.max)], RECORDS.field("timestamp").type)
    times = bounds.cast(pa.int64()).to_pylist()
    return min(times), max(times)


def _check_same_table(folder: TableFolder, files: Sequence[_TableFile], identity: _TopicIdentity, topic: str) -> None:
    for each in files:
        name = parse_name(each.file.path.rpartition("/")[2])
        named = each.identity.topic if each.identity is not None else name.topic if name is not None else topic
        if named != topic:
            raise ExportFailed(f"{folder.out}/{each.file.path} is of topic {named!r}, not {topic!r}")
        if each.identity is not None and each.identity.cluster_id != identity.cluster_id:
            raise ExportFailed(
                f"{folder.out} has files of two clusters, {each.identity.cluster_id} and {identity.cluster_id}"
            )
    if (
        any(each.identity is None for each in files)
        and len({each.identity for each in files if each.identity is not None}) > 1
    ):
        raise ExportFailed(f"{folder.out} has files of an earlier topic {topic!r}, and files without a topic id")
    if identity.keeps != KEEP_ALL:
        raise ExportFailed(
            f"{folder.out} has the latest of each key, and only the lost {LOG} had its files: export the topic again"
        )


def _without_contained(files: Iterable[_TableFile]) -> Iterator[_TableFile]:
    """The files without those contained in a larger file. Raises `ExportFailed` for two files that overlap partly."""
    newest_first = sorted(files, key=lambda each: each.run_id, reverse=True)
    last: _TableFile | None = None
    for each in sorted(newest_first, key=_by_offsets):
        if last is None or _place(each.file) != _place(last.file) or each.file.first_offset > last.file.last_offset:
            last = each
            yield each
        elif each.file.last_offset > last.file.last_offset:
            raise ExportFailed(
                f"{last.file.path} and {each.file.path} both have offsets {each.file.first_offset} to"
                f" {last.file.last_offset}, and each has further offsets: move the file away that is not in the table"
            )


def _by_offsets(files: _TableFile) -> tuple[object, ...]:
    return *_place(files.file), files.file.first_offset, -files.file.last_offset


def _place(file: WrittenFile) -> tuple[int, str, str]:
    return file.partition, file.date or "", file.hour or ""


def _reach(partition: int, files: Iterable[_TableFile]) -> OffsetRange:
    of_partition = [each for each in files if each.file.partition == partition]
    return OffsetRange(
        partition, min(each.start for each in of_partition), max(each.file.last_offset for each in of_partition) + 1
    )


def _gaps(whole: OffsetRange, files: Iterable[_TableFile]) -> Iterator[OffsetRange]:
    at = whole.start
    for first, last in sorted(
        (each.file.first_offset, each.file.last_offset) for each in files if each.file.partition == whole.partition
    ):
        if first > at:
            yield whole._replace(start=at, end=first)
        at = max(at, last + 1)


def _manifest(
    identity: _TopicIdentity,
    kept: Sequence[_TableFile],
    now: Sequence[_TableFile],
    ranges: Sequence[OffsetRange],
    *,
    has_earlier_topic: bool,
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
        "cluster_id": identity.cluster_id,
        "topic": identity.topic,
        "topic_id": identity.topic_id,
        "offsets": {str(each.partition): each.end for each in ranges},
        "begins": {str(each.partition): each.start for each in ranges},
        "ranges": [each._asdict() for each in ranges],
        "lost": [],
        "files": [each._asdict() for each in files],
        "keeps": identity.keeps,
        "partition_by": divided_by(folders),
        "has_earlier_topic": has_earlier_topic,
        "run": new_run_id(),
        "reached": reached,
        "complete_until": None,
        "schema": base64.b64encode(_columns(kept).serialize().to_pybytes()).decode(),
        "time_ms": now_ms,
    }


def _columns(files: Iterable[_TableFile]) -> pa.Schema:
    """The columns of the oldest file, and the additional columns of later files."""
    kinds: dict[str, pa.DataType] = {}
    for each in sorted(files, key=lambda each: each.run_id):
        for column in each.columns:
            kind = plain(column.type)
            kinds[column.name] = widened(kinds[column.name], kind, column.name) if column.name in kinds else kind
    return pa.schema(list(kinds.items()))
