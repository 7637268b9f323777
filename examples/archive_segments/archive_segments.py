"""A cleanup policy that keeps old segments elsewhere before it deletes them.

A topic chooses it with `cleanup.policy=archive`, in place of `delete`. What `retention.ms` and `retention.bytes` let go
goes first to where the broker's option `kafkad.plugin.archive.to` says: a directory, a URL for fsspec
(`s3://bucket/logs`; `pip install fsspec` and what it needs for the scheme), or `python:module:function`, a callable of
your own that gets each `SealedSegment`. No client can change that. A segment is deleted when its copy is there: while
that can't be written, the log grows.

A copy is named by topic id, partition, first and next offset. A segment may come again after a crash: under the same
name, with the same content. It is a segment file of Apache Kafka, which `kafkad dump-log` reads.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from kafkad.api import (
    CleanupEffect,
    CleanupPolicy,
    LogConfig,
    LogSummary,
    RollActive,
    SealedSegment,
    TransferSegments,
    hookimpl,
    old_segments,
)

kafkad_requires = 1
TO = "kafkad.plugin.archive.to"

Receiver = Callable[[SealedSegment], None]


class Archive:
    name = "archive"

    def __init__(self, receive: Receiver) -> None:
        self._receive = receive

    def plan(self, log: LogSummary, config: LogConfig, now_ms: int) -> Sequence[CleanupEffect]:
        old = old_segments(log, config, now_ms)
        if old is None:
            return []
        up_to, reason = old.up_to_base_offset, f"{old.reason}, archived"
        effects: list[CleanupEffect] = [
            TransferSegments(up_to_base_offset=up_to, receiver=self._receive, reason=reason)
        ]
        if up_to == log.segments[-1].base_offset:
            # The active segment is old as well. Sealed, it is handed over in the next round.
            effects.append(RollActive(reason=reason))
        return effects


def receiver(to: str) -> Receiver:
    """Who gets the segments when the option says `to`."""
    if to.startswith("python:"):
        _, module, function = to.split(":", 2)
        found: Receiver = getattr(import_module(module), function)
        return found
    return partial(to_url, to) if "://" in to else partial(to_directory, Path(to))


def archive_name(segment: SealedSegment) -> str:
    """The same each time that the segment comes."""
    offsets = f"{segment.first_offset:020d}-{segment.next_offset:020d}"
    return f"{segment.topic}-{segment.topic_id}/{segment.partition}/{offsets}.log"


def to_directory(directory: Path, segment: SealedSegment) -> None:
    """It is whole and on disk when it has its name."""
    path = directory / archive_name(segment)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.stat().st_size != segment.size_bytes:
        beside = path.with_suffix(".part")
        with open(beside, "wb") as copy:
            shutil.copyfileobj(segment.file, copy, 1 << 20)
            copy.flush()
            os.fsync(copy.fileno())
        beside.replace(path)
    # Also if it was there: whoever wrote it may have died before this.
    for folder in (path.parent, path.parent.parent, directory, directory.parent):
        if os.access(folder, os.R_OK):
            _sync(folder)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def to_url(url: str, segment: SealedSegment) -> None:
    """Object stores show an object when it is written as a whole; other file systems get the name at the end."""
    files, root = import_module("fsspec").core.url_to_fs(url)
    path = f"{root.rstrip('/')}/{archive_name(segment)}"
    if files.exists(path) and files.size(path) == segment.size_bytes:
        return
    files.makedirs(path.rpartition("/")[0], exist_ok=True)
    with files.open(f"{path}.part", "wb") as copy:
        shutil.copyfileobj(segment.file, copy, 1 << 20)
    files.mv(f"{path}.part", path)
    if files.size(path) != segment.size_bytes:
        raise OSError(f"{path} has {files.size(path)} bytes, {segment.size_bytes} were written")


@hookimpl
def kafkad_register_cleanup_policies(settings: Mapping[str, str]) -> Sequence[CleanupPolicy]:
    """Without the option topics can't choose the policy."""
    return [Archive(receiver(settings[TO]))] if settings.get(TO) else []
