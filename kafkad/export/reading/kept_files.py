"""The planned segment files stay open until the commit: retention and compaction may take their names meanwhile.

Whoever plans holds them, and shows them to tasks on its host in a folder of its own, by links to its descriptors. What
is deleted takes room on the disk until then.
"""

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kafkad.core.log.segments.layout import LOG, OFFSET_INDEX, TXN_INDEX, file_name
from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.segments import SegmentReader

_SPARE = 256
"""Descriptors that are left to everything else in the process."""
_KINDS = (LOG, OFFSET_INDEX, TXN_INDEX)


@contextmanager
def keep_open(directories: Mapping[int, str], ranges: Sequence[OffsetRange]) -> Iterator[dict[int, str]]:
    """The folder that shows the files of each partition; none of one with more files than may be open.

    Raises `ExportFailed` for a directory that can't be read.
    """
    if not directories:
        yield {}
        return
    _allow_many_files()
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - len(os.listdir("/proc/self/fd")) - _SPARE
    with ExitStack() as ends:
        # Readable by the tasks of this user, as the descriptors are.
        folder = Path(tempfile.mkdtemp(prefix="kafkad-export-"))
        ends.callback(shutil.rmtree, folder, ignore_errors=True)
        shown: dict[int, str] = {}
        for wanted in ranges:
            directory = directories.get(wanted.partition)
            if directory is None:
                continue
            with ExitStack() as opened:
                descriptors = _open_all(directory, wanted, room, opened)
                if not descriptors:
                    continue
                ends.enter_context(opened.pop_all())
            room -= len(descriptors)
            links = folder / str(wanted.partition)
            links.mkdir()
            for name, descriptor in descriptors.items():
                (links / name).symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
            shown[wanted.partition] = str(links)
        yield shown


def can_be_read(folder: str) -> bool:
    """Whether this process is on the host of the one that shows the files, which still runs, and may open them."""
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return all(os.access(f"{folder}/{name}", os.R_OK) for name in names[:1])


def _open_all(directory: str, wanted: OffsetRange, room: int, opened: ExitStack) -> dict[str, int]:
    """The files of the range by name, as they were at one moment; none when there is no room for all."""
    reader = SegmentReader(directory)
    while True:
        before = reader.sealed_inodes()
        bases = reader.bases_of(wanted.start, wanted.end)
        if len(bases) * len(_KINDS) > room:
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
    """None: there is none, or it may not be read, which the task says better."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    opened.callback(os.close, descriptor)
    return descriptor


def _allow_many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
