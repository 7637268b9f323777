"""The roster: lives, what was seen, and when a grace period is over."""

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkad.adapters.roster import (
    PROCESS_SLOTS,
    ROSTER_BYTES,
    ProcessKey,
    ProcessState,
    Roster,
    RosterEntry,
)
from kafkad.adapters.shared_region import SharedRegion

WORKERS = (ProcessKey("worker", 0), ProcessKey("worker", 1))
NETWORKS = (ProcessKey("network", 0), ProcessKey("network", 1))
KEYS = (*WORKERS, *NETWORKS)


@pytest.fixture
def roster() -> Iterator[Roster]:
    region = SharedRegion("test-roster", ROSTER_BYTES)
    made = Roster(region, KEYS)
    for key in KEYS:
        made.begin_life(key)
    yield made
    region.close()


def test_rows_show_lives_in_the_order_of_the_keys(roster: Roster) -> None:
    roster.set_pid(WORKERS[1], 4711)
    roster.set_state(WORKERS[1], ProcessState.READY)
    assert roster.entries()[1] == RosterEntry(WORKERS[1], 1, 4711, ProcessState.READY)
    assert [entry.key for entry in roster.entries()] == list(KEYS)
    assert roster.role("network") == NETWORKS


def test_new_life_has_seen_and_applied_nothing(roster: Roster) -> None:
    roster.mark_seen(WORKERS[0], NETWORKS[0], 1)
    roster.set_applied_version(WORKERS[0], 9)
    roster.enter_pass(roster.slot(WORKERS[0]))
    assert roster.begin_life(WORKERS[0]) == 2
    assert roster.seen(WORKERS[0], NETWORKS[0]) == 0
    assert roster.applied_version(WORKERS[0]) == 0
    assert roster.passed_generation(WORKERS[0]) == 0


def test_chunks_are_reused_only_after_every_live_worker_saw_the_new_life(roster: Roster) -> None:
    roster.begin_life(NETWORKS[0])
    roster.mark_seen(WORKERS[0], NETWORKS[0], 2)
    roster.mark_seen(WORKERS[1], NETWORKS[0], 1)
    assert not roster.is_seen_by_all(NETWORKS[0], "worker")
    roster.set_state(WORKERS[1], ProcessState.DEAD)
    assert roster.is_seen_by_all(NETWORKS[0], "worker")
    roster.begin_life(WORKERS[1])
    assert not roster.is_seen_by_all(NETWORKS[0], "worker")


def test_broker_wide_words_are_apart_from_rows(roster: Roster) -> None:
    roster.metadata_version = 12
    roster.broker_state = 3
    assert (roster.metadata_version, roster.broker_state) == (12, 3)
    assert all(entry.incarnation == 1 for entry in roster.entries())


def test_more_processes_than_rows_are_refused() -> None:
    keys = [ProcessKey("worker", index) for index in range(PROCESS_SLOTS + 1)]
    with pytest.raises(ValueError, match="at most 64"):
        Roster(SharedRegion("test-crowd", ROSTER_BYTES), keys)


def test_processes_at_rest_do_not_hold_up_a_grace_period(roster: Roster) -> None:
    assert roster.is_grace_over(roster.grace_marks())


def test_process_inside_a_pass_holds_it_up_until_it_left(roster: Roster) -> None:
    slot = roster.slot(NETWORKS[0])
    roster.enter_pass(slot)
    marks = roster.grace_marks()
    assert not roster.is_grace_over(marks)
    roster.leave_pass(slot)
    roster.enter_pass(slot)
    assert roster.is_grace_over(marks)


def test_process_that_entered_between_the_two_looks_holds_it_up(roster: Roster) -> None:
    """Its word may have become visible later than its reading of the slot began."""
    slot = roster.slot(NETWORKS[0])
    marks = roster.grace_marks()
    roster.enter_pass(slot)
    assert not roster.is_grace_over(marks)
    roster.leave_pass(slot)
    assert roster.is_grace_over(marks)


def test_dead_and_replaced_processes_do_not_hold_it_up(roster: Roster) -> None:
    for key in NETWORKS:
        roster.enter_pass(roster.slot(key))
    marks = roster.grace_marks()
    roster.set_state(NETWORKS[0], ProcessState.DEAD)
    roster.begin_life(NETWORKS[1])
    roster.enter_pass(roster.slot(NETWORKS[1]))
    assert roster.is_grace_over(marks)


class GracePeriods(RuleBasedStateMachine):
    """Readers hold the generation that they read on entering a pass; a file goes when the grace is over."""

    def __init__(self) -> None:
        super().__init__()
        self.roster = Roster(SharedRegion("test-grace", ROSTER_BYTES), KEYS)
        for key in KEYS:
            self.roster.begin_life(key)
        self.generation = 1
        self.oldest_on_disk = 1
        self.held: dict[ProcessKey, int] = {}
        self.marks = self.roster.grace_marks()

    @rule(key=st.sampled_from(NETWORKS))
    def enter(self, key: ProcessKey) -> None:
        self.roster.enter_pass(self.roster.slot(key))
        self.held.setdefault(key, self.generation)

    @rule(key=st.sampled_from(NETWORKS))
    def leave(self, key: ProcessKey) -> None:
        self.held.pop(key, None)
        self.roster.leave_pass(self.roster.slot(key))

    @rule(key=st.sampled_from(NETWORKS))
    def die_and_live_again(self, key: ProcessKey) -> None:
        self.held.pop(key, None)
        self.roster.begin_life(key)

    @rule()
    def publish_a_new_generation(self) -> None:
        self.generation += 1
        self.marks = self.roster.grace_marks()

    @precondition(lambda self: self.roster.is_grace_over(self.marks))
    @rule()
    def remove_files(self) -> None:
        self.oldest_on_disk = self.generation

    @invariant()
    def nobody_holds_a_file_that_is_gone(self) -> None:
        assert all(generation >= self.oldest_on_disk for generation in self.held.values())

    @invariant()
    def grace_ends_when_all_are_at_rest(self) -> None:
        assert self.held or self.roster.is_grace_over(self.marks)


TestGracePeriods = GracePeriods.TestCase
