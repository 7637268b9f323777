"""What a segment holds, and where it stops to be intact."""

from random import Random

import pytest

from kafkad.core.log.reading.dump import Source
from kafkad.core.log.reading.survey import LogSurvey, survey_segment
from kafkad.core.log.records.batch import Codec
from kafkad.core.log.records.record import NewRecord, build_batch
from tests.core.log.old_messages import old_messages


def batches(*codecs: Codec, base_offset: int = 0, size: int = 50) -> bytes:
    """One batch of two records a codec."""
    content = b""
    for at, codec in enumerate(codecs):
        records = [NewRecord(1000 + at, None, Random(at).randbytes(size)) for _ in range(2)]
        content += build_batch(records, base_offset=base_offset + 2 * at, codec=codec)
    return content


def surveyed(*segments: tuple[int, bytes]) -> LogSurvey:
    survey = LogSurvey()
    for base_offset, content in segments:
        source = Source(
            name=f"{base_offset}.log",
            size=len(content),
            read_at=lambda size, position, content=content: content[position : position + size],  # type: ignore[misc]
        )
        assert sum(survey_segment(survey, source, base_offset)) == len(content)
    return survey


def test_batches_records_and_codecs_of_all_segments_are_counted() -> None:
    first, second = batches(Codec.LZ4, Codec.NONE), batches(Codec.ZSTD, base_offset=4)
    survey = surveyed((0, first), (4, second))
    assert (survey.segments, survey.batches, survey.records, survey.bytes) == (2, 3, 6, len(first) + len(second))
    assert survey.codecs == {"lz4", "none", "zstd"}
    assert (survey.magics, survey.end_offset, survey.damage) == ({2}, 6, [])


def test_gaps_between_offsets_are_no_damage() -> None:
    assert surveyed((0, batches(Codec.NONE) + batches(Codec.NONE, base_offset=90)), (200, b"")).damage == []


def test_batches_larger_than_a_step_are_read_whole() -> None:
    survey = surveyed((0, batches(Codec.NONE, Codec.NONE, Codec.NONE, size=700_000)))
    assert (survey.batches, survey.damage) == (3, [])


@pytest.mark.parametrize("at", [17, 70, 100])
def test_a_flipped_bit_ends_what_is_intact(at: int) -> None:
    content = bytearray(batches(Codec.NONE, Codec.NONE, Codec.NONE))
    second = len(content) // 3
    content[second + at] ^= 1
    survey = surveyed((0, bytes(content)))
    assert survey.batches == 1
    (damage,) = survey.damage
    assert damage.startswith(f"0.log: {2 * second} bytes from byte {second} on are damaged")


def test_a_torn_tail_is_damage() -> None:
    survey = surveyed((0, batches(Codec.NONE, Codec.NONE)[:-5]))
    assert (survey.batches, len(survey.damage)) == (1, 1)


def test_a_segment_that_overlaps_the_one_before_it_is_damage() -> None:
    assert len(surveyed((0, batches(Codec.NONE, Codec.NONE)), (2, batches(Codec.NONE, base_offset=2))).damage) == 2


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_a_format_and_no_damage(magic: int) -> None:
    old = old_messages(magic, [b"one", b"two"])
    survey = surveyed((0, old + batches(Codec.GZIP, base_offset=100)))
    assert (survey.magics, survey.batches, survey.damage) == ({magic, 2}, 1, [])
