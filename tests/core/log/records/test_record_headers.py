import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkad.core.log.records.record_headers import end_of_headers, read_headers
from kafkad.core.log.records.varint import append_varint
from tests.amounts import amount
from tests.core.log.many_headers import HEADER, peak_bytes

COUNT = 50_000
lengths = st.integers(-2, 70) | st.integers(-(2**31), 2**31 - 1)


@st.composite
def header_bytes(draw: st.DrawFn) -> bytes:
    """Headers some of which lie about their lengths."""
    out = bytearray()
    for _ in range(draw(st.integers(0, 8))):
        content = draw(st.binary(max_size=70))
        append_varint(out, draw(st.just(len(content)) | lengths))
        out += content
    return bytes(out) + draw(st.binary(max_size=3))


@given(st.binary(max_size=40) | header_bytes(), st.integers(0, 60), st.integers(-1, 8), st.binary(max_size=9))
@example(b"\x00\x01\x00", 2, 1, b"").via("the length of the value is behind the record, and null")
@settings(max_examples=amount("record_examples"))
def test_headers_are_found_to_end_where_they_are_read_to_end(body: bytes, cut: int, count: int, behind: bytes) -> None:
    """What lies behind the record belongs to the next one."""
    end = max(len(body) - cut, 0)
    try:
        expected = read_headers(body + behind, 0, end, count)[1]
    except (IndexError, ValueError):
        with pytest.raises((IndexError, ValueError)):
            end_of_headers(body + behind, 0, end, count)
    else:
        assert end_of_headers(body + behind, 0, end, count) == expected


def test_the_end_of_headers_is_found_without_an_object_for_each() -> None:
    body = HEADER * COUNT
    read = peak_bytes(lambda: read_headers(body, 0, len(body), COUNT))
    assert peak_bytes(lambda: end_of_headers(body, 0, len(body), COUNT)) < read / 1000
