from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.log.epochs import CorruptCheckpoint, LeaderEpochCache, parse_checkpoint

EPOCHS = [(2, 0), (3, 10), (6, 25)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 0)),
        (1, (1, 0)),
        (2, (2, 10)),
        (3, (3, 25)),
        (4, (3, 25)),
        (5, (3, 25)),
        (6, (6, 40)),
        (7, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(asked: int, answer: tuple[int, int]) -> None:
    assert LeaderEpochCache(EPOCHS).end_offset_for(asked, 40) == answer


def test_an_epoch_from_before_the_log_ends_where_the_log_starts() -> None:
    assert LeaderEpochCache([(5, 100), (7, 200)]).end_offset_for(3, 300) == (3, 100)


def test_without_epochs_nothing_can_be_said() -> None:
    assert LeaderEpochCache().end_offset_for(0, 40) == (-1, -1)
    assert LeaderEpochCache().latest_epoch is None


@pytest.mark.parametrize(
    ("entries", "asked", "answer"),
    [
        ([(0, 0)], 0, (0, 26)),
        ([(0, 0)], 1, (0, 26)),
        ([(0, 0)], 3, (3, 26)),
        ([(0, 0)], 4, (-1, -1)),
        ([(0, 0), (2, 21)], 1, (0, 21)),
        ([(0, 0), (2, 26)], 2, (0, 26)),
        ([], 1, (1, 26)),
        ([(0, 0), (3, 21)], 2, (0, 21)),
        ([(0, 0), (3, 21)], 3, (3, 26)),
    ],
)
def test_a_leader_without_records_of_its_epoch_begins_it_at_the_log_end(
    entries: list[tuple[int, int]], asked: int, answer: tuple[int, int]
) -> None:
    cache = LeaderEpochCache(entries)
    assert cache.end_offset_as_leader(asked, 26, 3) == answer
    assert [tuple(entry) for entry in cache.entries] == entries


def test_a_known_epoch_is_not_assigned_again() -> None:
    cache = LeaderEpochCache(EPOCHS)
    assert not cache.assign(6, 30)
    assert cache.entries == EPOCHS
    assert cache.assign(6, 20)
    assert cache.entries == [(2, 0), (3, 10), (6, 20)]


def test_a_new_epoch_removes_what_contradicts_it() -> None:
    cache = LeaderEpochCache(EPOCHS)
    assert cache.assign(7, 10)
    assert cache.entries == [(2, 0), (7, 10)]
    assert cache.assign(1, 50)
    assert cache.entries == [(1, 50)]


@pytest.mark.parametrize(("epoch", "offset"), [(-1, 0), (0, -1)])
def test_negative_numbers_are_our_own_mistake(epoch: int, offset: int) -> None:
    with pytest.raises(ValueError):
        LeaderEpochCache().assign(epoch, offset)


@pytest.mark.parametrize(
    ("end", "left"), [(26, EPOCHS), (25, EPOCHS[:2]), (11, EPOCHS[:2]), (10, EPOCHS[:1]), (0, []), (-1, EPOCHS)]
)
def test_truncating_the_end_removes_epochs_that_began_there(end: int, left: list[tuple[int, int]]) -> None:
    cache = LeaderEpochCache(EPOCHS)
    assert cache.truncate_from_end(end) == (left != EPOCHS)
    assert cache.entries == left


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, EPOCHS),
        (5, [(2, 5), (3, 10), (6, 25)]),
        (10, [(3, 10), (6, 25)]),
        (24, [(3, 24), (6, 25)]),
        (90, [(6, 90)]),
    ],
)
def test_truncating_the_start_keeps_the_epoch_in_force(start: int, left: list[tuple[int, int]]) -> None:
    cache = LeaderEpochCache(EPOCHS)
    assert cache.truncate_from_start(start) == (left != EPOCHS)
    assert cache.entries == left


def test_truncating_before_the_first_epoch_changes_nothing() -> None:
    cache = LeaderEpochCache([(4, 10)])
    assert not cache.truncate_from_start(3)
    assert cache.entries == [(4, 10)]


def test_the_checkpoint_is_the_text_that_kafka_writes() -> None:
    assert LeaderEpochCache(EPOCHS).to_text() == "0\n3\n2 0\n3 10\n6 25\n"
    assert LeaderEpochCache().to_text() == "0\n0\n"


pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 100)), max_size=12)


@given(pairs)
def test_a_checkpoint_is_read_as_it_was_written(assigned: list[tuple[int, int]]) -> None:
    cache = LeaderEpochCache(assigned)
    assert LeaderEpochCache.from_text(cache.to_text()).entries == cache.entries


@given(pairs, st.integers(-1, 31), st.integers(100, 200))
def test_entries_grow_and_answers_follow_from_them(assigned: list[tuple[int, int]], asked: int, end: int) -> None:
    cache = LeaderEpochCache(assigned)
    entries = cache.entries
    assert entries == sorted(set(entries)) and len({start for _, start in entries}) == len(entries)
    assert [start for _, start in entries] == sorted(start for _, start in entries)
    if assigned:
        assert cache.latest_epoch == assigned[-1][0]
    assert cache.end_offset_for(asked, end) == naive_end_offset(entries, asked, end)


def naive_end_offset(entries: Sequence[tuple[int, int]], asked: int, end: int) -> tuple[int, int]:
    if not entries or asked < 0 or asked > entries[-1][0]:
        return -1, -1
    if asked == entries[-1][0]:
        return asked, end
    above = min(start for epoch, start in entries if epoch > asked)
    return max([epoch for epoch, _ in entries if epoch <= asked], default=asked), above


@pytest.mark.parametrize(
    "text",
    [
        *["\n", "0", "x\n0\n", "1\n0\n", "0\n2\n1 1\n", "0\n1\n1 1\n2 2\n", "0\n1\n1\n", "0\n1\na b\n", "0\n1\n1 -5\n"],
        *[f"0\n1\n{2**31} 0\n", f"0\n1\n0 {2**63}\n"],
    ],
)
def test_a_broken_checkpoint_is_named(text: str) -> None:
    with pytest.raises(CorruptCheckpoint):
        parse_checkpoint(text)
