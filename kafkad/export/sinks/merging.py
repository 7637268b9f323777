"""Small files of a table, merged into larger ones: which, and how they are written. Only the sink knows how files are
replaced.

Only files that runs have written are merged, and those of one partition, in the order of their offsets: what is known
of their offsets holds for what becomes of them.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from kafkad.export.places import TableFolder
from kafkad.export.problems import ExportFailed
from kafkad.export.ranges import OffsetRange
from kafkad.export.sinks.rewriting import rows
from kafkad.export.writing import Layout, RangeWriter, WrittenFile, is_named_by_run


class KnownFile(NamedTuple):
    """A file of the table, as its log has it."""

    path: str
    size: int
    partition: int
    first_offset: int
    last_offset: int

    @property
    def folders(self) -> str:
        """Those of its date and hour, or empty."""
        return self.path.rpartition("/")[0]


def small_files(files: Iterable[KnownFile], target_bytes: int) -> Iterator[list[KnownFile]]:
    """Files that one of about the target size can replace, two at least."""
    group: list[KnownFile] = []
    for file in sorted(files, key=lambda each: (each.folders, each.partition, each.first_offset)):
        if not is_named_by_run(file.path.rpartition("/")[2]) or file.size >= target_bytes:
            continue
        if group and not _goes_on(group, file, target_bytes):
            if len(group) > 1:
                yield group
            group = []
        group.append(file)
    if len(group) > 1:
        yield group


def _goes_on(group: Sequence[KnownFile], file: KnownFile, target_bytes: int) -> bool:
    last = group[-1]
    return (
        (last.folders, last.partition) == (file.folders, file.partition)
        and last.last_offset < file.first_offset
        and sum(each.size for each in group) + file.size <= target_bytes
    )


def merge(folder: TableFolder, layout: Layout, group: Sequence[KnownFile]) -> WrittenFile:
    """The file with the rows of these. Raises `ExportFailed`."""
    wanted = OffsetRange(group[0].partition, group[0].first_offset, group[-1].last_offset + 1)
    writer = RangeWriter(layout, wanted)
    try:
        batches: Iterator[pa.RecordBatch] = rows(folder, [each.path for each in group], layout.schema)
        return [*(file for batch in batches for file in writer.write(batch)), *writer.close()][0]
    except OSError as error:
        raise ExportFailed(f"{folder.out} can't be written: {error}") from error
    finally:
        writer.abandon()
        with suppress(ExportFailed):
            folder.remove_unfinished(layout.run_id)


def new_run_id() -> str:
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
