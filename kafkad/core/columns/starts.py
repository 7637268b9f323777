"""Where does each batch start in a section of a segment file, and where does each record of one batch?

Plain Python: each header has the position of the next batch, and batches may be too few to be scanned in lockstep. A
module without numpy, so that it is compiled, which makes it ten times as fast.
"""

import struct
from typing import Final

from crc32c import crc32c

from kafkad.core.log.records.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC, CorruptBatch
from kafkad.core.log.records.varint import read_varint

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


def record_starts(data: bytes, at: int, count: int, end: int) -> list[int]:
    """The positions of `count` records between `at` and `end`. Raises IndexError, ValueError."""
    starts = []
    for _ in range(count):
        starts.append(at)
        byte = data[at]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            at += 1
        else:
            second = data[at + 1]
            if second < 0x80:
                length = (second << 6 | (byte & 0x7F) >> 1) ^ -(byte & 1)
                at += 2
            else:
                length, at = read_varint(data, at)
        if length < 0:
            raise ValueError("a record has a negative length")
        at += length
    if at != end:
        raise ValueError(f"the records end at byte {at}, the batch at {end}")
    return starts
