"""A write that fails after the last piece of a segment was made is told, and nothing of the segment is left."""

import errno
import os
from collections.abc import Generator
from concurrent.futures import Future
from pathlib import Path
from threading import Event

import pytest

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.files.write_behind import WriteBehindFiles
from kafkad.core.cleaning.cleaned_segment import CleanedSegment
from kafkad.core.cleaning.rewriting import RewrittenBatches
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import NoSpaceLeft
from kafkad.processes.cleaner.rewriting import _written

PIECE = 100_000


def _two_pieces(files: WriteBehindFiles) -> Generator[int, None, CleanedFiles]:
    segment = CleanedSegment(files, LogConfig(), 0)
    for number in range(2):
        segment.append(RewrittenBatches([bytes(PIECE)], [PIECE], [number], [number], 1))
        yield PIECE
    return segment.finish((), 0)


@pytest.mark.parametrize("kind", [".log.cleaned", ".index.cleaned", ".timeindex.cleaned"])
def test_a_segment_is_not_whole_before_all_of_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    continues, write = Event(), os.pwritev

    def failing(descriptor: int, buffers: list[bytes], position: int) -> int:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if position == PIECE:
            assert continues.wait(60)
        if name.endswith(kind) and (position == PIECE or not name.endswith(".log.cleaned")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, buffers, position)

    monkeypatch.setattr(os, "pwritev", failing)
    files = WriteBehindFiles(tmp_path, FileCache(8))
    with pytest.raises(NoSpaceLeft):
        for progress in _written(_two_pieces(files), None, files, 0):
            if isinstance(progress, Future):
                # It waits for what is unfinished: all has been asked for.
                continues.set()
                progress.exception(60)
    files.close()
    assert os.listdir(tmp_path) == []
