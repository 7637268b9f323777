from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkad.core.columns.records import Limits, read_records
from kafkad.core.columns.window import read_window, split_window
from kafkad.core.log.records.batch import HEADER_SIZE, Codec, CorruptBatch, read_header
from kafkad.core.log.records.record import MalformedRecords, NewRecord, build_batch, iter_records, seal_batch
from kafkad.core.log.records.varint import append_varint
from tests.amounts import amount
from tests.core.columns.content import batches, column_rows, plain_rows, windows
from tests.core.log import golden
from tests.core.log.many_headers import BROKEN_HEADER, HEADER, batch_with_headers, peak_bytes


@given(windows(), st.sampled_from([1, 300, 1 << 20]))
def test_columns_are_what_the_plain_reader_reads(data: bytes, max_bytes: int) -> None:
    assert column_rows(data, max_bytes) == plain_rows(data)


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_that_java_wrote_are_read(codec: Codec) -> None:
    assert column_rows(golden.BATCHES[codec]) == plain_rows(golden.BATCHES[codec])


def many(count: int, records: int, *, codec: Codec = Codec.NONE, header_count: int = 0) -> bytes:
    """More batches than are walked in plain Python; of different lengths, with lengths of up to three bytes."""
    random = Random(count)
    data = bytearray()
    offset = 0
    for _ in range(count):
        rows = [
            NewRecord(
                random.randrange(2**40),
                random.choice((None, b"", random.randbytes(12))),
                random.choice((None, b"", bytes(random.choice((3, 200, 20_000 if random.random() < 0.01 else 5))))),
                [("name", b"value")] * random.randrange(header_count + 1),
            )
            for _ in range(random.randrange(1, records))
        ]
        data += build_batch(rows, base_offset=offset, codec=codec)
        offset += len(rows)
    return bytes(data)


@pytest.mark.parametrize("header_count", [0, 4])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_many_batches_are_walked_in_lockstep(codec: Codec, header_count: int) -> None:
    data = many(450, 30, codec=codec, header_count=header_count)
    assert column_rows(data) == plain_rows(data)


def test_lengths_of_five_bytes_are_read() -> None:
    body = bytearray()
    for delta in range(3):
        inner = bytes((0, 0, delta << 1, 1)) + bytes((0x8A, 0x80, 0x80, 0x80, 0x00)) + b"value" + b"\0"
        append_varint(body, len(inner))
        body += inner
    header = read_header(build_batch([]))._replace(records_count=3, last_offset_delta=2)
    data = seal_batch(header, bytes(body))
    assert [row[3] for row in column_rows(data)] == [b"value"] * 3
    assert column_rows(data) == plain_rows(data)


def test_batches_that_are_not_wanted_have_no_rows() -> None:
    data = many(5, 9)
    window = split_window(data, 0, len(data))
    wanted = np.array([True, False, True, False, False])
    (records,) = read_records(window, wanted)
    assert set(records.batch.tolist()) == {0, 2}
    counts = window.column("records_count")
    assert np.diff(records.first_row).tolist() == (counts * wanted).tolist()


def damaged(batch: bytes, changes: list[tuple[int, int]]) -> bytes:
    """Some bytes of the records are others, the checksum is right."""
    body = bytearray(batch[HEADER_SIZE:])
    for at, byte in changes:
        if body:
            body[at % len(body)] = byte
    return seal_batch(read_header(batch), bytes(body))


def is_sound(batch: bytes) -> bool:
    """For the plain reader, and with offsets as the header names them."""
    header = read_header(batch)
    try:
        deltas = [record.offset_delta for record in iter_records(memoryview(batch))]
    except MalformedRecords:
        return False
    grow = all(before < after for before, after in pairwise(deltas))
    return grow and all(0 <= delta <= header.last_offset_delta for delta in deltas)


@settings(max_examples=amount("record_examples"))
@given(batches(), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3))
def test_damaged_records_are_refused_as_by_the_plain_reader(batch: bytes, changes: list[tuple[int, int]]) -> None:
    data = damaged(batch, changes)
    if is_sound(data):
        assert column_rows(data) == plain_rows(data)
    else:
        with pytest.raises(CorruptBatch):
            column_rows(data)


def test_broken_headers_are_refused_without_an_object_for_each() -> None:
    count = 50_000
    data = batch_with_headers(count, HEADER)

    def refuse() -> None:
        with pytest.raises(CorruptBatch, match="no key"):
            column_rows(damaged(data, [(len(data) - HEADER_SIZE - len(HEADER), BROKEN_HEADER[0])]))

    assert peak_bytes(refuse) < 10 * len(data)


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_false_number_of_records_is_refused(count: int) -> None:
    data = build_batch([NewRecord(1, b"a", b"1"), NewRecord(1, b"b", b"2")])
    false = seal_batch(read_header(data)._replace(records_count=count), data[HEADER_SIZE:])
    with pytest.raises(CorruptBatch):
        column_rows(false)


def test_damage_among_many_batches_names_its_byte() -> None:
    data = many(300, 12)
    window = split_window(data, 0, len(data))
    at, size = int(window.at[250]), int(window.size[250])
    batch = data[at : at + size]
    header = read_header(batch)
    false = seal_batch(header._replace(records_count=header.records_count + 1), batch[HEADER_SIZE:])
    with pytest.raises(CorruptBatch) as refused:
        column_rows(data[:at] + false + data[at + size :])
    assert refused.value.position == at


def test_a_codec_that_lies_is_refused() -> None:
    data = build_batch([NewRecord(1, b"a", b"1")])
    header = read_header(data)
    with pytest.raises(CorruptBatch):
        column_rows(seal_batch(header._replace(attributes=Codec.ZSTD), data[HEADER_SIZE:]))


def test_a_bomb_is_opened_batch_by_batch() -> None:
    batch = build_batch([NewRecord(1, b"a", bytes(1 << 20))], codec=Codec.ZSTD)
    data = batch + build_batch([NewRecord(1, b"a", bytes(1 << 20))], base_offset=1, codec=Codec.ZSTD)
    portions = list(read_records(split_window(data, 0, len(data)), max_bytes=1000))
    assert [(records.first_batch, records.end_batch) for records in portions] == [(0, 1), (1, 2)]


def test_a_batch_beyond_the_limits_is_named_and_others_are_read() -> None:
    small = build_batch([NewRecord(1, b"a", None, (("h", b""),) * 2)] * 2)
    large = build_batch([NewRecord(1, b"a", None, (("h", b""),))] * 3, base_offset=2)
    window = split_window(small + large, 0, len(small + large))
    for limits, reason in ((Limits(2, 4), "the batch has 3 records"), (Limits(3, 2), "the records have 4 headers")):
        with pytest.raises(CorruptBatch, match=reason) as refused:
            list(read_records(window, limits=limits))
        place = len(small) if "3 records" in reason else 0
        assert refused.value.position == place
        (records,) = read_records(window, np.array([place > 0, place == 0]), limits=Limits(3, 4))
        assert len(records) == (2 if place else 3)


def test_offsets_beyond_those_of_the_header_are_refused() -> None:
    data = build_batch([NewRecord(1, b"a", None, (), 9)], last_offset_delta=3)
    with pytest.raises(CorruptBatch, match="offsets"):
        column_rows(data)


def test_a_window_holds_whole_batches_and_at_least_one() -> None:
    data = many(10, 20)
    position, seen = 0, []
    while position < len(data):
        window = read_window(lambda size, at: data[at : at + size], position, len(data), 300)
        seen += window.column("base_offset").tolist()
        assert len(window) >= 1
        position = window.end
    assert seen == split_window(data, 0, len(data)).column("base_offset").tolist()


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_bit_is_found(at: int, flip: int) -> None:
    data = bytearray(many(4, 6))
    data[at % len(data)] ^= flip
    try:
        split_window(bytes(data), 0, len(data))
    except CorruptBatch:
        return
    # Offset and leader epoch are outside of the checksum.
    assert any(at % len(data) - int(start) < 16 for start in split_window(bytes(data), 0, len(data)).at)
