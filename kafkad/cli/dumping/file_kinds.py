"""The kinds of files in a log directory, with their purposes.

docs/storage.md has more details; a test compares the names.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from kafkad.adapters.files.log_directory import CLEAN_SHUTDOWN, LOCK, META_PROPERTIES
from kafkad.adapters.files.moved_directory import MOVED_FROM
from kafkad.adapters.files.reserved_space import FILE_NAME as RESERVED
from kafkad.adapters.stores.embedded_store import FILE_NAME as STORE
from kafkad.adapters.stores.session_file import FILE_NAME as SESSION
from kafkad.core.controller.startup.reconciliation import parse_directory
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from kafkad.core.log.segments.layout import ABORTED_COUNTS, LEADER_EPOCHS, PARTITION_METADATA, parse_directory_name


class Content(Enum):
    """The format of a file. TEXT is shown line by line; OPAQUE files are only listed."""

    SEGMENT = auto()
    OFFSET_INDEX = auto()
    TIME_INDEX = auto()
    TXN_INDEX = auto()
    PRODUCERS = auto()
    EPOCHS = auto()
    OFFSETS = auto()
    TOPIC_ID = auto()
    TEXT = auto()
    OPAQUE = auto()


@dataclass(frozen=True, slots=True)
class FileKind:
    """`name` as in docs/storage.md; `explanation` is one line."""

    name: str
    pattern: re.Pattern[str]
    content: Content
    explanation: str


def _kind(name: str, pattern: str, content: Content, explanation: str) -> FileKind:
    return FileKind(name, re.compile(pattern), content, explanation)


def _of_segment(suffix: str, content: Content, explanation: str) -> FileKind:
    pattern = rf"(?P<base>\d{{20}})\.{suffix}(?P<suffix>\.deleted|\.swap|\.cleaned)?"
    return _kind(f".{suffix}", pattern, content, explanation)


FILE_KINDS = (
    _of_segment("log", Content.SEGMENT, "record batches, from the offset in the file name on"),
    _of_segment("index", Content.OFFSET_INDEX, "positions of some offsets in the .log"),
    _of_segment("timeindex", Content.TIME_INDEX, "offsets of some timestamps"),
    _of_segment("txnindex", Content.TXN_INDEX, "aborted transactions"),
    _of_segment("snapshot", Content.PRODUCERS, "producers and open transactions below the offset in the file name"),
    _kind(LEADER_EPOCHS, LEADER_EPOCHS, Content.EPOCHS, "first offset of each leader epoch in this log"),
    _kind(ABORTED_COUNTS, ABORTED_COUNTS, Content.TEXT, "number of entries of each .txnindex, to detect missing ones"),
    _kind(PARTITION_METADATA, re.escape(PARTITION_METADATA), Content.TOPIC_ID, "topic id"),
    _kind(MOVED_FROM, MOVED_FROM, Content.TEXT, "log directory from which the partition was just moved"),
    _kind(RECOVERY_POINTS, RECOVERY_POINTS, Content.OFFSETS, "recovery point (synced offset) of each log"),
    _kind(HIGH_WATERMARKS, HIGH_WATERMARKS, Content.OFFSETS, "high watermark of each partition"),
    _kind(LOG_START_OFFSETS, LOG_START_OFFSETS, Content.OFFSETS, "start offset of logs truncated by DeleteRecords"),
    _kind(
        "cleaner-offset-checkpoint",
        "cleaner-offset-checkpoint",
        Content.OFFSETS,
        "offset up to which each log is compacted",
    ),
    _kind(META_PROPERTIES, META_PROPERTIES, Content.TEXT, "cluster and broker of the directory"),
    _kind(CLEAN_SHUTDOWN, re.escape(CLEAN_SHUTDOWN), Content.TEXT, "present after a clean stop: no recovery needed"),
    _kind(LOCK, re.escape(LOCK), Content.OPAQUE, "locked while a broker uses the directory; never removed"),
    _kind(STORE, re.escape(STORE) + ".*", Content.OPAQUE, "kafkad's topics, configs and ids (SQLite)"),
    _kind(SESSION, re.escape(SESSION), Content.OPAQUE, "ZooKeeper session; a start after a crash ends it"),
    _kind(RESERVED, re.escape(RESERVED), Content.OPAQUE, "disk space reserved for the checkpoints"),
    _kind(
        "bootstrap.checkpoint", r"bootstrap\.checkpoint", Content.SEGMENT, "KRaft: the first metadata of the cluster"
    ),
    _kind("quorum-state", "quorum-state", Content.TEXT, "KRaft: the vote and epoch of this controller"),
    _kind(".checkpoint", r"\d{20}-\d{10}\.checkpoint", Content.SEGMENT, "KRaft: a snapshot of the metadata"),
    _kind(
        ".tmp", r".*\.tmp", Content.OPAQUE, "new version of a file that was being replaced; the old version is intact"
    ),
)

SUFFIXES = {
    ".deleted": "removed from the log; a start deletes it",
    ".cleaned": "compaction was writing it; a start deletes it",
    ".swap": "compacted and complete; a start replaces the covered segments by it",
}

_STATES = {
    "delete": "a deleted partition; a start removes it",
    "future": "a partition that is being moved here; a start resumes the move, if this broker has the partition",
    "stray": "a partition of an unknown topic; not changed",
}


def kind_of(path: Path) -> tuple[FileKind, re.Match[str]] | None:
    """None if no file of Apache Kafka or kafkad has this name."""
    for kind in FILE_KINDS:
        match = kind.pattern.fullmatch(path.name)
        if match is not None:
            return kind, match
    return None


def explain(kind: FileKind, match: re.Match[str]) -> str:
    suffix = match.groupdict().get("suffix")
    return f"{kind.explanation}; {suffix}: {SUFFIXES[suffix]}" if suffix else kind.explanation


def explain_directory(name: str) -> str:
    """Empty for other directories than those of partitions."""
    renamed = parse_directory_name(name)
    if renamed is not None and renamed.state:
        return _STATES[renamed.state]
    partition = parse_directory(name)
    return "" if partition is None else f"partition {partition.partition} of topic {partition.topic}"
