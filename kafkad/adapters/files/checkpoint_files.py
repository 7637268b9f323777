"""The offset checkpoints of one log directory on disk: written whole, synced, renamed."""

import os
from collections.abc import Mapping
from pathlib import Path

from kafkad.adapters.files.segment_files import storage_errors
from kafkad.core.log.recovery.checkpoints import format_offsets, parse_offsets
from kafkad.core.types import TopicPartition


def write_offsets(directory: Path, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    write_atomically(directory / name, format_offsets(offsets).encode())


def read_offsets(directory: Path, name: str) -> dict[TopicPartition, int]:
    """The checkpoint's entries; none when there is no file yet. Raises `CheckpointCorrupt`."""
    path = directory / name
    try:
        with storage_errors(str(path)):
            text = path.read_text(errors="replace")
    except FileNotFoundError:
        return {}
    return parse_offsets(text)


def write_atomically(path: Path, content: bytes) -> None:
    """After a crash at any point the file holds the old content or the new one."""
    temporary = path.with_name(path.name + ".tmp")
    with storage_errors(str(path)):
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
