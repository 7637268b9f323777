"""What do the checkpoint files of a log directory contain?

Text in, values out; adapters write the files atomically. A file that can't be parsed raises `CheckpointCorrupt` with
the expected content, and the caller decides whether the file is required.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from uuid import UUID

from kafkad.core.types import LARGEST_OFFSET, LARGEST_PARTITION, TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"

_VERSION = "0"
_MAX_DIGITS = 20
_MAX_QUOTED = 60


class CheckpointCorrupt(Exception):
    """The content of a checkpoint file is not in its format."""


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    lines = [_VERSION, str(len(offsets))]
    lines.extend(f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items())
    return "\n".join(lines) + "\n"


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """The entries of an offset checkpoint. As in Apache Kafka, blank lines at the end are valid, and an empty file,
    which Apache Kafka creates before the first write.
    """
    if not text:
        return {}
    lines = iter(text.splitlines())
    expected = _entry_count(lines)
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        if not line.strip():
            continue
        fields = line.split()
        partition, offset = map(_number, fields[1:]) if len(fields) == 3 else (None, None)
        if partition is None or offset is None or partition > LARGEST_PARTITION or offset > LARGEST_OFFSET:
            raise CheckpointCorrupt(f"expected 'topic partition offset', found {_quoted(line)}")
        offsets[TopicPartition(fields[0], partition)] = offset
    if len(offsets) != expected:
        raise CheckpointCorrupt(f"expected {expected} entries, found {len(offsets)}")
    return offsets


def _entry_count(lines: Iterator[str]) -> int:
    version = next(lines, "")
    if version.strip() != _VERSION:
        raise CheckpointCorrupt(f"expected version {_VERSION}, found {_quoted(version)}")
    line = next(lines, "")
    count = _number(line.strip())
    if count is None:
        raise CheckpointCorrupt(f"expected the number of entries, found {_quoted(line)}")
    return count


def _number(field: str) -> int | None:
    """None for text that is no number, or has too many digits."""
    if not (field.isascii() and field.removeprefix("-").isdigit() and len(field) <= _MAX_DIGITS):
        return None
    return int(field)


def _quoted(text: str) -> str:
    """The text, truncated for a log line: a damaged file may be one line of any length."""
    return repr(text) if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]!r}…"


def format_partition_metadata(topic_id: UUID) -> str:
    """`partition.metadata` (KIP-516): the topic id as Kafka prints it, base64url without padding."""
    return f"version: 0\ntopic_id: {base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip('=')}"


def parse_partition_metadata(text: str) -> UUID:
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version", "").strip() != _VERSION or "topic_id" not in fields:
        raise CheckpointCorrupt(f"expected 'version: 0' and 'topic_id: …', found {_quoted(text)}")
    try:
        raw = base64.b64decode(fields["topic_id"].strip() + "==", altchars=b"-_", validate=True)
        return UUID(bytes=raw)
    except (binascii.Error, ValueError) as error:
        raise CheckpointCorrupt(f"expected a topic id of 22 characters, found {_quoted(text)}") from error
