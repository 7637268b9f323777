"""Where does each batch start in a section of a segment file? Each header has the position of the next batch.

A module without numpy, so that it is compiled.
"""

import struct
from typing import Final

from crc32c import crc32c

from kafkad.core.log.records.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC, CorruptBatch

_FRONT: Final = struct.Struct(">8xi4xbI")


def batch_starts(data: bytes, position: int, end: int) -> list[int]:
    """The positions of the whole batches in `data`; the last element is their end.

    `data` was read at `position` of a file that ends at byte `end`. Raises `CorruptBatch` for a damaged batch; no
    length from the file is trusted.
    """
    starts: list[int] = []
    view = memoryview(data)
    at = 0
    while at + HEADER_SIZE <= len(data):
        size, crc = _front(data, at, position, end)
        if at + size > len(data):
            break
        if crc32c(view[at + CRC_START : at + size]) != crc:
            raise CorruptBatch(position + at, "the checksum is wrong")
        starts.append(at)
        at += size
    starts.append(at)
    return starts


def batch_size(data: bytes, at: int, position: int, end: int) -> int:
    """The size of the batch at `at`, if its header is plausible. Raises `CorruptBatch`."""
    return _front(data, at, position, end)[0]


def _front(data: bytes, at: int, position: int, end: int) -> tuple[int, int]:
    """(size, checksum) from the header."""
    front = _FRONT.unpack_from(data, at)
    length: int = front[0]
    magic: int = front[1]
    crc: int = front[2]
    size = length + LOG_OVERHEAD
    if magic != MAGIC:
        raise CorruptBatch(position + at, f"expected magic {MAGIC}, found {magic}")
    if size < HEADER_SIZE or position + at + size > end:
        raise CorruptBatch(position + at, f"the batch has {size} bytes, {end - position - at} remain")
    return size, crc
