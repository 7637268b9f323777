"""Messages of magic 0 and 1, as kafka-python writes them, are told from damage."""

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from kafkad.core.log.records.old_formats import OldMessage, OldMessageFormat, old_message_at, reject_old_message
from tests.core.log.batches import batch
from tests.core.log.fake_store import FakeFile, FakeStore
from tests.core.log.old_messages import old_messages


def file_with(content: bytes) -> FakeFile:
    file = FakeStore().open("some.log", create=True)
    file.write_at([content], 0)
    return file


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [LegacyRecordBatchBuilder.CODEC_NONE, LegacyRecordBatchBuilder.CODEC_GZIP])
def test_a_whole_message_of_an_old_format_is_recognised_wherever_it_lies(magic: int, codec: int) -> None:
    before = bytes(batch(2))
    message = old_messages(magic, [b"a value"], codec=codec)
    content = before + message + b"\0" * 20
    found = old_message_at(file_with(content).read_at, len(before), len(content))
    assert found is not None
    assert (found.magic, found.size) == (magic, len(message))


@pytest.mark.parametrize("magic", [0, 1])
def test_an_empty_message_is_one(magic: int) -> None:
    message = old_messages(magic, [None])
    assert old_message_at(file_with(message).read_at, 0, len(message)) == OldMessage(magic, 0, len(message))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_with_any_flipped_bit_after_its_size_is_damage(magic: int) -> None:
    message = old_messages(magic, [b"a value"])
    for at in range(12 * 8, len(message) * 8):
        damaged = bytearray(message)
        damaged[at // 8] ^= 1 << at % 8
        assert old_message_at(file_with(bytes(damaged)).read_at, 0, len(damaged)) is None


def test_what_is_cut_short_or_of_todays_format_is_no_old_message() -> None:
    message = old_messages(1, [b"a value"])
    for size in range(len(message)):
        assert old_message_at(file_with(message[:size]).read_at, 0, size) is None
    today = bytes(batch(2))
    assert old_message_at(file_with(today).read_at, 0, len(today)) is None
    huge = b"\0" * 8 + b"\x7f\xff\xff\xff" + message[12:]
    assert old_message_at(file_with(huge).read_at, 0, len(huge)) is None


def test_the_refusal_names_the_file_the_byte_and_the_way_out() -> None:
    before = bytes(batch(2))
    content = before + old_messages(0, [b"a value"])
    with pytest.raises(OldMessageFormat, match=rf"00\.log .* magic 0 at byte {len(before)} .* Apache Kafka broker"):
        reject_old_message(file_with(content), "00.log", len(before), len(content))
