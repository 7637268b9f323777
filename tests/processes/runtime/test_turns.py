"""Work in steps: nobody with little waits for everybody with much."""

from collections.abc import Iterator

from kafkad.processes.runtime.turns import Turns


def steps(log: list[str], name: str, count: int) -> Iterator[None]:
    for number in range(count):
        log.append(f"{name}{number}")
        yield


def all_of(turns: Turns) -> None:
    while turns:
        turns.work(0)


def test_a_pass_takes_one_step_at_least_and_ends_when_its_time_is_over() -> None:
    log: list[str] = []
    turns = Turns()
    turns.add(1_000, steps(log, "a", 3))
    turns.work(0)
    assert log == ["a0"]
    assert turns


def test_work_of_one_size_takes_turns() -> None:
    log: list[str] = []
    turns = Turns()
    turns.add(1_000, steps(log, "a", 2))
    turns.add(1_000, steps(log, "b", 2))
    all_of(turns)
    assert log == ["a0", "b0", "a1", "b1"]


def test_each_size_has_its_turn_however_much_there_is_of_the_others() -> None:
    log: list[str] = []
    turns = Turns()
    for name in "abcdef":
        turns.add(1_000_000, steps(log, name, 5))
    turns.add(600, steps(log, "small", 2))
    turns.work(0)
    turns.work(0)
    turns.work(0)
    turns.work(0)
    assert log == ["a0", "small0", "b0", "small1"]


def test_a_step_may_add_work() -> None:
    log: list[str] = []
    turns = Turns()

    def first() -> Iterator[None]:
        turns.add(1_000, steps(log, "later", 1))
        yield

    turns.add(1_000, first())
    all_of(turns)
    assert log == ["later0"]


def test_who_has_all_the_time_comes_to_the_end() -> None:
    log: list[str] = []
    turns = Turns()
    turns.add(600, steps(log, "a", 2))
    turns.add(6_000, steps(log, "b", 1))
    turns.work(60.0)
    assert sorted(log) == ["a0", "a1", "b0"]
    assert not turns
