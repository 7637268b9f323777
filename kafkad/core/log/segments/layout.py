"""What are the names of a log's files and directories? (Apache Kafka's names: LogFileUtils, UnifiedLog)

A file name is the base offset of its segment in twenty digits; a directory name is `<topic>-<partition>`, or
`<topic>-<partition>.<unique id>-<state>` for a directory to be deleted (delete), the destination of a move (future) or
an unknown partition (stray). The caller makes random ids.
"""

import re
from dataclasses import dataclass

from kafkad.core.types import TopicPartition

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
PRODUCER_SNAPSHOT = ".snapshot"

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
ABORTED_COUNTS = "kafkad-aborted-transactions"

_FILE_NAME = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.deleted|\.cleaned|\.swap)?")
_LARGEST_BASE_OFFSET = 2**63 - 2**31
"""A segment has offsets up to 2**31 - 1 beyond its base offset, and offsets have 63 bits."""
_MAX_NAME_BYTES = 255
"""NAME_MAX of the usual file systems; the longest valid topic name is nearly as long."""


@dataclass(frozen=True, slots=True)
class SegmentFileName:
    """A parsed file name; `suffix` is empty or one of `.deleted`, `.cleaned`, `.swap`."""

    base_offset: int
    kind: str
    suffix: str


@dataclass(frozen=True, slots=True)
class DirectoryName:
    """A parsed name of a partition directory; `state` is empty, `delete`, `future` or `stray`."""

    partition: TopicPartition
    state: str


def file_name(base_offset: int, kind: str, suffix: str = "") -> str:
    return f"{base_offset:020d}{kind}{suffix}"


def parse_file_name(name: str) -> SegmentFileName | None:
    """None for files that belong to no segment (checkpoints, metadata, unknown files); they are ignored."""
    match = _FILE_NAME.fullmatch(name)
    if match is None or int(match[1]) > _LARGEST_BASE_OFFSET:
        return None
    return SegmentFileName(int(match[1]), match[2], match[3] or "")


def directory_name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def marked_directory_name(partition: TopicPartition, unique_id: str, state: str) -> str:
    """The name of a directory marked `delete` or `stray`; the topic is truncated to the maximum length."""
    ending = f"-{partition.partition}.{unique_id}-{state}"
    return partition.topic[: _MAX_NAME_BYTES - len(ending)] + ending


def future_directory_name(partition: TopicPartition, unique_id: str) -> str:
    """The name of a directory to which the partition is moved."""
    return f"{directory_name(partition)}.{unique_id}-future"


def can_be_moved(partition: TopicPartition) -> bool:
    """False if the name of the new directory is too long; Apache Kafka rejects the move too."""
    return len(future_directory_name(partition, "0" * 32)) <= _MAX_NAME_BYTES


def parse_directory_name(name: str) -> DirectoryName | None:
    """None if the name is not that of a partition directory."""
    state = ""
    for candidate in ("delete", "future", "stray"):
        if name.endswith(f"-{candidate}") and "." in name:
            state = candidate
            name = name[: name.rindex(".")]
            break
    topic, dash, number = name.rpartition("-")
    if not (topic and dash and number.isascii() and number.isdigit()):
        return None
    return DirectoryName(TopicPartition(topic, int(number)), state)
