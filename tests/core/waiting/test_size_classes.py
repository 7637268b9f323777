"""Only some large requests are processed at once, and none is forgotten."""

from kafkad.core.waiting.size_classes import SizeClasses


def test_requests_of_one_size_beyond_the_limit_wait_and_begin_in_their_order() -> None:
    classes: SizeClasses[str] = SizeClasses(250)
    assert [classes.begin(100, who) for who in "abcd"] == [True, True, False, False]
    assert classes.held_bytes == 400
    assert [classes.end(100), classes.end(100), classes.end(100), classes.end(100)] == [["c"], ["d"], [], []]
    assert classes.held_bytes == 0


def test_one_larger_than_the_limit_is_in_work_alone() -> None:
    classes: SizeClasses[str] = SizeClasses(250)
    assert [classes.begin(300, "a"), classes.begin(260, "b")] == [True, False]
    assert classes.end(300) == ["b"]


def test_nobody_waits_for_requests_of_another_size() -> None:
    classes: SizeClasses[str] = SizeClasses(250)
    assert [classes.begin(300, "a"), classes.begin(300, "b"), classes.begin(100, "c")] == [True, False, True]


def test_several_begin_when_one_that_was_larger_ends() -> None:
    classes: SizeClasses[str] = SizeClasses(250)
    assert [classes.begin(size, who) for size, who in ((250, "a"), (128, "b"), (129, "c"))] == [True, False, False]
    assert classes.end(250) == ["b"]


def test_all_begin_for_which_there_is_room() -> None:
    classes: SizeClasses[str] = SizeClasses(250)
    begun = [classes.begin(size, who) for size, who in ((127, "a"), (124, "b"), (64, "c"), (64, "d"))]
    assert begun == [True, False, False, False]
    assert classes.end(127) == ["b", "c"]


def test_nobody_overtakes_who_waits() -> None:
    classes: SizeClasses[str] = SizeClasses(250)
    assert [classes.begin(size, who) for size, who in ((200, "a"), (200, "b"), (128, "c"))] == [True, False, False]
    assert classes.end(200) == ["b"]
