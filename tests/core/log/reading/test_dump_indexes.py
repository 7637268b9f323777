import struct

import pytest

from kafkad.core.log.reading.dump import Line, Problem, Source
from kafkad.core.log.reading.dump_indexes import dump_offset_index, dump_time_index
from kafkad.core.log.records.record import NewRecord, build_batch

BASE = 100
BATCHES = [
    build_batch([NewRecord(1000 * number, b"k", b"v")] * 2, base_offset=BASE + 2 * number) for number in range(4)
]
SIZE = len(BATCHES[0])


def source(content: bytes, name: str) -> Source:
    return Source(name=name, size=len(content), read_at=lambda size, at: content[at : at + size])


LOG = source(b"".join(BATCHES), "x.log")


def offsets(*entries: tuple[int, int], tail: bytes = b"") -> list[Line | Problem]:
    content = b"".join(struct.pack(">ii", *entry) for entry in entries) + tail
    return list(dump_offset_index(source(content, "x.index"), LOG, BASE))


def times(*entries: tuple[int, int], tail: bytes = b"") -> list[Line | Problem]:
    content = b"".join(struct.pack(">qi", *entry) for entry in entries) + tail
    return list(dump_time_index(source(content, "x.timeindex"), LOG, BASE))


def problems(found: list[Line | Problem]) -> list[str]:
    return [item.message for item in found if isinstance(item, Problem)]


def test_entries_that_name_the_last_offset_and_the_start_of_a_batch_are_right() -> None:
    assert offsets((3, SIZE), (7, 3 * SIZE)) == [
        Line(kind="index", fields={"offset": 103, "position": SIZE}),
        Line(kind="index", fields={"offset": 107, "position": 3 * SIZE}),
    ]


def test_preallocated_space_is_no_entry() -> None:
    assert len(offsets((3, SIZE), tail=bytes(80))) == 1
    assert len(times((1000, 3), tail=bytes(120))) == 1


def test_an_entry_with_the_wrong_offset_is_named() -> None:
    assert problems(offsets((2, SIZE))) == ["Index offset: 102, log offset: 103"]


@pytest.mark.parametrize("position", [-1, 7, 4 * SIZE, 2**31 - 1])
def test_an_entry_that_points_to_no_batch_is_named(position: int) -> None:
    found = problems(offsets((3, position)))
    assert len(found) == 1
    assert found[0].startswith("Index offset: 103")


def test_offsets_that_do_not_grow_are_named() -> None:
    assert problems(offsets((3, SIZE), (3, SIZE))) == ["Index offset: 103, previously indexed offset: 103"]


def test_half_an_entry_is_named() -> None:
    assert problems(offsets((3, SIZE), tail=b"abc")) == ["3 bytes at the end of x.index are an incomplete entry"]
    assert problems(times(tail=b"abcde")) == ["5 bytes at the end of x.timeindex are an incomplete entry"]


def test_times_that_name_the_largest_time_of_a_batch_are_right() -> None:
    assert times((0, 1), (2000, 5), (3000, 7)) == [
        Line(kind="timeindex", fields={"timestamp": 0, "offset": 101}),
        Line(kind="timeindex", fields={"timestamp": 2000, "offset": 105}),
        Line(kind="timeindex", fields={"timestamp": 3000, "offset": 107}),
    ]


def test_a_wrong_time_is_named() -> None:
    assert problems(times((1500, 3))) == ["Index timestamp: 1500, log timestamp: 1000"]


def test_times_that_do_not_grow_are_named() -> None:
    assert problems(times((1000, 3), (1000, 3))) == ["Index timestamp: 1000, Previously indexed timestamp: 1000"]


@pytest.mark.parametrize(("relative", "found"), [(2, 103), (40, -1)])
def test_an_offset_that_ends_no_batch_is_named(relative: int, found: int) -> None:
    assert problems(times((1000, relative))) == [f"Indexed offset: {BASE + relative}, found log offset: {found}"]


def test_an_empty_index_is_right() -> None:
    assert offsets() == [Line(kind="empty")] and times() == []


def test_an_index_is_checked_against_what_is_intact_in_the_log() -> None:
    log = source(LOG.content()[: SIZE + 10], "x.log")
    index = struct.pack(">qi", 0, 1) + struct.pack(">qi", 1000, 3)
    found = list(dump_time_index(source(index, "x.timeindex"), log, BASE))
    assert problems(found) == ["Indexed offset: 103, found log offset: -1"]
