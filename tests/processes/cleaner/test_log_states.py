"""What is told about compacted logs: to those who ask, and in the metrics."""

from uuid import UUID

from kafkad.core.cleaning.cleanable import CleanableRange
from kafkad.core.metrics.catalogue import (
    BLOCK_WORDS,
    MAX_COMPACTION_DELAY,
    MAX_DIRTY_PERCENT,
    UNCLEANABLE_BYTES,
    UNCLEANABLE_PARTITIONS,
    of_log_dir,
)
from kafkad.processes.cleaner.early_checks import EarlyChecks
from kafkad.processes.cleaner.log_states import LogKey, LogStates
from kafkad.wire.processes.cleaning_messages import CompactionFigures, CompactionRow

A, B = UUID(int=1), UUID(int=2)
FIGURES = CompactionFigures(5, 0.5, 100, 10, 5, 1000, 500)


def found(dirty: int, *, clean: int = 0, overdue_ms: int = 0, next_check_ms: int | None = None) -> CleanableRange:
    return CleanableRange(
        first_dirty_offset=0,
        first_uncleanable_offset=10,
        clean_bytes=clean,
        cleanable_bytes=dirty,
        overdue_ms=overdue_ms,
        next_check_ms=next_check_ms,
        was_reset=False,
    )


def rows(states: LogStates) -> list[CompactionRow]:
    return list(states.rows(None, (), {}, 1000, 5000))


def test_a_log_is_shown_as_it_was_at_the_last_look() -> None:
    states = LogStates([0] * BLOCK_WORDS, EarlyChecks())
    key = LogKey(A, 0, 0)
    states.checked(key, found(300, clean=100))
    states.compacted(key, FIGURES)
    (row,) = rows(states)
    assert (row.state, row.dirty_ratio, row.cleanable_bytes, row.last) == ("idle", 0.75, 300, FIGURES)


def test_the_state_says_what_is_done_with_a_log() -> None:
    states = LogStates([0] * BLOCK_WORDS, EarlyChecks())
    keys = [LogKey(A, number, 0) for number in range(4)]
    for key in keys:
        states.checked(key, found(1))
    states.failed(keys[2], "damaged", 1000)
    told = states.rows(keys[0], [keys[1]], {(A, 3): "the policy failed"}, 1000, 5000)
    assert [(row.state, row.failure, row.retry_ms) for row in told] == [
        ("compacting", "", 0),
        ("waiting", "", 0),
        ("quarantined", "damaged", 5000 + 60_000),
        ("quarantined", "the policy failed", 0),
    ]


def test_uncleanable_logs_are_counted_by_directory_with_their_dirty_bytes() -> None:
    block = [0] * BLOCK_WORDS
    states = LogStates(block, EarlyChecks())
    for number, log_dir in enumerate((0, 1, 1)):
        states.checked(LogKey(A, number, log_dir), found(100 * (number + 1)))
        states.failed(LogKey(A, number, log_dir), "damaged", 0)
    assert [block[of_log_dir(UNCLEANABLE_PARTITIONS, log_dir)] for log_dir in (0, 1)] == [1, 2]
    assert [block[of_log_dir(UNCLEANABLE_BYTES, log_dir)] for log_dir in (0, 1)] == [100, 500]
    states.release(lambda topic_id: topic_id == A)
    assert [block[of_log_dir(UNCLEANABLE_BYTES, log_dir)] for log_dir in (0, 1)] == [0, 0]
    assert not states.is_quarantined(LogKey(A, 0, 0), 1)
    assert {row.failure for row in rows(states)} == {""}


def test_the_dirtiest_log_and_the_one_that_waits_longest_are_told() -> None:
    block = [0] * BLOCK_WORDS
    states = LogStates(block, EarlyChecks())
    states.checked(LogKey(A, 0, 0), found(1, clean=3))
    states.checked(LogKey(A, 1, 0), found(1, clean=1, overdue_ms=65_000))
    states.checked(LogKey(B, 0, 0), found(9))
    states.keep(lambda topic_id: topic_id == A)
    assert (block[MAX_DIRTY_PERCENT], block[MAX_COMPACTION_DELAY]) == (50, 65)
    states.checked(LogKey(A, 1, 0), found(0, clean=1, overdue_ms=65_000))
    states.keep(lambda topic_id: topic_id == A)
    assert (block[MAX_DIRTY_PERCENT], block[MAX_COMPACTION_DELAY]) == (25, 0)


def test_a_log_that_another_policy_could_not_write_anew_stays_in_quarantine() -> None:
    states = LogStates([0] * BLOCK_WORDS, EarlyChecks())
    states.failed(LogKey(A, 0, 0), "the policy failed", 0)
    states.keep(lambda topic_id: False)
    assert states.is_quarantined(LogKey(A, 0, 0), 1)


def test_a_log_that_was_moved_to_another_directory_is_tried_there() -> None:
    block = [0] * BLOCK_WORDS
    states = LogStates(block, EarlyChecks())
    states.checked(LogKey(A, 0, 0), found(1))
    states.failed(LogKey(A, 0, 0), "damaged", 0)
    states.checked(LogKey(A, 0, 1), found(1))
    states.keep(lambda topic_id: True)
    assert [(row.state, row.failure) for row in rows(states)] == [("idle", "")]
    assert block[of_log_dir(UNCLEANABLE_PARTITIONS, 0)] == 0


def test_a_log_is_looked_at_again_when_a_lag_ends() -> None:
    states = LogStates([0] * BLOCK_WORDS, EarlyChecks())
    key = LogKey(A, 0, 0)
    assert not states.needs_check(key, 0, 9000)
    states.checked(key, found(1, next_check_ms=9000))
    assert not states.needs_check(key, 0, 8999)
    assert states.needs_check(key, 0, 9000)
    states.checked(key, found(1))
    assert not states.needs_check(key, 0, 9000)


def test_a_log_that_can_not_be_compacted_is_looked_at_again_when_its_pause_ends() -> None:
    checks = EarlyChecks()
    states = LogStates([0] * BLOCK_WORDS, checks)
    key = LogKey(A, 3, 0)
    states.checked(key, found(1, next_check_ms=9000))
    pause_ms = states.failed(key, "damaged", 1000)
    assert checks.due_ms == 1000 + pause_ms
    assert checks.take(1000 + pause_ms)[2] == {(A, 3)}
    assert not states.needs_check(key, 1000 + pause_ms - 1, 9000)
    assert states.needs_check(key, 1000 + pause_ms, 9000)
