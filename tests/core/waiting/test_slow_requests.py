"""Which requests arrive too slowly."""

from kafkad.core.waiting.slow_requests import (
    SLOW_BYTES,
    STUCK_BYTES,
    CheckedTransfer,
    SlowRequests,
    Transfer,
    select_for_bytes,
)


def _begun(who: str, got: int, *, number: int = 1, held: int = 100, is_waiting: bool = False) -> Transfer[str]:
    return Transfer(who, number, got, held, is_waiting)


def _slow(seen: list[CheckedTransfer[str]]) -> list[str]:
    return [each.transfer.owner for each in seen if each.is_slow]


def test_nobody_is_slow_at_the_first_look() -> None:
    assert SlowRequests[str]().check([_begun("a", 5)], 0) == []


def test_who_has_hardly_come_on_is_slow_and_the_slowest_is_first() -> None:
    requests: SlowRequests[str] = SlowRequests()
    requests.check([_begun("fast", 0), _begun("slow", 0), _begun("still", 0)], STUCK_BYTES)
    seen = requests.check([_begun("fast", SLOW_BYTES), _begun("slow", 2_000), _begun("still", 0)], STUCK_BYTES)
    assert _slow(seen) == ["still", "slow"]
    assert [each.transfer.owner for each in seen] == ["still", "slow", "fast"]


def test_who_began_after_the_last_look_is_not_judged() -> None:
    requests: SlowRequests[str] = SlowRequests()
    requests.check([_begun("a", 5)], 0)
    assert requests.check([_begun("a", 5, number=2), _begun("b", 5)], 0) == []
    assert _slow(requests.check([_begun("a", 5, number=2)], 0)) == ["a"]


def test_who_is_not_read_is_slow_only_when_nothing_goes_on() -> None:
    requests: SlowRequests[str] = SlowRequests()
    rows = [_begun("waits", 5, is_waiting=True), _begun("slow", 5)]
    requests.check(rows, STUCK_BYTES)
    assert _slow(requests.check(rows, STUCK_BYTES)) == ["slow"]
    assert _slow(requests.check(rows, STUCK_BYTES - 1)) == ["slow", "waits"]


def test_who_has_been_there_longest_is_first() -> None:
    requests: SlowRequests[str] = SlowRequests()
    requests.check([_begun("old", 0)], 0)
    requests.check([_begun("new", 0), _begun("old", 1)], 0)
    assert _slow(requests.check([_begun("new", 0), _begun("old", 2)], 0)) == ["old", "new"]


def test_who_is_forgotten_is_new() -> None:
    requests: SlowRequests[str] = SlowRequests()
    requests.check([_begun("a", 5)], 0)
    requests.reset()
    assert requests.check([_begun("a", 5)], 0) == []


def test_no_more_give_way_than_needed() -> None:
    rows = [_begun("a", 0, held=10), _begun("b", 0, held=10), _begun("c", 0, held=10)]
    assert [each.owner for each in select_for_bytes(rows, 11)] == ["a", "b"]
    assert select_for_bytes(rows, 0) == []
