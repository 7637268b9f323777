"""Packs responses of DescribeLogDirs, versions 1 to 5, by hand: they may contain all partitions of the broker."""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple

from kafkad.wire.error_counts import count_error
from kafkad.wire.primitives import EMPTY_TAGS, I16, I32, array_length, compact_string, string

FLEXIBLE_FROM = 2
ERROR_FROM, SPACE_FROM, CORDONED_FROM = 3, 4, 5
_PARTITION = Struct(">iqq?")
_SPACE = Struct(">qq")


class LogDir(NamedTuple):
    """`topics` has packed partitions by topic; `space` is (total, usable) bytes of the volume."""

    error: int
    path: str
    topics: Mapping[str, list[bytes]]
    space: tuple[int, int]
    is_cordoned: bool = False


def pack_partition(version: int, index: int, size_bytes: int, lag: int = 0, *, is_future: bool = False) -> bytes:
    """The row of a partition, or of its future log: `lag` is the number of offsets that are not copied yet."""
    return _PARTITION.pack(index, size_bytes, lag, is_future) + (EMPTY_TAGS if version >= FLEXIBLE_FROM else b"")


def pack_response(version: int, log_dirs: Iterable[LogDir]) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    rows = [_pack(version, log_dir) for log_dir in log_dirs]
    error = I16.pack(0) if version >= ERROR_FROM else b""
    tags = EMPTY_TAGS if flexible else b""
    return I32.pack(0) + error + array_length(len(rows), flexible=flexible) + b"".join(rows) + tags


def _pack(version: int, log_dir: LogDir) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    text, tags = (compact_string, EMPTY_TAGS) if flexible else (string, b"")
    count_error(log_dir.error)
    parts = [I16.pack(log_dir.error), text(log_dir.path), array_length(len(log_dir.topics), flexible=flexible)]
    for name, partitions in log_dir.topics.items():
        parts += (text(name), array_length(len(partitions), flexible=flexible), *partitions, tags)
    if version >= SPACE_FROM:
        parts.append(_SPACE.pack(*log_dir.space))
    if version >= CORDONED_FROM:
        parts.append(b"\x01" if log_dir.is_cordoned else b"\x00")
    return b"".join((*parts, tags))
