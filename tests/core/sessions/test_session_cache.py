"""Which fetch sessions are created and evicted, and the errors for stale ones (KIP-227)."""

from collections.abc import Iterable

import pytest

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.sessions.fetch_session import CachedPartition, FetchSession
from kafkad.core.sessions.session_cache import SessionCache

EVICTION_MS = 1000


def a_cache(slots: int = 2, ids: Iterable[int] = range(1, 100)) -> SessionCache:
    return SessionCache(slots, iter(ids).__next__, EVICTION_MS)


def a_session(partitions: int = 1, now_ms: int = 0) -> FetchSession:
    rows = [CachedPartition(("topic", index), 0, 100) for index in range(partitions)]
    return FetchSession(rows, now_ms, uses_topic_ids=True)


def opened(cache: SessionCache, partitions: int = 1, now_ms: int = 0) -> FetchSession:
    made = a_session(partitions, now_ms)
    assert cache.open(made, 0, now_ms)
    return made


def resumed(cache: SessionCache, session_id: int, epoch: int, now_ms: int = 0) -> FetchSession:
    session = cache.resume(session_id, epoch, uses_topic_ids=True)
    cache.updated(session, now_ms)
    return session


def refusal(cache: SessionCache, session_id: int, epoch: int, *, uses_topic_ids: bool = True) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        cache.resume(session_id, epoch, uses_topic_ids=uses_topic_ids)
    return caught.value.code


def test_a_full_request_opens_a_session_that_incremental_ones_continue() -> None:
    cache = a_cache()
    made = opened(cache)
    assert (made.session_id, made.epoch, len(cache)) == (1, 1, 1)
    assert resumed(cache, 1, 1, 50) is made
    assert (made.epoch, made.last_used_ms) == (2, 50)
    assert resumed(cache, 1, 2, 60) is made


def test_who_asks_for_no_session_or_for_no_partition_gets_none() -> None:
    cache = a_cache()
    assert not cache.open(a_session(), -1, 0)
    assert not cache.open(a_session(0), 0, 0)
    assert len(cache) == 0


def test_ids_are_never_zero_and_never_given_twice() -> None:
    cache = a_cache(ids=[0, 5, 5, 0, 6])
    assert [opened(cache).session_id, opened(cache).session_id] == [5, 6]


def test_a_stale_request_is_told_what_is_wrong() -> None:
    cache = a_cache()
    opened(cache)
    assert refusal(cache, 99, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert refusal(cache, 1, 2) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert refusal(cache, 1, 1, uses_topic_ids=False) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_refused_request_leaves_the_session_as_it_was() -> None:
    cache = a_cache()
    made = opened(cache)
    refusal(cache, 1, 7)
    refusal(cache, 1, 1, uses_topic_ids=False)
    assert resumed(cache, 1, 1) is made


def test_a_full_request_closes_the_session_that_it_names() -> None:
    cache = a_cache()
    made = opened(cache)
    assert cache.begin_full(0) is None
    assert cache.begin_full(1) is made
    assert refusal(cache, 1, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.begin_full(1) is None


def test_a_session_that_lost_its_last_partition_ends() -> None:
    cache = a_cache()
    made = opened(cache)
    assert cache.reply_session_id(resumed(cache, 1, 1)) == 1
    made.update([], [("topic", 0)])
    cache.updated(made, 0)
    assert (len(cache), cache.reply_session_id(made)) == (0, 0)
    assert refusal(cache, 1, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_cache_gives_up_the_session_that_was_unused_for_long() -> None:
    cache = a_cache()
    old, used = opened(cache, 50), opened(cache, 1)
    resumed(cache, used.session_id, 1, 900)
    made = a_session()
    assert not cache.open(made, 0, EVICTION_MS)
    assert cache.open(made, 0, EVICTION_MS + 1)
    assert (cache.take_evicted(), cache.take_evicted(), cache.reply_session_id(old)) == ([old], [], 0)
    assert set(cache) == {used, made}


def busy(cache: SessionCache, *sessions: FetchSession, until_ms: int) -> None:
    for each in sessions:
        resumed(cache, each.session_id, each.epoch, until_ms)


def test_a_larger_newcomer_pushes_out_the_smallest_that_had_its_time() -> None:
    cache = a_cache()
    small, large = opened(cache, 2), opened(cache, 5)
    busy(cache, small, large, until_ms=EVICTION_MS + 1)
    assert not cache.open(a_session(2), 0, EVICTION_MS + 1)
    assert cache.open(a_session(3), 0, EVICTION_MS + 1)
    assert cache.take_evicted() == [small]


def test_a_session_that_was_not_used_since_its_time_began_is_not_pushed_out_by_size() -> None:
    cache = a_cache(1)
    young = opened(cache, 2)
    busy(cache, young, until_ms=EVICTION_MS)
    assert not cache.open(a_session(3), 0, EVICTION_MS + 1)
    busy(cache, young, until_ms=EVICTION_MS + 1)
    assert cache.open(a_session(3), 0, EVICTION_MS + 1)


def of_a_follower(partitions: int = 1, *, may_follow: bool = True) -> FetchSession:
    made = a_session(partitions)
    made.may_follow = may_follow
    made.read_by_follower(2, 1, ())
    return made


def test_follower_evicts_the_smallest_session_of_a_consumer_however_young_it_is() -> None:
    cache = a_cache()
    large, small = opened(cache, 5), opened(cache, 3)
    assert cache.open(of_a_follower(1), 0, 0)
    assert cache.take_evicted() == [small]
    assert cache.open(of_a_follower(1), 0, 0)
    assert cache.take_evicted() == [large]
    assert not cache.open(of_a_follower(9), 0, 0), "followers are equals"


def test_consumer_evicts_no_follower_that_fetches() -> None:
    cache = a_cache()
    follower, consumer = of_a_follower(1), opened(cache, 2)
    assert cache.open(follower, 0, 0)
    busy(cache, follower, consumer, until_ms=EVICTION_MS + 1)
    assert cache.open(a_session(50), 0, EVICTION_MS + 1)
    assert cache.take_evicted() == [consumer]
    assert not cache.open(a_session(60), 0, EVICTION_MS + 1)


def test_follower_evicts_a_smaller_one_that_had_its_time() -> None:
    cache = a_cache()
    small, large = of_a_follower(2), of_a_follower(5)
    assert cache.open(small, 0, 0) and cache.open(large, 0, 0)
    assert not cache.open(of_a_follower(3), 0, EVICTION_MS)
    busy(cache, small, large, until_ms=EVICTION_MS + 1)
    assert not cache.open(of_a_follower(1), 0, EVICTION_MS + 1)
    assert cache.open(of_a_follower(3), 0, EVICTION_MS + 1)
    assert cache.take_evicted() == [small]


def test_replica_on_a_listener_for_clients_evicts_as_a_consumer_does() -> None:
    cache = a_cache(1)
    opened(cache)
    assert not cache.open(of_a_follower(5, may_follow=False), 0, 0)


def test_size_that_counts_is_the_one_of_the_last_request() -> None:
    cache = a_cache()
    shrinking, steady = opened(cache, 9), opened(cache, 5)
    busy(cache, shrinking, steady, until_ms=EVICTION_MS + 1)
    shrinking.update([], [("topic", index) for index in range(7)])
    busy(cache, shrinking, until_ms=EVICTION_MS + 2)
    assert cache.open(a_session(4), 0, EVICTION_MS + 2)
    assert cache.take_evicted() == [shrinking]


class CountedSessions(FetchSession):
    """Counts how often its place in the cache's order is asked for."""

    __slots__ = ()
    looks = 0

    @property
    def last_used_ms(self) -> int:
        CountedSessions.looks += 1
        return 0

    @last_used_ms.setter
    def last_used_ms(self, value: int) -> None:
        return


@pytest.mark.interpreted
def test_full_cache_does_not_look_at_all_its_sessions_for_each_newcomer() -> None:
    cache = a_cache(1000, ids=range(1, 5000))
    for _ in range(1000):
        assert cache.open(CountedSessions(a_session(3).partitions.values(), 0, uses_topic_ids=True), 0, 0)
    CountedSessions.looks = 0
    for _ in range(100):
        assert not cache.open(a_session(2), 0, EVICTION_MS)
    assert CountedSessions.looks <= 100


def test_without_slots_nobody_gets_a_session() -> None:
    assert not a_cache(0).open(a_session(), 0, 0)


def test_partitions_of_all_sessions_together_are_bounded() -> None:
    cache = SessionCache(100, iter(range(1, 100)).__next__, EVICTION_MS, max_partitions=10)
    first = opened(cache, 6)
    assert not cache.open(a_session(5), 0, 0)
    opened(cache, 4)
    assert not cache.open(a_session(1), 0, 0)
    first.update([], [("topic", index) for index in range(5)])
    cache.updated(first, 0)
    opened(cache, 5)
    assert not cache.open(a_session(1), 0, 0)
    cache.begin_full(first.session_id)
    opened(cache, 1)


def test_session_that_grows_beyond_what_there_is_room_for_ends() -> None:
    cache = SessionCache(100, iter(range(1, 100)).__next__, EVICTION_MS, max_partitions=10)
    growing, quiet = opened(cache, 4), opened(cache, 4)
    growing.update([CachedPartition(("other", index), 0, 100) for index in range(3)], [])
    cache.updated(growing, 0)
    assert (cache.reply_session_id(growing), cache.reply_session_id(quiet)) == (0, quiet.session_id)
    assert resumed(cache, quiet.session_id, 1) is quiet
    opened(cache, 6)


def test_session_of_a_follower_grows_at_the_expense_of_consumers() -> None:
    cache = SessionCache(100, iter(range(1, 100)).__next__, EVICTION_MS, max_partitions=10)
    consumer, growing = opened(cache, 4), of_a_follower(4)
    assert cache.open(growing, 0, 0)
    growing.update([CachedPartition(("other", index), 0, 100) for index in range(5)], [])
    cache.updated(growing, 0)
    assert (cache.take_evicted(), set(cache)) == ([consumer], {growing})
    growing.update([CachedPartition(("other", index), 0, 100) for index in range(5, 10)], [])
    cache.updated(growing, 0)
    assert (cache.take_evicted(), set(cache)) == ([], set()), "there is no room for so many"
    opened(cache, 10)


def test_several_sessions_that_were_unused_for_long_give_way_to_a_large_one() -> None:
    cache = SessionCache(100, iter(range(1, 100)).__next__, EVICTION_MS, max_partitions=10)
    old = [opened(cache, 3) for _ in range(3)]
    assert cache.open(a_session(7), 0, EVICTION_MS + 1)
    assert cache.take_evicted() == old[:2]


def test_newcomer_larger_than_all_room_pushes_out_nobody() -> None:
    cache = SessionCache(100, iter(range(1, 100)).__next__, EVICTION_MS, max_partitions=10)
    old = opened(cache, 3)
    assert not cache.open(a_session(11), 0, EVICTION_MS + 1)
    assert (cache.take_evicted(), set(cache)) == ([], {old})
