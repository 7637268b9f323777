"""Rewrite files of a table with the latest of each key, if the library can't merge.

The files of each partition with new records are rewritten with the old and new rows. The commit replaces the old files.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.sinks.sink import Commit, Sink
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.writing import Layout, RangeWriter, WrittenFile, identity


def rows(folder: TableFolder, paths: Iterable[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of these files, with the current columns of the table."""
    for path in paths:
        for batch in pq.ParquetFile(pa.BufferReader(folder.read(path))).iter_batches():
            yield fitted(batch, schema)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of `schema`; missing columns are null."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = [
        columns[each.name].cast(each.type) if each.name in columns else pa.nulls(batch.num_rows, each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def changed_partitions(commit: Commit) -> list[int]:
    return sorted({file.partition for file in commit.files})


def rewrite_changed(
    folder: TableFolder, commit: Commit, before: Callable[[int], Iterable[pa.RecordBatch]]
) -> list[WrittenFile]:
    """Rewrite the partitions with new records; `before` returns the rows of a partition in the table.

    Returns the new files. Deletes all of them on an error. Raises `ExportFailed`.
    """
    files: list[WrittenFile] = []
    is_complete = False
    try:
        for partition in changed_partitions(commit):
            files += _rewrite(folder, commit, partition, before(partition))
        is_complete = True
    finally:
        if not is_complete:
            _discard(folder, files)
    return files


def _rewrite(
    folder: TableFolder, commit: Commit, partition: int, before: Iterable[pa.RecordBatch]
) -> list[WrittenFile]:
    """Files with the latest record of each key, of the partition's rows in the table and in the commit.

    Holds both in memory. Raises `ExportFailed`.
    """
    # Only --keep latest needs it.
    from kafkad_lakehouse.export.latest import latest_of  # noqa: PLC0415

    new = rows(folder, [file.path for file in commit.files if file.partition == partition], commit.schema)
    kept = [*latest_of(chain(before, new), drops_tombstones=True)]
    if not kept:
        return []
    offset_range = OffsetRange(partition, 0, commit.ends[partition])
    return write_files(
        folder, _layout(folder, commit), offset_range, pa.Table.from_batches(kept).sort_by("offset").to_batches()
    )


def write_files(
    folder: TableFolder, layout: Layout, offset_range: OffsetRange, batches: Iterable[pa.RecordBatch]
) -> list[WrittenFile]:
    """Write these rows to complete files. Deletes all of them on an error. Raises `ExportFailed`."""
    writer = RangeWriter(layout, offset_range)
    files: list[WrittenFile] = []
    is_complete = False
    try:
        for batch in batches:
            files += writer.write(batch)
        files += writer.close()
        is_complete = True
    except OSError as error:
        raise ExportFailed(f"{folder.out} can't be written: {error}") from error
    finally:
        writer.abandon()
        if not is_complete:
            _discard(folder, files)
        with suppress(ExportFailed):
            folder.remove_unfinished(layout.run_id)
    return files


def remove(folder: TableFolder, files: Iterable[WrittenFile]) -> None:
    """Delete files whose rows are in rewritten files."""
    for file in files:
        folder.remove(file.path)


def discard_rejected(folder: TableFolder, sink: Sink, files: Iterable[WrittenFile]) -> None:
    """Delete the files of a rejected commit, except files in the table: the conflicting commit may be the same commit,
    repeated after a lost response.
    """
    with suppress(OSError, ExportFailed):
        there = set(sink.files())
        remove(folder, [file for file in files if file.path not in there])


def _discard(folder: TableFolder, files: Iterable[WrittenFile]) -> None:
    """Delete the files; a file that can't be deleted is an orphan for `maintain`."""
    for file in files:
        with suppress(ExportFailed):
            folder.remove(file.path)


def _layout(folder: TableFolder, commit: Commit) -> Layout:
    """A layout with new file names: a file of the tasks may have the same first and last offset."""
    begun, dash, _ = commit.run_id.rpartition("-")
    return Layout(
        out=folder.out,
        topic=commit.topic,
        run_id=f"{begun}{dash}{os.urandom(4).hex()}",
        schema=commit.schema,
        target_file_bytes=commit.target_file_bytes,
        compression=commit.compression,
        identity=identity(commit.cluster_id, commit.topic_id, commit.topic, commit.keeps),
    )
