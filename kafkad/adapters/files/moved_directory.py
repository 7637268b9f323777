"""The directories of a partition that is moved: `<topic>-<partition>.<topic id>-future` gets its name at the end.

For a moment there are two directories of that name then, in two log directories. The new one says in `kafkad-moved`
which log directory it came from, so that whoever finds both after a crash knows which one counts.
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


def make_future(directory: Path, topic_id: bytes, *, is_resumed: bool) -> None:
    """The directory with its metadata. Unless `is_resumed`, the caller has set aside what there was. Raises
    `StorageFailed`, `NoSpaceLeft`.
    """
    with storage_errors(str(directory)):
        directory.mkdir(exist_ok=is_resumed)
        write_partition_metadata(directory, UUID(bytes=topic_id))


def take_name(future: Path, partition: TopicPartition, source_log_dir: str) -> Path:
    """All files are there: from now on this is the partition's directory. Raises `StorageFailed` and leaves it as it
    was.
    """
    write_atomically(str(future / MOVED_FROM), source_log_dir.encode())
    live = future.with_name(directory_name(partition))
    with storage_errors(str(live)):
        os.rename(future, live)
    try:
        sync_directory(str(live.parent))
    except StorageFailed:
        # If this fails as well the process ends, and the next one finds that the partition was moved.
        os.rename(live, future)
        raise
    return live


def moved_from(directory: Path | str) -> str | None:
    """The log directory that the partition came from, as long as its files there may still have their name."""
    try:
        with storage_errors(str(directory)):
            return Path(directory, MOVED_FROM).read_text(errors="replace")
    except FileNotFoundError:
        return None


def forget_source(directory: Path | str) -> None:
    """The old directory has lost its name."""
    with storage_errors(str(directory)):
        Path(directory, MOVED_FROM).unlink(missing_ok=True)


def forget_synced_source(directory: Path | str) -> None:
    """The same, when no loss of power can give the old directory its name back: nobody would know then which of the two
    counts. Raises `StorageFailed`.
    """
    source_log_dir = moved_from(directory)
    if source_log_dir is not None:
        with storage_errors(source_log_dir):
            sync_directory(source_log_dir)
        forget_source(directory)


def set_aside(directory: Path, partition: TopicPartition) -> Path | None:
    """Rename it so that it is removed, also after a crash; None when there is none. Raises `StorageFailed`."""
    leaving = directory.with_name(marked_directory_name(partition, uuid4().hex, "delete"))
    try:
        with storage_errors(str(directory)):
            os.rename(directory, leaving)
    except FileNotFoundError:
        return None
    return leaving
