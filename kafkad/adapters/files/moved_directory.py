"""The directories of a partition that is moved: `<topic>-<partition>.<topic id>-future` is renamed at the end.

Then there are two directories of the partition in two log directories for a moment. The file `kafkad-moved` in the new
directory has the path of the source log directory, so that after a crash the new directory can be identified.
"""

import os
from pathlib import Path
from uuid import UUID, uuid4

from kafkad.adapters.files.atomic_write import sync_directory, write_atomically
from kafkad.adapters.files.log_directory import write_partition_metadata
from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.core.log.segments.layout import directory_name, future_directory_name, marked_directory_name
from kafkad.core.ports import StorageFailed
from kafkad.core.types import TopicPartition

MOVED_FROM = "kafkad-moved"


def future_directory(log_dir: str, partition: TopicPartition, topic_id: bytes) -> Path:
    return Path(log_dir) / future_directory_name(partition, topic_id.hex())


def create_future(directory: Path, topic_id: bytes, *, is_resumed: bool) -> None:
    """Create the future directory with its metadata; unless `is_resumed`, it must not exist.

    Raises `StorageFailed`, `NoSpaceLeft`.
    """
    with storage_errors(str(directory)):
        directory.mkdir(exist_ok=is_resumed)
        write_partition_metadata(directory, UUID(bytes=topic_id))


def rename_future(future: Path, partition: TopicPartition, source_log_dir: str) -> Path:
    """Rename the complete future directory to the partition's directory. Raises `StorageFailed` without a change."""
    write_atomically(str(future / MOVED_FROM), source_log_dir.encode())
    live = future.with_name(directory_name(partition))
    with storage_errors(str(live)):
        os.rename(future, live)
    try:
        sync_directory(str(live.parent))
    except StorageFailed:
        # If this fails too, the process exits, and the next incarnation finds the moved partition.
        os.rename(live, future)
        raise
    return live


def moved_from(directory: Path | str) -> str | None:
    """The source log directory, while the old directory there may still have its name; else None."""
    try:
        with storage_errors(str(directory)):
            return Path(directory, MOVED_FROM).read_text(errors="replace")
    except FileNotFoundError:
        return None


def forget_source(directory: Path | str) -> None:
    """Remove the path of the source log directory, after the old directory was renamed."""
    with storage_errors(str(directory)):
        Path(directory, MOVED_FROM).unlink(missing_ok=True)


def forget_synced_source(directory: Path | str) -> None:
    """As `forget_source`, after a sync of the renamed old directory: after a power failure it must not reappear.

    Raises `StorageFailed`.
    """
    source_log_dir = moved_from(directory)
    if source_log_dir is not None:
        with storage_errors(source_log_dir):
            sync_directory(source_log_dir)
        forget_source(directory)


def mark_for_deletion(directory: Path, partition: TopicPartition) -> Path | None:
    """Rename the directory, so that it is deleted also after a crash; None without one. Raises `StorageFailed`."""
    renamed = directory.with_name(marked_directory_name(partition, uuid4().hex, "delete"))
    try:
        with storage_errors(str(directory)):
            os.rename(directory, renamed)
    except FileNotFoundError:
        return None
    return renamed
