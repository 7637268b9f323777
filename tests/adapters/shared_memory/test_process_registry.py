"""The process registry: lives, what was seen, and when a grace period is over."""

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkad.adapters.shared_memory.process_registry import (
    PROCESS_SLOTS,
    REGISTRY_BYTES,
    ProcessEntry,
    ProcessKey,
    ProcessRegistry,
    ProcessState,
)
from kafkad.adapters.shared_memory.shared_region import SharedRegion

WORKERS = (ProcessKey("worker", 0), ProcessKey("worker", 1))
NETWORKS = (ProcessKey("network", 0), ProcessKey("network", 1))
KEYS = (*WORKERS, *NETWORKS)


@pytest.fixture
def registry() -> Iterator[ProcessRegistry]:
    region = SharedRegion("test-roster", REGISTRY_BYTES)
    made = ProcessRegistry(region, KEYS)
    for key in KEYS:
        made.begin_incarnation(key)
    yield made
    region.close()


def test_rows_show_lives_in_the_order_of_the_keys(registry: ProcessRegistry) -> None:
    registry.set_pid(WORKERS[1], 4711)
    registry.set_state(WORKERS[1], ProcessState.READY)
    assert registry.entries()[1] == ProcessEntry(WORKERS[1], 1, 4711, ProcessState.READY)
    assert [entry.key for entry in registry.entries()] == list(KEYS)
    assert registry.role("network") == NETWORKS


def test_new_life_has_seen_and_applied_nothing(registry: ProcessRegistry) -> None:
    registry.mark_seen(WORKERS[0], NETWORKS[0], 1)
    registry.set_applied_version(WORKERS[0], 9)
    registry.enter_pass(registry.slot(WORKERS[0]))
    assert registry.begin_incarnation(WORKERS[0]) == 2
    assert registry.seen(WORKERS[0], NETWORKS[0]) == 0
    assert registry.applied_version(WORKERS[0]) == 0
    assert registry.passed_generation(WORKERS[0]) == 0


def test_request_that_a_thread_handles_is_named_until_its_sender_dies(registry: ProcessRegistry) -> None:
    registry.set_handled(NETWORKS[0], 1, 1 << 40)
    assert (registry.handled(NETWORKS[0]), registry.handled(NETWORKS[1])) == ((1 << 40,), ())
    registry.set_handled(NETWORKS[0], 0, 7)
    assert registry.handled(NETWORKS[0]) == (7, 1 << 40)
    registry.set_handled(NETWORKS[0], 1, 0)
    assert registry.handled(NETWORKS[0]) == (7,)
    registry.begin_incarnation(NETWORKS[0])
    assert registry.handled(NETWORKS[0]) == ()


def test_chunks_are_reused_only_after_every_live_worker_saw_the_new_life(registry: ProcessRegistry) -> None:
    registry.begin_incarnation(NETWORKS[0])
    registry.mark_seen(WORKERS[0], NETWORKS[0], 2)
    registry.mark_seen(WORKERS[1], NETWORKS[0], 1)
    assert not registry.is_seen_by_all(NETWORKS[0], "worker")
    registry.set_state(WORKERS[1], ProcessState.DEAD)
    assert registry.is_seen_by_all(NETWORKS[0], "worker")
    registry.begin_incarnation(WORKERS[1])
    assert not registry.is_seen_by_all(NETWORKS[0], "worker")


def test_broker_wide_words_are_apart_from_rows(registry: ProcessRegistry) -> None:
    registry.metadata_version = 12
    registry.broker_state = 3
    assert (registry.metadata_version, registry.broker_state) == (12, 3)
    assert all(entry.incarnation == 1 for entry in registry.entries())


def test_more_processes_than_rows_are_refused() -> None:
    keys = [ProcessKey("worker", index) for index in range(PROCESS_SLOTS + 1)]
    with pytest.raises(ValueError, match="at most 64"):
        ProcessRegistry(SharedRegion("test-crowd", REGISTRY_BYTES), keys)


def test_processes_at_rest_do_not_hold_up_a_grace_period(registry: ProcessRegistry) -> None:
    assert registry.has_grace_ended(registry.grace_marks())


def test_process_inside_a_pass_holds_it_up_until_it_left(registry: ProcessRegistry) -> None:
    slot = registry.slot(NETWORKS[0])
    registry.enter_pass(slot)
    marks = registry.grace_marks()
    assert not registry.has_grace_ended(marks)
    registry.leave_pass(slot)
    registry.enter_pass(slot)
    assert registry.has_grace_ended(marks)


def test_process_that_entered_between_the_two_looks_holds_it_up(registry: ProcessRegistry) -> None:
    """Its word may have become visible later than its reading of the slot began."""
    slot = registry.slot(NETWORKS[0])
    marks = registry.grace_marks()
    registry.enter_pass(slot)
    assert not registry.has_grace_ended(marks)
    registry.leave_pass(slot)
    assert registry.has_grace_ended(marks)


def test_dead_and_replaced_processes_do_not_hold_it_up(registry: ProcessRegistry) -> None:
    for key in NETWORKS:
        registry.enter_pass(registry.slot(key))
    marks = registry.grace_marks()
    registry.set_state(NETWORKS[0], ProcessState.DEAD)
    registry.begin_incarnation(NETWORKS[1])
    registry.enter_pass(registry.slot(NETWORKS[1]))
    assert registry.has_grace_ended(marks)


class GracePeriods(RuleBasedStateMachine):
    """Readers hold the generation that they read on entering a pass; a file goes when the grace is over."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = ProcessRegistry(SharedRegion("test-grace", REGISTRY_BYTES), KEYS)
        for key in KEYS:
            self.registry.begin_incarnation(key)
        self.generation = 1
        self.oldest_on_disk = 1
        self.held: dict[ProcessKey, int] = {}
        self.marks = self.registry.grace_marks()

    @rule(key=st.sampled_from(NETWORKS))
    def enter(self, key: ProcessKey) -> None:
        self.registry.enter_pass(self.registry.slot(key))
        self.held.setdefault(key, self.generation)

    @rule(key=st.sampled_from(NETWORKS))
    def leave(self, key: ProcessKey) -> None:
        self.held.pop(key, None)
        self.registry.leave_pass(self.registry.slot(key))

    @rule(key=st.sampled_from(NETWORKS))
    def die_and_live_again(self, key: ProcessKey) -> None:
        self.held.pop(key, None)
        self.registry.begin_incarnation(key)

    @rule()
    def publish_a_new_generation(self) -> None:
        self.generation += 1
        self.marks = self.registry.grace_marks()

    @precondition(lambda self: self.registry.has_grace_ended(self.marks))
    @rule()
    def remove_files(self) -> None:
        self.oldest_on_disk = self.generation

    @invariant()
    def nobody_holds_a_file_that_is_gone(self) -> None:
        assert all(generation >= self.oldest_on_disk for generation in self.held.values())

    @invariant()
    def grace_ends_when_all_are_at_rest(self) -> None:
        assert self.held or self.registry.has_grace_ended(self.marks)


TestGracePeriods = GracePeriods.TestCase
