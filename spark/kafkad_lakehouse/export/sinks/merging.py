"""Merge small files of a table into larger ones. The sink makes the commit that replaces the files.

Only files that runs wrote are merged, and only files of one partition, in offset order.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkad_lakehouse.export.problems import CommitConflict
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.sinks.rewriting import remove, rows, write_files
from kafkad_lakehouse.export.sinks.sink import Merged
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.writing import PARTITIONS, Layout, WrittenFile, is_run_file_name


class TableFile(NamedTuple):
    """A file in the log of the table."""

    path: str
    size: int
    partition: int
    first_offset: int
    last_offset: int

    @property
    def folders(self) -> str:
        """The folders of date and hour, or empty."""
        return self.path.rpartition("/")[0]

    @property
    def partition_by(self) -> str:
        depth = len(self.folders.split("/")) if self.folders else 0
        return next(name for name, folders in PARTITIONS.items() if len(folders) == depth)


Replace = Callable[[Sequence[TableFile], Sequence[WrittenFile]], None]
"""Commits the replacement of files, if all of them are still in the table. Raises `CommitConflict`."""


def small_files(files: Iterable[TableFile], target_bytes: int) -> Iterator[list[TableFile]]:
    """Groups of at least two files that one file of at most `target_bytes` can replace."""
    group: list[TableFile] = []
    for file in sorted(files, key=lambda each: (each.folders, each.partition, each.first_offset)):
        if not is_run_file_name(file.path.rpartition("/")[2]) or file.size >= target_bytes:
            continue
        if group and not _continues(group, file, target_bytes):
            if len(group) > 1:
                yield group
            group = []
        group.append(file)
    if len(group) > 1:
        yield group


def _continues(group: Sequence[TableFile], file: TableFile, target_bytes: int) -> bool:
    last = group[-1]
    return (
        (last.folders, last.partition) == (file.folders, file.partition)
        and last.last_offset < file.first_offset
        and sum(each.size for each in group) + file.size <= target_bytes
    )


def merge(folder: TableFolder, layout: Layout, groups: Sequence[Sequence[TableFile]], replace_files: Replace) -> Merged:
    """Replace each group by one file, in one commit. Raises `ExportFailed`."""
    new: list[WrittenFile] = []
    is_unused = True
    try:
        for group in groups:
            new.append(_merged(folder, layout, group))
        # After an error in the commit its outcome is unknown: the next `maintain` deletes unused files.
        is_unused = False
        replace_files([file for group in groups for file in group], new)
    except CommitConflict:
        is_unused = True
        raise
    finally:
        if is_unused:
            remove(folder, new)
    return Merged(sum(map(len, groups)), len(new))


def _merged(folder: TableFolder, layout: Layout, group: Sequence[TableFile]) -> WrittenFile:
    """One file with the rows of the group."""
    offset_range = OffsetRange(group[0].partition, group[0].first_offset, group[-1].last_offset + 1)
    whole = replace(layout, partition_by=group[0].partition_by, target_file_bytes=sys.maxsize)
    files = _written(folder, whole, offset_range, group)
    if len(files) > 1:
        remove(folder, files)
        files = _written(folder, replace(whole, has_bounds=False), offset_range, group)
    (file,) = files
    return file


def _written(
    folder: TableFolder, layout: Layout, offset_range: OffsetRange, group: Sequence[TableFile]
) -> list[WrittenFile]:
    return write_files(folder, layout, offset_range, rows(folder, [each.path for each in group], layout.schema))


def new_run_id() -> str:
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
