"""When a broker is a candidate again, and when failed deletions of replicas are repeated."""

import pytest

from kafkad.core.coordination_store import (
    BadVersion,
    CoordinationError,
    NotPermitted,
    SessionSuspended,
    UnexpectedResponse,
)
from kafkad.processes.controller.cluster.timers import DELETION_RETRY_MS, TERM_RETRY_MS, DeletionRetries, NextTerm


@pytest.mark.parametrize("error", [UnexpectedResponse("/x"), NotPermitted("/x")])
def test_what_zookeeper_refuses_is_tried_again_after_a_pause(error: CoordinationError) -> None:
    """A server that always answers so would be asked without end, as fast as it answers."""
    runs: list[int] = []
    term = NextTerm(lambda: runs.append(1), lambda: 5)
    term.ended(error)
    term.tick(4 + TERM_RETRY_MS)
    assert (runs, term.next_deadline_ms) == ([], 5 + TERM_RETRY_MS)
    term.tick(5 + TERM_RETRY_MS)
    term.tick(6 + TERM_RETRY_MS)
    assert (runs, term.next_deadline_ms) == ([1], None)


@pytest.mark.parametrize("error", [BadVersion("/x"), SessionSuspended("/x")])
def test_a_term_that_another_broker_ended_costs_no_time(error: CoordinationError) -> None:
    runs: list[int] = []
    NextTerm(lambda: runs.append(1)).ended(error)
    assert runs == [1]


def test_refused_deletions_are_asked_for_again_in_a_minute() -> None:
    asked: list[int] = []
    deletions = DeletionRetries(lambda: asked.append(1))
    deletions.tick(False, 0)
    assert deletions.next_deadline_ms is None, "nobody wakes for nothing"
    deletions.tick(True, 5)
    assert deletions.next_deadline_ms == 5 + DELETION_RETRY_MS
    deletions.tick(True, 4 + DELETION_RETRY_MS)
    assert asked == []
    deletions.tick(True, 5 + DELETION_RETRY_MS)
    assert (asked, deletions.next_deadline_ms) == ([1], None)
    deletions.tick(True, 6 + DELETION_RETRY_MS)
    assert deletions.next_deadline_ms == 6 + 2 * DELETION_RETRY_MS
    deletions.tick(False, 7 + DELETION_RETRY_MS)
    assert deletions.next_deadline_ms is None
