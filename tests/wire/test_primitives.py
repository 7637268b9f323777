"""The primitives against kio's, and against the end of the buffer."""

from collections.abc import Callable
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.readers import read_compact_string_nullable, read_nullable_legacy_string, read_unsigned_varint
from kio.serial.writers import (
    write_nullable_compact_string,
    write_nullable_legacy_string,
    write_unsigned_varint,
)

from kafkad.wire.primitives import (
    LONGEST_STRING,
    MalformedRequest,
    UnencodableMessage,
    array_length,
    compact_string,
    read_compact_string,
    read_i32,
    read_slice,
    read_string,
    read_uvarint,
    skip_tags,
    string,
    uvarint,
)

TEXTS = st.none() | st.text(max_size=300)


def written(write: Callable[..., None], value: object) -> bytes:
    buffer = BytesIO()
    write(buffer, value)
    return buffer.getvalue()


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varints_are_kios(value: int) -> None:
    raw = uvarint(value)
    assert raw == written(write_unsigned_varint, value)
    assert read_uvarint(memoryview(b"x" + raw + b"x"), 1) == (value, 1 + len(raw))
    assert read_unsigned_varint(raw, 0)[0] == value


@given(TEXTS)
def test_strings_are_kios(text: str | None) -> None:
    raw = string(text)
    assert raw == written(write_nullable_legacy_string, text)
    assert read_string(memoryview(raw), 0) == (text, len(raw))
    assert read_nullable_legacy_string(raw, 0)[0] == text


@given(TEXTS)
def test_compact_strings_are_kios(text: str | None) -> None:
    raw = compact_string(text)
    assert raw == written(write_nullable_compact_string, text)
    assert read_compact_string(memoryview(raw), 0) == (text, len(raw))
    assert read_compact_string_nullable(raw, 0)[0] == text


@given(TEXTS)
def test_a_string_cut_off_anywhere_is_malformed(text: str | None) -> None:
    for read, raw in ((read_string, string(text)), (read_compact_string, compact_string(text))):
        for end in range(len(raw)):
            with pytest.raises(MalformedRequest):
                read(memoryview(raw[:end]), 0)


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\xff\xff\xff\xff\xff\x01"])
def test_a_varint_that_does_not_end_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_uvarint(memoryview(raw), 0)


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\x7f\xffabc", b"\x00\x02\xff\xff"])
def test_a_string_that_can_not_be_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_string(memoryview(raw), 0)


def test_a_slice_is_a_view_and_never_reaches_past_the_end() -> None:
    buffer = bytearray(b"0123456789")
    piece, at = read_slice(memoryview(buffer), 2, 3)
    buffer[2] = ord("x")
    assert (bytes(piece), at) == (b"x34", 5)
    for position, length in ((8, 3), (0, 11), (0, -1), (11, 0)):
        with pytest.raises(MalformedRequest):
            read_slice(memoryview(buffer), position, length)


def test_numbers_are_signed_and_cut_off_ones_malformed() -> None:
    assert read_i32(memoryview(b"\xff\xff\xff\xfe\x00"), 0) == (-2, 4)
    with pytest.raises(MalformedRequest):
        read_i32(memoryview(b"\x00\x00\x00"), 0)


def test_tagged_fields_are_stepped_over() -> None:
    section = uvarint(2) + uvarint(0) + uvarint(3) + b"abc" + uvarint(300) + uvarint(0)
    assert skip_tags(memoryview(section + b"rest"), 0) == len(section)
    for end in range(len(section)):
        with pytest.raises(MalformedRequest):
            skip_tags(memoryview(section[:end]), 0)


def test_array_lengths_count_from_one_in_flexible_versions() -> None:
    assert array_length(200, flexible=True) == b"\xc9\x01"
    assert array_length(200, flexible=False) == b"\x00\x00\x00\xc8"


def test_a_string_with_a_length_of_16_bits_has_a_longest() -> None:
    assert len(string("a" * LONGEST_STRING)) == LONGEST_STRING + 2
    with pytest.raises(UnencodableMessage):
        string("\u00e4" * (LONGEST_STRING // 2 + 1))
