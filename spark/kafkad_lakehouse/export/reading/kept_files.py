"""Keep the planned segment files open until the commit, because retention and compaction may delete or replace them.

The planning process opens the files. Tasks on the same host read them through a folder with links to its descriptors.
Deleted files use disk space until the commit.
"""

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kafkad.core.log.segments.layout import LOG, OFFSET_INDEX, TXN_INDEX, file_name
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.segments import SegmentReader

_RESERVED_DESCRIPTORS = 256
"""Descriptors for all other purposes of the process."""
_KINDS = (LOG, OFFSET_INDEX, TXN_INDEX)


@contextmanager
def keep_open(directories: Mapping[int, str], ranges: Sequence[OffsetRange]) -> Iterator[dict[int, str]]:
    """A folder with links to the open files of each partition; none if a partition needs too many descriptors.

    Raises `ExportFailed` for a directory that can't be read.
    """
    if not directories:
        yield {}
        return
    _allow_many_files()
    free_descriptors = (
        resource.getrlimit(resource.RLIMIT_NOFILE)[0] - len(os.listdir("/proc/self/fd")) - _RESERVED_DESCRIPTORS
    )
    with ExitStack() as ends:
        # Only tasks of the same user can read the folder, as is true for the descriptors.
        folder = Path(tempfile.mkdtemp(prefix="kafkad-export-"))
        ends.callback(shutil.rmtree, folder, ignore_errors=True)
        shown: dict[int, str] = {}
        for offset_range in ranges:
            directory = directories.get(offset_range.partition)
            if directory is None:
                continue
            with ExitStack() as opened:
                descriptors = _open_all(directory, offset_range, free_descriptors, opened)
                if not descriptors:
                    continue
                ends.enter_context(opened.pop_all())
            free_descriptors -= len(descriptors)
            links = folder / str(offset_range.partition)
            links.mkdir()
            for name, descriptor in descriptors.items():
                (links / name).symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
            shown[offset_range.partition] = str(links)
        yield shown


def can_be_read(folder: str) -> bool:
    """Whether the planning process runs on this host, still runs, and lets this process open its files."""
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return all(os.access(f"{folder}/{name}", os.R_OK) for name in names[:1])


def _open_all(directory: str, offset_range: OffsetRange, free_descriptors: int, opened: ExitStack) -> dict[str, int]:
    """A consistent set of the files of the range, by name; empty if there are not enough descriptors."""
    reader = SegmentReader(directory)
    while True:
        before = reader.sealed_inodes()
        bases = reader.bases_of(offset_range.start, offset_range.end)
        if len(bases) * len(_KINDS) > free_descriptors:
            return {}
        with ExitStack() as some:
            found = {
                name: descriptor
                for base in bases
                for name in (file_name(base, kind) for kind in _KINDS)
                if (descriptor := _open(f"{directory}/{name}", some)) is not None
            }
            is_whole = all(file_name(base, LOG) in found for base in bases)
            if is_whole and reader.sealed_inodes() == before:
                opened.enter_context(some.pop_all())
                return found


def _open(path: str, opened: ExitStack) -> int | None:
    """None if the file does not exist or can't be read; the task reports this."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    opened.callback(os.close, descriptor)
    return descriptor


def _allow_many_files() -> None:
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
