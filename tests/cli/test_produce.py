import os
import threading

from hypothesis import given
from hypothesis import strategies as st

from kafkad.cli.commands.produce import GROUP_BYTES, line_groups


def _groups_of(pieces: list[bytes]) -> list[list[bytes]]:
    reading, writing = os.pipe()

    def feed() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for piece in pieces:
                pipe.write(piece)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        return list(line_groups(reading))
    finally:
        feeder.join()
        os.close(reading)


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_every_line_comes_once_and_in_order_however_the_bytes_are_cut(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    expected = whole.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert [line for group in _groups_of(pieces) for line in group] == expected


def test_lines_that_pour_in_are_collected() -> None:
    lines = [b"x" * 99] * 40_000
    groups = _groups_of([b"\n".join(lines)])
    assert sum(map(len, groups)) == len(lines)
    assert len(groups) <= 4_000_000 // GROUP_BYTES + 2


def test_typed_line_is_handed_on_before_the_next_one_is_there() -> None:
    reading, writing = os.pipe()
    groups = line_groups(reading)
    os.write(writing, b"first\n")
    assert next(groups) == [b"first"]
    os.write(writing, b"second\nthi")
    assert next(groups) == [b"second"]
    os.close(writing)
    assert next(groups) == [b"thi"]
    os.close(reading)
