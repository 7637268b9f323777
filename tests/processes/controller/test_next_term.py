"""A term that ended for a reason that may be there still is not followed by the next one at once."""

import pytest

from kafkad.core.coordination_store import (
    BadVersion,
    CoordinationError,
    NotPermitted,
    SessionSuspended,
    UnexpectedResponse,
)
from kafkad.processes.controller.cluster.requests.next_term import RETRY_MS, NextTerm


@pytest.mark.parametrize("error", [UnexpectedResponse("/x"), NotPermitted("/x")])
def test_what_zookeeper_refuses_is_tried_again_after_a_pause(error: CoordinationError) -> None:
    """A server that always answers so would be asked without end, as fast as it answers."""
    runs: list[int] = []
    term = NextTerm(lambda: runs.append(1), lambda: 5)
    term.ended(error)
    term.tick(4 + RETRY_MS)
    assert (runs, term.next_deadline_ms) == ([], 5 + RETRY_MS)
    term.tick(5 + RETRY_MS)
    term.tick(6 + RETRY_MS)
    assert (runs, term.next_deadline_ms) == ([1], None)


@pytest.mark.parametrize("error", [BadVersion("/x"), SessionSuspended("/x")])
def test_a_term_that_another_broker_ended_costs_no_time(error: CoordinationError) -> None:
    runs: list[int] = []
    NextTerm(lambda: runs.append(1)).ended(error)
    assert runs == [1]
