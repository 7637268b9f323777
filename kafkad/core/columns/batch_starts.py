"""Where does each batch begin in a piece of a segment file? Each header says where the next one does.

Apart from the columns of numpy, so that it is compiled.
"""

import struct
from typing import Final

from crc32c import crc32c

from kafkad.core.log.records.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC, CorruptBatch

_FRONT: Final = struct.Struct(">8xi4xbI")


def batch_starts(data: bytes, position: int, end: int) -> list[int]:
    """The places of the batches that lie whole in `data`, and at last where they end.

    `data` was read at `position` of a file that ends at byte `end`. Raises `CorruptBatch` where a batch is not as it
    was written; no length from the file is trusted.
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
    """The size of the batch at `at`, if its header may lead to the next one. Raises `CorruptBatch`."""
    return _front(data, at, position, end)[0]


def _front(data: bytes, at: int, position: int, end: int) -> tuple[int, int]:
    """Size and checksum."""
    front = _FRONT.unpack_from(data, at)
    length: int = front[0]
    magic: int = front[1]
    crc: int = front[2]
    size = length + LOG_OVERHEAD
    if magic != MAGIC:
        raise CorruptBatch(position + at, f"expected magic {MAGIC}, found {magic}")
    if size < HEADER_SIZE or position + at + size > end:
        raise CorruptBatch(position + at, f"a batch of {size} bytes, {end - position - at} are left")
    return size, crc
