"""What does a segment contain: batches, records, codecs, formats, and where does damage begin?

Everything is read and every checksum compared, as in recovery; nothing is changed. The work is done in steps of about
a megabyte.
"""

from collections.abc import Generator
from dataclasses import dataclass, field

from kafkad.core.log.reading.dump import Source
from kafkad.core.log.records.batch import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    Codec,
    CorruptBatch,
    has_valid_crc,
    read_header_within,
)
from kafkad.core.log.records.old_formats import old_message_at

_CHUNK = 1 << 20


@dataclass(slots=True, kw_only=True)
class LogSurvey:
    """The segments read so far. `records` counts records of magic 2 only."""

    bytes: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    codecs: set[str] = field(default_factory=set)
    magics: set[int] = field(default_factory=set)
    end_offset: int = 0
    """The offset after the last intact batch."""
    damage: list[str] = field(default_factory=list)


def survey_segment(survey: LogSurvey, log: Source, base_offset: int) -> Generator[int, None, None]:
    """Add the segment, in the order of offsets; yields the number of bytes read since the last step."""
    survey.segments += 1
    survey.bytes += log.size
    expected = max(survey.end_offset, base_offset)
    if base_offset < survey.end_offset:
        survey.damage.append(f"{log.name} begins below offset {survey.end_offset}, the end of the previous segment")
    position = reported = 0
    window, start = memoryview(b""), 0
    while position < log.size:
        if position + HEADER_SIZE > start + len(window):
            window, start = memoryview(log.read_at(min(_CHUNK, log.size - position), position)), position
            yield position - reported
            reported = position
        try:
            header = read_header_within(bytes(window[position - start :][:HEADER_SIZE]), position, log.size)
            if position + header.size > start + len(window):
                window = memoryview(log.read_at(min(max(header.size, _CHUNK), log.size - position), position))
                start = position
            _check(window, position - start, header, expected)
        except CorruptBatch as error:
            old = old_message_at(log.read_at, position, log.size)
            if old is None:
                damaged = log.size - position
                survey.damage.append(f"{log.name}: {damaged} bytes from byte {position} on are damaged: {error.reason}")
                break
            survey.magics.add(old.magic)
            expected = old.offset + 1
            position += old.size
            continue
        _count(survey, header)
        expected = header.next_offset
        position += header.size
    survey.end_offset = expected
    yield log.size - reported


def _check(window: memoryview, at: int, header: BatchHeader, expected: int) -> None:
    if header.base_offset < expected or header.last_offset_delta < 0:
        raise CorruptBatch(at, f"expected offset {expected} or later, found {header.base_offset}")
    if at + header.size > len(window) or not has_valid_crc(window, at, header):
        raise CorruptBatch(at, f"the batch does not match its checksum {header.crc}")


def _count(survey: LogSurvey, header: BatchHeader) -> None:
    survey.batches += 1
    survey.magics.add(MAGIC)
    if not header.is_control:
        survey.records += header.records_count
        bits = header.codec_bits
        survey.codecs.add(Codec(bits).name.lower() if bits <= max(Codec) else f"unknown({bits})")
