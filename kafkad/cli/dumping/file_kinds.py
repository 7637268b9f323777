"""Which kinds of files are in a log directory, and what is each of them for?

The same words are in docs/storage.md, at more length; a test compares the names.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from kafkad.adapters.files.log_directory import CLEAN_SHUTDOWN, LOCK, META_PROPERTIES
from kafkad.adapters.files.moved_directory import MOVED_FROM
from kafkad.adapters.files.reserved_room import FILE_NAME as RESERVED
from kafkad.adapters.stores.embedded_store import FILE_NAME as STORE
from kafkad.adapters.stores.session_file import FILE_NAME as SESSION
from kafkad.core.controller.startup.reconciliation import parse_directory
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from kafkad.core.log.segments.layout import ABORTED_COUNTS, LEADER_EPOCHS, PARTITION_METADATA, parse_directory_name


class Content(Enum):
    """How a file is read. TEXT is shown line by line, OPAQUE is only named."""

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
    """`name` as docs/storage.md has it; `explanation` is one line."""

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
    _of_segment("log", Content.SEGMENT, "record batches, from the offset in its name on"),
    _of_segment("index", Content.OFFSET_INDEX, "where in the .log some of the offsets are"),
    _of_segment("timeindex", Content.TIME_INDEX, "from which offset on some of the times are"),
    _of_segment("txnindex", Content.TXN_INDEX, "transactions that were aborted"),
    _of_segment("snapshot", Content.PRODUCERS, "the producers and open transactions below the offset in its name"),
    _kind(LEADER_EPOCHS, LEADER_EPOCHS, Content.EPOCHS, "where each leader epoch begins in this log"),
    _kind(ABORTED_COUNTS, ABORTED_COUNTS, Content.TEXT, "how many entries each .txnindex has, to notice a lost one"),
    _kind(PARTITION_METADATA, re.escape(PARTITION_METADATA), Content.TOPIC_ID, "the id of the topic"),
    _kind(MOVED_FROM, MOVED_FROM, Content.TEXT, "the log directory that the partition has just been moved from"),
    _kind(RECOVERY_POINTS, RECOVERY_POINTS, Content.OFFSETS, "up to where each log is synced: recovery begins there"),
    _kind(HIGH_WATERMARKS, HIGH_WATERMARKS, Content.OFFSETS, "the high watermark of each partition"),
    _kind(LOG_START_OFFSETS, LOG_START_OFFSETS, Content.OFFSETS, "where a log begins that was cut by DeleteRecords"),
    _kind(
        "cleaner-offset-checkpoint", "cleaner-offset-checkpoint", Content.OFFSETS, "up to where each log is compacted"
    ),
    _kind(META_PROPERTIES, META_PROPERTIES, Content.TEXT, "which cluster and broker the directory belongs to"),
    _kind(CLEAN_SHUTDOWN, re.escape(CLEAN_SHUTDOWN), Content.TEXT, "the last stop was clean: no recovery is needed"),
    _kind(LOCK, re.escape(LOCK), Content.OPAQUE, "locked while a broker uses the directory; the file always stays"),
    _kind(STORE, re.escape(STORE) + ".*", Content.OPAQUE, "kafkad's topics, configs and ids (SQLite)"),
    _kind(SESSION, re.escape(SESSION), Content.OPAQUE, "the session with ZooKeeper, which a start after a crash ends"),
    _kind(RESERVED, re.escape(RESERVED), Content.OPAQUE, "room for the checkpoints on a full disk"),
    _kind(
        "bootstrap.checkpoint", r"bootstrap\.checkpoint", Content.SEGMENT, "KRaft: the first metadata of the cluster"
    ),
    _kind("quorum-state", "quorum-state", Content.TEXT, "KRaft: the vote and epoch of this controller"),
    _kind(".checkpoint", r"\d{20}-\d{10}\.checkpoint", Content.SEGMENT, "KRaft: a snapshot of the metadata"),
    _kind(".tmp", r".*\.tmp", Content.OPAQUE, "a file that was being replaced; the old one is intact"),
)

SUFFIXES = {
    ".deleted": "no longer part of the log; a start removes it",
    ".cleaned": "compaction was writing it; a start removes it",
    ".swap": "compacted and complete; a start puts it in the place of the segments that it covers",
}

_STATES = {
    "delete": "a partition that is being deleted; a start removes it",
    "future": "a partition is moved here: a start goes on with that; without that partition it is left as it is",
    "stray": "a partition of no known topic; it is left as it is",
}


def kind_of(path: Path) -> tuple[FileKind, re.Match[str]] | None:
    """None for the name of a file that neither Apache Kafka nor kafkad makes."""
    for kind in FILE_KINDS:
        match = kind.pattern.fullmatch(path.name)
        if match is not None:
            return kind, match
    return None


def explain(kind: FileKind, match: re.Match[str]) -> str:
    suffix = match.groupdict().get("suffix")
    return f"{kind.explanation}; {suffix}: {SUFFIXES[suffix]}" if suffix else kind.explanation


def explain_directory(name: str) -> str:
    """Empty for a directory that is not a partition's."""
    renamed = parse_directory_name(name)
    if renamed is not None and renamed.state:
        return _STATES[renamed.state]
    partition = parse_directory(name)
    return "" if partition is None else f"partition {partition.partition} of topic {partition.topic}"
