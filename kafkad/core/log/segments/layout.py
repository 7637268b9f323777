"""What are the names of a log's files and directories? (Apache Kafka's own names: LogFileUtils, UnifiedLog)

A file name is its segment's first offset in twenty digits; a directory name is `<topic>-<partition>`, or
`<topic>-<partition>.<unique id>-<state>` while the directory is being deleted (delete), moved here (future) or of no
known partition (stray). Random ids are drawn by the caller.
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
"""A segment reaches up to 2**31 - 1 offsets beyond its first, and offsets have 63 bits."""
_LONGEST_NAME = 255
"""NAME_MAX of the usual file systems, which the longest legal topic name nearly fills."""


@dataclass(frozen=True, slots=True)
class SegmentFileName:
    """A file name taken apart; `suffix` is empty or one of `.deleted`, `.cleaned`, `.swap`."""

    base_offset: int
    kind: str
    suffix: str


@dataclass(frozen=True, slots=True)
class DirectoryName:
    """A partition directory's name taken apart; `state` is empty, `delete`, `future` or `stray`."""

    partition: TopicPartition
    state: str


def file_name(base_offset: int, kind: str, suffix: str = "") -> str:
    return f"{base_offset:020d}{kind}{suffix}"


def parse_file_name(name: str) -> SegmentFileName | None:
    """None for a file that is not a segment's (checkpoints, metadata, unknown files): such files are left alone."""
    match = _FILE_NAME.fullmatch(name)
    if match is None or int(match[1]) > _LARGEST_BASE_OFFSET:
        return None
    return SegmentFileName(int(match[1]), match[2], match[3] or "")


def directory_name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def leaving_directory_name(partition: TopicPartition, unique_id: str, state: str) -> str:
    """The name of a directory marked `delete` or `stray`; the topic is cut so that the name stays legal."""
    ending = f"-{partition.partition}.{unique_id}-{state}"
    return partition.topic[: _LONGEST_NAME - len(ending)] + ending


def future_directory_name(partition: TopicPartition, unique_id: str) -> str:
    """The name of a directory into which the partition is being moved."""
    return f"{directory_name(partition)}.{unique_id}-future"


def can_be_moved(partition: TopicPartition) -> bool:
    """Apache Kafka refuses it where the name of the new directory would be too long."""
    return len(future_directory_name(partition, "0" * 32)) <= _LONGEST_NAME


def parse_directory_name(name: str) -> DirectoryName | None:
    """None for the name of a directory that can't be a partition's."""
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
