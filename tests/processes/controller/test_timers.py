"""When a broker is a candidate again, and when failed deletions of replicas are repeated."""

import pytest

from kafkad.core.coordination_store import (
    BadVersion,
    CoordinationError,
    NotPermitted,
    SessionSuspended,
    UnexpectedResponse,
)
from kafkad.processes.controller.timers import DELETION_RETRY_MS, TERM_RETRY_MS, DeletionRetries, NextTerm


@pytest.mark.parametrize("error", [UnexpectedResponse("/x"), NotPermitted("/x")])
def test_what_zookeeper_refuses_is_tried_again_after_a_pause(error: CoordinationError) -> None:
    """A server that always answers so would be asked without end, as fast as it answers."""
    term = NextTerm()
    term.ended(error, 5)
    assert term.next_deadline_ms == 5 + TERM_RETRY_MS
    assert [term.is_due(now_ms + TERM_RETRY_MS) for now_ms in (4, 5, 6)] == [False, True, False]
    assert term.next_deadline_ms is None


@pytest.mark.parametrize("error", [BadVersion("/x"), SessionSuspended("/x")])
def test_a_term_that_another_broker_ended_costs_no_time(error: CoordinationError) -> None:
    term = NextTerm()
    term.ended(error, 5)
    assert term.is_due(5)


def test_refused_deletions_are_asked_for_again_in_a_minute() -> None:
    deletions = DeletionRetries()
    assert not deletions.is_due(False, 0)
    assert deletions.next_deadline_ms is None, "nobody wakes for nothing"
    assert not deletions.is_due(True, 5)
    assert deletions.next_deadline_ms == 5 + DELETION_RETRY_MS
    assert not deletions.is_due(True, 4 + DELETION_RETRY_MS)
    assert deletions.is_due(True, 5 + DELETION_RETRY_MS)
    assert deletions.next_deadline_ms is None
    assert not deletions.is_due(True, 6 + DELETION_RETRY_MS)
    assert deletions.next_deadline_ms == 6 + 2 * DELETION_RETRY_MS
    assert not deletions.is_due(False, 7 + DELETION_RETRY_MS)
    assert deletions.next_deadline_ms is None
