"""What do the small text files of a log directory say? (S0-07, S1-16, S1-17)

Pure text in, values out; the files are written whole and atomically by the adapters. A file that can't be
understood raises `CheckpointCorrupt` with what was expected, so that the caller can decide to do without it.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from uuid import UUID

from kafkad.core.types import TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"

_VERSION = "0"


class CheckpointCorrupt(Exception):
    """A checkpoint file that does not say what its format demands."""


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    lines = [_VERSION, str(len(offsets))]
    lines.extend(f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items())
    return "\n".join(lines) + "\n"


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """The entries of an offset checkpoint. Blank lines at the end are allowed, as in Apache Kafka."""
    lines = iter(text.splitlines())
    expected = _entry_count(lines)
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        if not line.strip():
            continue
        fields = line.split()
        if len(fields) != 3 or not _is_number(fields[1]) or not _is_number(fields[2]):
            raise CheckpointCorrupt(f"expected 'topic partition offset', found {line!r}")
        offsets[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    if len(offsets) != expected:
        raise CheckpointCorrupt(f"expected {expected} entries, found {len(offsets)}")
    return offsets


def _entry_count(lines: Iterator[str]) -> int:
    version = next(lines, "")
    if version.strip() != _VERSION:
        raise CheckpointCorrupt(f"expected version {_VERSION}, found {version!r}")
    count = next(lines, "")
    if not _is_number(count.strip()):
        raise CheckpointCorrupt(f"expected the number of entries, found {count!r}")
    return int(count)


def _is_number(field: str) -> bool:
    return field.isascii() and field.removeprefix("-").isdigit()


def format_partition_metadata(topic_id: UUID) -> str:
    """`partition.metadata` (KIP-516): the topic id as Kafka prints it, base64url without padding."""
    return f"version: 0\ntopic_id: {base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip('=')}"


def parse_partition_metadata(text: str) -> UUID:
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version", "").strip() != _VERSION or "topic_id" not in fields:
        raise CheckpointCorrupt(f"expected 'version: 0' and 'topic_id: …', found {text!r}")
    try:
        raw = base64.b64decode(fields["topic_id"].strip() + "==", altchars=b"-_", validate=True)
        return UUID(bytes=raw)
    except (binascii.Error, ValueError) as error:
        raise CheckpointCorrupt(f"expected a topic id of 22 characters, found {text!r}") from error
