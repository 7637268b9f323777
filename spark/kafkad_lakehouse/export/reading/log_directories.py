"""The state of a topic in log directories, without a broker.

High watermark and log start offset come from the newest checkpoints, which a broker writes every few seconds and when
it stops: they may be behind, never ahead. Open transactions come from the newest producer snapshot and the batches
after it. Partitions without a directory here are unknown.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from kafkad.adapters.files.log_directory import META_PROPERTIES, LogDirectoryUnusable, read_meta_properties
from kafkad.core.log.producers.snapshot import CorruptSnapshot, decode_snapshot
from kafkad.core.log.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, CorruptBatch
from kafkad.core.log.recovery.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    CheckpointCorrupt,
    parse_offsets,
    parse_partition_metadata,
)
from kafkad.core.log.segments.layout import PARTITION_METADATA, PRODUCER_SNAPSHOT, parse_directory_name, parse_file_name
from kafkad.core.ports import StorageFailed
from kafkad.core.types import NO_TOPIC_ID, TopicPartition
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import Bounds, TopicFacts
from kafkad_lakehouse.export.reading.segments import SegmentReader


def check_folders(folders: Iterable[str]) -> None:
    """Raises `ExportFailed` for a folder that can't be read."""
    for folder in folders:
        # A parent folder may be unreadable too.
        if not os.path.isdir(folder) and not _is_hidden(folder):
            raise ExportFailed(f"{folder} is not a directory")
        if not os.access(folder, os.R_OK | os.X_OK):
            raise ExportFailed(f"{folder} can't be read: join the broker's group (kafkad)")


def _is_hidden(folder: str) -> bool:
    try:
        os.stat(folder)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def topics_in(folders: Sequence[str]) -> dict[str, dict[int, str]]:
    """The topics that have partitions here, with the directory of each partition."""
    found: dict[str, dict[int, str]] = {}
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            parsed = parse_directory_name(name)
            if parsed is not None and not parsed.state and os.path.isdir(f"{folder}/{name}"):
                key = parsed.partition
                found.setdefault(key.topic, {}).setdefault(key.partition, f"{folder}/{name}")
    return found


def facts_without_broker(folders: Sequence[str], topic: str, *, is_committed: bool) -> TopicFacts:
    """The state of the topic in its log directories. Raises `ExportFailed`."""
    check_folders(folders)
    partitions = topics_in(folders).get(topic)
    if not partitions:
        raise ExportFailed(f"no partition of topic {topic!r} in {', '.join(folders)}")
    watermarks, starts = (_checkpoints(folders, name) for name in (HIGH_WATERMARKS, LOG_START_OFFSETS))
    bounds = {}
    for partition, directory in partitions.items():
        key = TopicPartition(topic, partition)
        known = (watermarks.get(key, 0), starts.get(key, 0))
        try:
            bounds[partition] = _bounds(directory, *known, is_committed=is_committed)
        except CorruptBatch as error:
            raise ExportFailed(f"{key}: the open transactions can't be read: {error}") from error
    ids = {_topic_id(directory) for directory in partitions.values()}
    if len(ids) > 1:
        raise ExportFailed(f"the partitions of {topic!r} in {', '.join(folders)} have different topic ids")
    return TopicFacts(_cluster_id(folders), topic, ids.pop(), bounds)


def check_is_of(directory: str, facts: TopicFacts) -> None:
    """Raises `ExportFailed` if the directory has another topic id than the broker's topic."""
    found = _topic_id(directory)
    if NO_TOPIC_ID not in (found, facts.topic_id) and found != facts.topic_id:
        raise ExportFailed(
            f"{directory} has another topic id than the broker's topic: it is of another cluster or a deleted topic"
        )


def first_open_offset(directory: str, end: int) -> int:
    """The first offset of the oldest transaction without a marker below `end`; `end` if there is none."""
    reader = SegmentReader(directory)
    begun, start = _snapshot_before(directory, end)
    bases = reader.bases()
    for window in reader.windows(max(start, bases[0] if bases else end), end):
        attributes = window.headers["attributes"]
        columns = (window.column("base_offset"), window.column("producer_id"), attributes)
        for base, producer, bits in zip(*(column.tolist() for column in columns), strict=True):
            if base >= end:
                break
            if bits & CONTROL_FLAG:
                begun.pop(producer, None)
            elif bits & TRANSACTIONAL_FLAG:
                begun.setdefault(producer, base)
    return min([end, *begun.values()])


def _bounds(directory: str, watermark: int, log_start: int, *, is_committed: bool) -> Bounds:
    bases = SegmentReader(directory).bases()
    earliest = max(log_start, bases[0] if bases else 0)
    end = max(watermark, earliest)
    return Bounds(earliest, max(first_open_offset(directory, end), earliest) if is_committed else end)


def _snapshot_before(directory: str, end: int) -> tuple[dict[int, int], int]:
    """The open transactions of the newest intact snapshot up to `end`, and its offset."""
    names = (parse_file_name(name) for name in os.listdir(directory))
    offsets = (each.base_offset for each in names if each and each.kind == PRODUCER_SNAPSHOT and not each.suffix)
    for offset in sorted((each for each in offsets if each <= end), reverse=True):
        try:
            entries = decode_snapshot(Path(directory, f"{offset:020d}{PRODUCER_SNAPSHOT}").read_bytes())
        except (CorruptSnapshot, FileNotFoundError):
            continue
        return {
            each.producer_id: each.current_txn_first_offset
            for each in entries
            if each.current_txn_first_offset is not None
        }, offset
    return {}, 0


def _checkpoints(folders: Iterable[str], name: str) -> Mapping[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for folder in folders:
        path = Path(folder, name)
        try:
            found |= parse_offsets(path.read_text())
        except FileNotFoundError:
            continue
        except (OSError, ValueError, CheckpointCorrupt) as error:
            raise ExportFailed(f"{path} can't be read: {error}") from error
    return found


def _topic_id(directory: str) -> UUID:
    try:
        return parse_partition_metadata(Path(directory, PARTITION_METADATA).read_text())
    except FileNotFoundError:
        return NO_TOPIC_ID
    except (OSError, CheckpointCorrupt) as error:
        raise ExportFailed(f"{directory}/{PARTITION_METADATA} can't be read: {error}") from error


def _cluster_id(folders: Iterable[str]) -> str:
    for folder in folders:
        try:
            found = read_meta_properties(Path(folder))
        except (LogDirectoryUnusable, StorageFailed) as error:
            raise ExportFailed(str(error)) from error
        if found is not None and found.cluster_id:
            return found.cluster_id
    raise ExportFailed(f"none of {', '.join(folders)} has a {META_PROPERTIES} with the id of its cluster")
