import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.columns.varints import read_varints
from kafkad.core.log.records.varint import append_varint, read_varint, read_varlong

READERS = {32: read_varint, 64: read_varlong}


def read_all(data: bytes, places: list[int], bits: int) -> list[tuple[int, int] | None]:
    """Value and place behind it; None for a broken number, or one that the bytes end in."""
    column = read_varints(np.frombuffer(data, np.uint8), np.array(places, np.int64), bits)
    broken = [False] * len(places) if column.broken is None else column.broken.tolist()
    rows = zip(column.values.tolist(), column.end.tolist(), broken, strict=True)
    return [None if bad or behind > len(data) else (value, behind) for value, behind, bad in rows]


def read_each(data: bytes, places: list[int], bits: int) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for place in places:
        try:
            found.append(READERS[bits](data, place))
        except (IndexError, ValueError):
            found.append(None)
    return found


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=60))
def test_written_numbers_are_read(numbers: list[int]) -> None:
    data, places = bytearray(), []
    for number in numbers:
        places.append(len(data))
        append_varint(data, number)
    found = read_all(bytes(data), places, 64)
    assert [row and row[0] for row in found] == numbers
    assert [row and row[1] for row in found] == [*places[1:], len(data)]


@pytest.mark.parametrize("bits", [32, 64])
@given(st.binary(min_size=1, max_size=80) | st.lists(st.sampled_from(b"\x00\x01\x7f\x80\xff"), min_size=1).map(bytes))
def test_any_bytes_are_read_as_one_by_one(bits: int, data: bytes) -> None:
    places = list(range(len(data)))
    assert read_all(data, places, bits) == read_each(data, places, bits)
