"""The order in which processes stop."""

import pytest

from kafkad.core.supervision.stop_sequence import STAGE_MS, STAGES, StopRole, StopSequence


def test_stage_begins_when_nobody_of_the_one_before_is_left() -> None:
    sequence = StopSequence()
    live = ["controller", "worker", "worker", "network", "cleaner", "reporter"]
    assert sequence.advance(live, 0) == StopRole(role="network", deadline_ms=STAGE_MS["network"])
    assert sequence.advance(live, 5) is None
    live.remove("network")
    assert sequence.advance(live, 10) == StopRole(role="cleaner", deadline_ms=10 + STAGE_MS["cleaner"])
    live.remove("cleaner")
    assert sequence.advance(live, 20) == StopRole(role="worker", deadline_ms=20 + STAGE_MS["worker"])
    live.remove("worker")
    assert sequence.advance(live, 30) is None
    live.remove("worker")
    assert sequence.advance(live, 40) == StopRole(role="controller", deadline_ms=40 + STAGE_MS["controller"])


def test_roles_without_a_live_process_are_passed_over() -> None:
    sequence = StopSequence()
    stage = sequence.advance(["reporter"], 0)
    assert stage is not None and stage.role == "reporter"
    assert sequence.advance([], 1) is None
    assert sequence.is_over


def test_stop_of_nobody_is_over_at_once() -> None:
    sequence = StopSequence()
    sequence.advance([], 0)
    assert sequence.is_over


def test_role_that_no_stage_stops_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="stranger"):
        StopSequence().advance(["stranger"], 0)


def test_every_stage_has_a_time_limit() -> None:
    assert set(STAGE_MS) == set(STAGES)
