"""Does a log contain a message of magic 0 or 1, as Apache Kafka wrote them before 0.11?

kafkad reads batches of magic 2 only. An old message is not damage, so recovery must not truncate the log there.
"""

import struct
import zlib
from typing import NamedTuple

from kafkad.core.log.records.batch import LOG_OVERHEAD
from kafkad.core.log.records.batch_scan import ReadAt
from kafkad.core.ports import LogFile

_HEADER = struct.Struct(">qiIb")
"""Offset, size of the following bytes, CRC-32 of the bytes after it, magic."""
_MAGIC_AT = _HEADER.size - 1
_NEWEST_OLD_MAGIC = 1
_SMALLEST_MESSAGE = (14, 22)
"""By magic: checksum, magic, attributes, (a timestamp,) the lengths of key and value."""
_CHUNK = 1 << 20


class OldMessageFormat(Exception):
    """The log contains messages that kafkad can't read, so it must not be changed."""


class OldMessage(NamedTuple):
    """`size` includes the offset and size fields."""

    magic: int
    offset: int
    size: int


def old_message_at(read_at: ReadAt, position: int, end: int) -> OldMessage | None:
    """The intact message of magic 0 or 1 at byte `position` of a file that ends at `end`; None if there is none."""
    head = read_at(min(_HEADER.size, end - position), position)
    if len(head) < _HEADER.size:
        return None
    offset, length, crc, magic = _HEADER.unpack(head)
    if not 0 <= magic <= _NEWEST_OLD_MAGIC or length < _SMALLEST_MESSAGE[magic]:
        return None
    size = length + LOG_OVERHEAD
    if position + size > end or _crc(read_at, position + _MAGIC_AT, position + size) != crc:
        return None
    return OldMessage(magic, offset, size)


def _crc(read_at: ReadAt, position: int, end: int) -> int:
    crc = 0
    while position < end:
        chunk = read_at(min(_CHUNK, end - position), position)
        if not chunk:
            break
        crc = zlib.crc32(chunk, crc)
        position += len(chunk)
    return crc


def reject_old_message(file: LogFile, name: str, position: int, end: int) -> None:
    """Raises `OldMessageFormat` if the message at `position` of the file `name` is of magic 0 or 1."""
    message = old_message_at(file.read_at, position, end)
    if message is not None:
        raise OldMessageFormat(
            f"{name} contains a message of magic {message.magic} at byte {position} (offset {message.offset}), "
            "the format before Apache Kafka 0.11, which kafkad can't read. Nothing was changed: copy the topic with an "
            "Apache Kafka broker into a topic of the current format, or move the directory away"
        )
