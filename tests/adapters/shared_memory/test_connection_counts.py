"""Connections are counted over processes: by address and together, at any moment at least what there is."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.adapters.shared_memory.connection_counts import BUCKETS, TABLE_BYTES, WAYS, ConnectionCounts
from kafkad.adapters.shared_memory.shared_region import SharedRegion

PROCESSES = 3


@pytest.fixture(scope="module")
def region() -> Iterator[SharedRegion]:
    made = SharedRegion("counts", PROCESSES * TABLE_BYTES)
    yield made
    made.close()


def _tables(region: SharedRegion, live: set[int] | None = None) -> list[ConnectionCounts]:
    alive = set(range(PROCESSES)) if live is None else live
    return [ConnectionCounts(region, at, lambda at=at: alive - {at}) for at in range(PROCESSES)]  # type: ignore[misc]


@given(st.lists(st.tuples(st.integers(0, PROCESSES - 1), st.sampled_from("abcde"), st.booleans()), max_size=60))
def test_every_process_sees_the_same_sums(region: SharedRegion, steps: list[tuple[int, str, bool]]) -> None:
    tables = _tables(region)
    model: Counter[tuple[int, str]] = Counter()
    for process, host, enters in steps:
        if enters:
            tables[process].enter(host)
            model[process, host] += 1
        elif model[process, host]:
            tables[process].leave(host)
            model[process, host] -= 1
        for table in tables:
            assert table.total() == model.total()
            for each in "abcde":
                assert table.from_host(each) == sum(model[at, each] for at in range(PROCESSES))


def test_what_a_dead_process_had_does_not_count_and_its_next_life_begins_with_nothing(region: SharedRegion) -> None:
    live = {0, 1, 2}
    first, second, _ = _tables(region, live)
    second.enter("a")
    assert (first.from_host("a"), first.total()) == (1, 1)
    live.discard(1)
    assert (first.from_host("a"), first.total()) == (0, 0)
    live.add(1)
    again = ConnectionCounts(region, 1, lambda: live - {1})
    assert (again.here, first.from_host("a"), first.total()) == (0, 0, 0)


def test_more_addresses_than_places_are_counted_in_their_own_process(region: SharedRegion) -> None:
    first, second, _ = _tables(region)
    hosts = [str(number) for number in range(2 * BUCKETS * WAYS)]
    for host in hosts:
        first.enter(host)
    assert first.total() == second.total() == len(hosts)
    assert all(first.from_host(host) == 1 for host in hosts[::97])
    assert BUCKETS * WAYS // 2 < sum(second.from_host(host) for host in hosts) <= BUCKETS * WAYS
    for host in hosts:
        first.leave(host)
    first.enter("late")
    assert second.from_host("late") == 1
