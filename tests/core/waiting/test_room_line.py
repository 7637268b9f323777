"""Which requests may take memory while others wait for it."""

from kafkad.core.waiting.room_line import RoomLine


def test_anybody_takes_room_when_nobody_waits() -> None:
    line: RoomLine[str] = RoomLine()
    assert line.may_take("a", 10**9)
    line.took("a", 10**9)
    assert line.waiting == {}


def test_first_in_line_goes_on_whatever_its_size() -> None:
    line: RoomLine[str] = RoomLine()
    assert line.join("first", 100)
    assert line.join("second", 50)
    assert line.may_take("first", 100)
    line.took("first", 100)
    assert list(line.waiting) == ["second"]


def test_smaller_ones_pass_by_until_they_have_taken_as_much() -> None:
    line: RoomLine[str] = RoomLine()
    line.join("large", 100)
    for _ in range(4):
        assert line.may_take("small", 25)
        line.took("small", 25)
    assert not line.may_take("small", 25)
    assert not line.may_take("other", 1)
    assert line.may_take("large", 100)


def test_next_in_line_is_passed_by_anew() -> None:
    line: RoomLine[str] = RoomLine()
    line.join("large", 100)
    line.join("next", 40)
    line.took("small", 100)
    line.leave("large")
    assert line.may_take("small", 40)
    assert not line.may_take("small", 41)


def test_who_passes_by_leaves_the_line() -> None:
    line: RoomLine[str] = RoomLine()
    line.join("large", 100)
    line.join("small", 10)
    line.took("small", 10)
    assert list(line.waiting) == ["large"]
    assert not line.may_take("small", 91)


def test_who_waits_already_keeps_its_place() -> None:
    line: RoomLine[str] = RoomLine()
    line.join("a", 1)
    line.join("b", 1)
    assert not line.join("a", 5)
    assert list(line.waiting.items()) == [("a", 5), ("b", 1)]
