"""Reads and atomically writes the offset checkpoints of one log directory."""

from collections.abc import Mapping
from pathlib import Path

from kafkad.adapters.files.atomic_write import write_in_log_directory
from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.core.log.recovery.checkpoints import format_offsets, parse_offsets
from kafkad.core.types import TopicPartition


def write_offsets(directory: Path, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    write_in_log_directory(str(directory / name), format_offsets(offsets).encode())


def read_offsets(directory: Path, name: str) -> dict[TopicPartition, int]:
    """The entries of a checkpoint; empty without a file. Raises `CheckpointCorrupt`."""
    path = directory / name
    try:
        with storage_errors(str(path)):
            text = path.read_text(errors="replace")
    except FileNotFoundError:
        return {}
    return parse_offsets(text)
