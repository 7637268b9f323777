"""Operations leave the purgatory exactly once, whichever event comes first; also compared with a naive model."""

from collections.abc import Hashable, Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkad.core.waiting.purgatory import DelayedOperation, Purgatory
from tests.amounts import amount

Levels = dict[Hashable, int]


class WaitsForLevel(DelayedOperation[str, Levels]):
    """Complete when every key's level is at least `needed`."""

    def __init__(self, keys: Sequence[str], needed: int, deadline_ms: int) -> None:
        super().__init__(keys=keys, deadline_ms=deadline_ms)
        self.needed = needed
        self.short = set(keys)

    def try_complete(self, view: Levels) -> bool:
        self.short = {key for key in self.keys if view.get(key, 0) < self.needed}
        return not self.short

    def try_complete_key(self, key: str, view: Levels) -> bool:
        if view.get(key, 0) >= self.needed:
            self.short.discard(key)
        return not self.short


def purgatory_over(levels: Levels, purge_interval: int = 1000) -> Purgatory[WaitsForLevel, Levels]:
    return Purgatory(view=levels, start_ms=0, purge_interval=purge_interval)


def test_a_satisfied_operation_never_waits() -> None:
    purgatory = purgatory_over({"a": 5})
    assert purgatory.try_complete_else_watch(WaitsForLevel(["a"], 5, 100))
    assert (len(purgatory), purgatory.watched, purgatory.next_expiration_ms()) == (0, 0, None)


def test_an_event_completes_what_it_satisfies_and_cancels_the_deadline() -> None:
    levels: Levels = {}
    purgatory = purgatory_over(levels)
    near, far = WaitsForLevel(["a"], 1, 100), WaitsForLevel(["a"], 2, 100)
    assert not purgatory.try_complete_else_watch(near)
    assert not purgatory.try_complete_else_watch(far)
    levels["a"] = 1
    assert purgatory.check_and_complete("a") == [near]
    assert purgatory.expire(100) == [far]
    assert purgatory.expire(200) == []


def test_an_operation_on_two_keys_waits_for_both() -> None:
    levels: Levels = {}
    purgatory = purgatory_over(levels)
    operation = WaitsForLevel(["a", "b"], 1, 100)
    purgatory.try_complete_else_watch(operation)
    levels["a"] = 1
    assert purgatory.check_and_complete("a") == []
    levels["b"] = 1
    assert purgatory.check_and_complete("b") == [operation]
    assert purgatory.check_and_complete("a") == []


def test_an_expired_operation_is_not_completed_again_by_its_event() -> None:
    levels: Levels = {}
    purgatory = purgatory_over(levels)
    operation = WaitsForLevel(["a"], 1, 10)
    purgatory.try_complete_else_watch(operation)
    assert purgatory.expire(9) == []
    assert purgatory.expire(10) == [operation]
    levels["a"] = 1
    assert purgatory.check_and_complete("a") == []


def test_a_cancelled_operation_is_gone_for_events_and_clock() -> None:
    levels: Levels = {}
    purgatory = purgatory_over(levels)
    operation = WaitsForLevel(["a"], 1, 10)
    purgatory.try_complete_else_watch(operation)
    assert purgatory.cancel(operation)
    assert not purgatory.cancel(operation)
    levels["a"] = 1
    assert purgatory.check_and_complete("a") == []
    assert purgatory.expire(10) == []


def test_clear_hands_back_every_waiting_operation_once() -> None:
    purgatory = purgatory_over({})
    operations = [WaitsForLevel(["a", "b"], 1, 10 + number) for number in range(3)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation)
    assert purgatory.clear() == operations
    assert (len(purgatory), purgatory.watched) == (0, 0)
    assert not purgatory.cancel(operations[0])


def test_finished_operations_are_purged_from_lists_that_no_event_visits() -> None:
    levels: Levels = {"busy": 1}
    purgatory = purgatory_over(levels, purge_interval=10)
    purgatory.try_complete_else_watch(WaitsForLevel(["busy", "quiet"], 1, 100))
    for _ in range(1_000):
        operation = WaitsForLevel(["busy", "quiet"], 1, 100)
        purgatory.try_complete_else_watch(operation)
        purgatory.cancel(operation)
        assert purgatory.watched <= 14


def test_an_operation_that_leaves_is_not_kept_for_a_key_that_nobody_else_waits_for() -> None:
    purgatory = purgatory_over({})
    cancelled, expired = WaitsForLevel(["a"], 1, 100), WaitsForLevel(["b", "c"], 1, 10)
    for operation in (cancelled, expired):
        purgatory.try_complete_else_watch(operation)
    purgatory.cancel(cancelled)
    assert purgatory.expire(10) == [expired]
    assert purgatory.watched == 0


class PurgatoryAgainstList(RuleBasedStateMachine):
    """Each operation leaves once, by the first of: satisfied, expired, cancelled."""

    KEYS = ("a", "b", "c")

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.levels: Levels = {}
        self.purgatory = purgatory_over(self.levels, purge_interval=3)
        self.waiting: list[WaitsForLevel] = []

    def leave(self, gone: list[WaitsForLevel]) -> None:
        for operation in gone:
            assert operation.is_completed
            self.waiting.remove(operation)

    def satisfied(self, operation: WaitsForLevel) -> bool:
        return all(self.levels.get(key, 0) >= operation.needed for key in operation.keys)

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=1), ahead=st.integers(0, 3), delay=st.integers(0, 500))
    def watch(self, keys: set[str], ahead: int, delay: int) -> None:
        needed = max(self.levels.get(key, 0) for key in keys) + ahead
        operation = WaitsForLevel(sorted(keys), needed, self.now_ms + delay)
        if self.purgatory.try_complete_else_watch(operation):
            assert self.satisfied(operation)
        else:
            assert not self.satisfied(operation)
            self.waiting.append(operation)

    @rule(key=st.sampled_from(KEYS))
    def raise_level(self, key: str) -> None:
        self.levels[key] = self.levels.get(key, 0) + 1
        expected = [operation for operation in self.waiting if self.satisfied(operation)]
        completed = self.purgatory.check_and_complete(key)
        assert completed == expected
        self.leave(completed)

    @rule(step_ms=st.integers(0, 300))
    def expire(self, step_ms: int) -> None:
        self.now_ms += step_ms
        expected = {operation for operation in self.waiting if operation.deadline_ms <= self.now_ms}
        expired = self.purgatory.expire(self.now_ms)
        assert set(expired) == expected
        self.leave(expired)

    @rule(choice=st.integers(0, 100))
    def cancel(self, choice: int) -> None:
        if self.waiting:
            operation = self.waiting[choice % len(self.waiting)]
            assert self.purgatory.cancel(operation)
            self.leave([operation])

    @invariant()
    def lists_stay_short(self) -> None:
        assert len(self.purgatory) == len(self.waiting)
        live = sum(len(operation.keys) for operation in self.waiting)
        lists = self.purgatory._watchers.values()
        assert self.purgatory.watched == sum(map(len, lists))
        assert live <= self.purgatory.watched <= 2 * live + 3


PurgatoryAgainstList.TestCase.settings = settings(max_examples=amount("state_machine_examples"), stateful_step_count=40)
TestPurgatoryAgainstList = PurgatoryAgainstList.TestCase
