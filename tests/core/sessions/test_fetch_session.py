"""A fetch session remembers requests and answers, and looks only at partitions that may have news."""

import pytest

from kafkad.core.sessions.fetch_session import CachedPartition, FetchSession, PartitionKey, next_epoch

A: PartitionKey = ("topic", 0)
B: PartitionKey = ("topic", 1)


def row(key: PartitionKey, offset: int = 0, max_bytes: int = 100, epoch: int = -1) -> CachedPartition:
    return CachedPartition(key, offset, max_bytes, epoch)


def session(*keys: PartitionKey) -> FetchSession:
    return FetchSession([row(key) for key in keys], 0, uses_topic_ids=False)


def test_a_new_session_looks_at_everything_once() -> None:
    made = session(A, B)
    assert list(made.dirty) == [A, B]
    for key in (A, B):
        made.evaluated(key, has_more=False)
    assert list(made.dirty) == []


def test_a_partition_with_more_to_say_goes_to_the_end_of_the_line() -> None:
    made = session(A, B)
    made.evaluated(A, has_more=True)
    assert list(made.dirty) == [B, A]


def test_a_partition_that_got_no_room_keeps_its_place() -> None:
    made = session(A, B)
    made.evaluated(A, has_more=True, has_records=True)
    made.evaluated(B, has_more=True, has_records=False)
    assert list(made.dirty) == [B, A]


def test_a_request_changes_what_it_names_and_has_it_looked_at() -> None:
    made = session(A, B)
    for key in (A, B):
        made.evaluated(key, has_more=False)
    new: PartitionKey = ("other", 3)

    made.update([row(B, offset=50, max_bytes=7, epoch=2), row(new)], [])

    known = made.partitions[B]
    assert (known.fetch_offset, known.max_bytes, known.current_leader_epoch) == (50, 7, 2)
    assert list(made.dirty) == [B, new]
    assert list(made.partitions) == [A, B, new]


def test_a_change_keeps_what_was_told_and_where_the_partition_is() -> None:
    made = session(A)
    made.bind(made.partitions[A], 7)
    assert made.partitions[A].must_include(0, 10, 0, has_records=False)
    made.update([row(A, offset=5)], [])
    assert made.partitions[A].slot == 7
    assert not made.partitions[A].must_include(0, 10, 0, has_records=False)


def test_forgotten_partitions_give_their_slots_back() -> None:
    made = session(A, B)
    made.bind(made.partitions[A], 7)
    assert made.update([], [A, B, ("never", 0)]) == [7]
    assert (made.partitions, made.dirty, made.by_slot) == ({}, {}, {})


def test_only_the_partition_of_a_slot_that_moved_is_looked_at() -> None:
    made = session(A, B)
    made.bind(made.partitions[A], 7)
    made.bind(made.partitions[B], 8)
    for key in (A, B):
        made.evaluated(key, has_more=False)
    made.slot_changed(8)
    made.slot_changed(99)
    assert list(made.dirty) == [B]


def test_a_partition_that_moved_to_another_slot_is_not_found_by_the_old_one() -> None:
    made = session(A)
    made.bind(made.partitions[A], 7)
    made.bind(made.partitions[A], 9)
    made.evaluated(A, has_more=False)
    made.slot_changed(7)
    assert list(made.dirty) == []
    made.slot_changed(9)
    assert list(made.dirty) == [A]


def test_a_partition_is_told_of_when_its_numbers_changed() -> None:
    cached = row(A)
    assert cached.must_include(0, 10, 0, has_records=False)
    assert not cached.must_include(0, 10, 0, has_records=False)
    assert cached.must_include(0, 11, 0, has_records=False)
    assert cached.must_include(0, 11, 5, has_records=False)
    assert cached.must_include(0, 11, 5, has_records=True)
    assert not cached.must_include(0, 11, 5, has_records=False)


def test_an_error_is_repeated_and_so_is_its_end_told() -> None:
    cached = row(A)
    cached.must_include(0, 10, 0, has_records=False)
    assert cached.must_include(6, -1, -1, has_records=False)
    assert cached.must_include(6, -1, -1, has_records=False)
    assert cached.must_include(0, 10, 0, has_records=False)
    assert not cached.must_include(0, 10, 0, has_records=False)


@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (2**31 - 1, 1), (-1, -1)])
def test_epochs_wrap_past_the_initial_one(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following


def test_a_follower_whose_broker_has_registered_anew_is_reported_again() -> None:
    """Its fetches say nothing new, but in a new epoch: the leader would name the old one for ever."""
    made = session(A, B)
    made.read_by_follower(2, 70, [(A, 0)])
    made.unreported.clear()
    made.dirty.clear()
    made.read_by_follower(2, 70, [])
    assert (made.unreported, list(made.dirty)) == (set(), [])
    made.read_by_follower(2, 71, [])
    assert (made.unreported, list(made.dirty)) == ({A}, [A])


def test_a_follower_that_has_registered_anew_reads_nothing_that_it_let_go() -> None:
    """Not even what had no place here any more: its replica had been moved away."""
    made = session(A, B)
    made.read_by_follower(2, 70, [(A, 0), (B, 0)])
    made.bind(made.partitions[A], 5)
    made.bind(made.partitions[A], -1)
    made.update([], [A])
    made.unreported.clear()
    made.dirty.clear()
    made.read_by_follower(2, 71, [])
    assert (made.unreported, list(made.dirty)) == ({B}, [B])
