"""Small files of a table, merged into larger ones: which, how they are written, and what becomes of them. Only the sink
knows how files are replaced.

Only files that runs have written are merged, and those of one partition, in the order of their offsets: what is known
of their offsets holds for what becomes of them.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkad.export.places import TableFolder
from kafkad.export.problems import AnotherExport
from kafkad.export.ranges import OffsetRange
from kafkad.export.sinks.rewriting import remove, rows, written_anew
from kafkad.export.sinks.sink import Merged
from kafkad.export.writing import PARTITIONS, Layout, WrittenFile, is_named_by_run


class TableFile(NamedTuple):
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

    @property
    def partition_by(self) -> str:
        depth = len(self.folders.split("/")) if self.folders else 0
        return next(name for name, folders in PARTITIONS.items() if len(folders) == depth)


Replace = Callable[[Sequence[TableFile], Sequence[WrittenFile]], None]
"""The commit: these files go, and those come, if the former are all there still. Raises `AnotherExport`."""


def small_files(files: Iterable[TableFile], target_bytes: int) -> Iterator[list[TableFile]]:
    """Files that one of about the target size can replace, two at least."""
    group: list[TableFile] = []
    for file in sorted(files, key=lambda each: (each.folders, each.partition, each.first_offset)):
        if not is_named_by_run(file.path.rpartition("/")[2]) or file.size >= target_bytes:
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
    """A file for each group, in one commit. Raises `ExportFailed`."""
    new: list[WrittenFile] = []
    is_unused = True
    try:
        for group in groups:
            new.append(_merged(folder, layout, group))
        # Whatever goes wrong in the commit, it may have been made: the next `maintain` knows.
        is_unused = False
        replace_files([file for group in groups for file in group], new)
    except AnotherExport:
        is_unused = True
        raise
    finally:
        if is_unused:
            remove(folder, new)
    return Merged(sum(map(len, groups)), len(new))


def _merged(folder: TableFolder, layout: Layout, group: Sequence[TableFile]) -> WrittenFile:
    """The file with the rows of these, however they compress."""
    wanted = OffsetRange(group[0].partition, group[0].first_offset, group[-1].last_offset + 1)
    whole = replace(layout, partition_by=group[0].partition_by, target_file_bytes=sys.maxsize)
    files = _written(folder, whole, wanted, group)
    if len(files) > 1:
        remove(folder, files)
        files = _written(folder, replace(whole, has_bounds=False), wanted, group)
    (file,) = files
    return file


def _written(folder: TableFolder, layout: Layout, wanted: OffsetRange, group: Sequence[TableFile]) -> list[WrittenFile]:
    return written_anew(folder, layout, wanted, rows(folder, [each.path for each in group], layout.schema))


def new_run_id() -> str:
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
