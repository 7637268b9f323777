"""A table of the latest of each key, where the library can't merge: the files of a partition that has something new are
written anew, with what they had. The commit then replaces the ones by the others.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from kafkad.export.places import TableFolder
from kafkad.export.problems import ExportFailed
from kafkad.export.ranges import OffsetRange
from kafkad.export.sinks.sink import Commit, Sink
from kafkad.export.writing import Layout, RangeWriter, WrittenFile, identity


def rows(folder: TableFolder, paths: Iterable[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Of these files, with the columns that the table has now."""
    for path in paths:
        for batch in pq.ParquetFile(pa.BufferReader(folder.read(path))).iter_batches():
            yield fitted(batch, schema)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Columns that it does not have are null."""
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
    """The files of all partitions of which there is something new, with what the table has `before` of each; if it
    raises, none is left. Raises `ExportFailed`.
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
    """Files with the latest of each key of what the table has of this partition, and of the commit's files of it.

    Holds both in memory. Raises `ExportFailed`.
    """
    # Who keeps everything starts without it.
    from kafkad.export.latest import latest_of  # noqa: PLC0415

    new = rows(folder, [file.path for file in commit.files if file.partition == partition], commit.schema)
    kept = [*latest_of(chain(before, new), drops_tombstones=True)]
    if not kept:
        return []
    wanted = OffsetRange(partition, 0, commit.ends[partition])
    return written_anew(
        folder, _layout(folder, commit), wanted, pa.Table.from_batches(kept).sort_by("offset").to_batches()
    )


def written_anew(
    folder: TableFolder, layout: Layout, wanted: OffsetRange, batches: Iterable[pa.RecordBatch]
) -> list[WrittenFile]:
    """All of these rows, in files that are complete; if it raises, none is left. Raises `ExportFailed`."""
    writer = RangeWriter(layout, wanted)
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
    """Their rows are in files that were written anew."""
    for file in files:
        folder.remove(file.path)


def discard_refused(folder: TableFolder, sink: Sink, files: Iterable[WrittenFile]) -> None:
    """Of a commit that found another one before it. Those that the table has stay: that other one may have been this
    very commit, whose answer got lost.
    """
    with suppress(OSError, ExportFailed):
        there = set(sink.files())
        remove(folder, [file for file in files if file.path not in there])


def _discard(folder: TableFolder, files: Iterable[WrittenFile]) -> None:
    """What can't be removed now is an orphan, which `maintain` finds."""
    for file in files:
        with suppress(ExportFailed):
            folder.remove(file.path)


def _layout(folder: TableFolder, commit: Commit) -> Layout:
    """Of names that no file has: the same offsets may be the first and the last ones of what the tasks have written."""
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
