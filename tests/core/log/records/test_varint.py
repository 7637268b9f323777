import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.log.records.varint import append_varint, read_varint, read_varlong


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_64_bit_number_is_read_as_it_was_written(value: int) -> None:
    out = bytearray(b"before")
    append_varint(out, value)
    assert read_varlong(bytes(out) + b"after", 6) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (2**31 - 1, "feffffff0f")],
)
def test_small_numbers_are_short(value: int, written: str) -> None:
    out = bytearray()
    append_varint(out, value)
    assert out.hex() == written
    assert read_varint(bytes(out), 0) == (value, len(out))


@pytest.mark.parametrize("written", ["ffffffffff01", "ffffffff1f", "808080808000"])
def test_a_number_beyond_32_bits_is_refused(written: str) -> None:
    with pytest.raises(ValueError):
        read_varint(bytes.fromhex(written), 0)


@pytest.mark.parametrize("written", ["ff" * 10 + "01", "ff" * 9 + "7f"])
def test_a_number_beyond_64_bits_is_refused(written: str) -> None:
    with pytest.raises(ValueError):
        read_varlong(bytes.fromhex(written), 0)


def test_a_number_that_is_cut_short_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        read_varint(b"\x80", 0)
