"""Does a batch contain as many records as its header claims?

Produce does not decode records, but a batch with a wrong count stops every consumer of its partition. So the lengths
of the first records of an uncompressed batch are read: all of a small batch, some of a large one. A compressed body is
only checked for enough bytes for the claimed number of smallest records at the maximum ratio of its codec: otherwise a
batch of 89 bytes that claims two billion records would take a whole segment.
"""

from typing import Final

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, Codec
from kafkad.core.log.records.record import SMALLEST_RECORD

WALKED_RECORDS: Final = 16
_SMALLEST_LENGTH: Final = SMALLEST_RECORD - 1
_LARGEST_RATIOS: Final = (1, 1032, 22, 256, 32_768)
"""Maximum compression ratio by codec. gzip: 258 bytes in two bits; snappy: a copy of 64 bytes in three; lz4: 255 more
bytes in each byte of a length; zstd: a block of 128 KiB in four.
"""


def check_extent(records: memoryview, header: BatchHeader) -> None:
    """Raise INVALID_RECORD if the one batch in `records` can't contain `records_count` records."""
    count, end = header.records_count, header.batch_length + LOG_OVERHEAD
    if header.codec_bits != Codec.NONE:
        if end == HEADER_SIZE:
            raise invalid_record(f"the batch claims {count} records and has no body")
        if count * SMALLEST_RECORD > (end - HEADER_SIZE) * _LARGEST_RATIOS[header.codec_bits]:
            raise invalid_record(f"the batch claims {count} records, its {end - HEADER_SIZE} bytes can't contain them")
        return
    walked = min(count, WALKED_RECORDS)
    try:
        position = _after_records(records, HEADER_SIZE, walked)
    except IndexError:
        position = end + 1
    unwalked = count - walked
    if position + unwalked * SMALLEST_RECORD > end or (not unwalked and position != end):
        raise invalid_record(f"the batch claims {count} records, its {end - HEADER_SIZE} bytes contain another number")


def _after_records(records: memoryview, position: int, count: int) -> int:
    """The end of the next `count` records. Their length is a zigzag varint, read inline as this is hot: one byte for
    the smallest records, two up to 8 KB."""
    for _ in range(count):
        zigzag = records[position]
        position += 1
        if zigzag > 0x7F:
            byte = records[position]
            position += 1
            zigzag = zigzag & 0x7F | (byte & 0x7F) << 7
            shift = 14
            while byte > 0x7F and shift < 35:
                byte = records[position]
                position += 1
                zigzag |= (byte & 0x7F) << shift
                shift += 7
        length = zigzag >> 1
        if zigzag & 1 or length < _SMALLEST_LENGTH:
            raise invalid_record(f"a record claims {length ^ -(zigzag & 1)} bytes")
        position += length
    return position


def invalid_record(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, reason)
