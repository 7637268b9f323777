import pytest

from kafkad.core.cleaning.cleanable import CleanableRange, cleanable_range
from kafkad.core.cleanup import LogSummary, SegmentSummary
from kafkad.core.log.settings import LogConfig

NOW = 1_700_000_000_000


def a_log(
    *bases: int,
    cleaned: int = -1,
    stable: int = 10**9,
    start: int = 0,
    end: int | None = None,
    times: tuple[int, ...] = (),
) -> LogSummary:
    """Segments of a hundred bytes that begin at these offsets; `times` are the largest and first of each."""
    return LogSummary(
        topic="t",
        partition=0,
        log_start_offset=start,
        high_watermark=10**9,
        log_end_offset=bases[-1] + 10 if end is None else end,
        cleanable_end=stable,
        cleaned_offset=cleaned,
        segments=tuple(
            SegmentSummary(
                base_offset=base,
                size_bytes=100,
                largest_timestamp_ms=times[number] if times else NOW,
                last_modified_ms=NOW,
                is_active=number + 1 == len(bases),
                first_timestamp_ms=times[number] if times else NOW,
            )
            for number, base in enumerate(bases)
        ),
    )


def bounds(found: CleanableRange) -> tuple[int, int, int, int]:
    return found.first_dirty_offset, found.first_uncleanable_offset, found.clean_bytes, found.cleanable_bytes


def test_all_sealed_segments_of_a_new_log_are_dirty() -> None:
    assert bounds(cleanable_range(a_log(0, 10, 20), LogConfig(), NOW)) == (0, 20, 0, 200)


def test_what_was_cleaned_is_clean() -> None:
    found = cleanable_range(a_log(0, 10, 20, 30, cleaned=20), LogConfig(), NOW)
    assert bounds(found) == (20, 30, 200, 100)
    assert found.dirty_ratio == pytest.approx(1 / 3)


def test_only_whole_segments_below_the_last_stable_offset_are_cleaned() -> None:
    assert bounds(cleanable_range(a_log(0, 10, 20, 30, stable=25), LogConfig(), NOW)) == (0, 20, 0, 200)


def test_segments_with_young_records_are_not_cleaned() -> None:
    config = LogConfig(min_compaction_lag_ms=1000)
    log = a_log(0, 10, 20, 30, times=(NOW - 5000, NOW - 5000, NOW - 500, NOW))
    assert bounds(cleanable_range(log, config, NOW)) == (0, 20, 0, 200)
    assert cleanable_range(log, config, NOW + 1000).first_uncleanable_offset == 30


def test_records_without_a_time_are_as_old_as_their_file() -> None:
    config = LogConfig(min_compaction_lag_ms=1000)
    log = a_log(0, 10, 20, times=(NOW - 5000, -1, NOW))
    assert cleanable_range(log, config, NOW + 500).first_uncleanable_offset == 10
    assert cleanable_range(log, config, NOW + 1000).first_uncleanable_offset == 20


def test_it_is_known_when_a_log_is_to_be_looked_at_again_although_nothing_is_written_to_it() -> None:
    log = a_log(0, 10, 20, times=(NOW - 5000, NOW - 500, NOW))
    lags = LogConfig(min_compaction_lag_ms=1000, max_compaction_lag_ms=7000)
    assert cleanable_range(log, lags, NOW).next_check_ms == NOW + 500
    assert cleanable_range(log, lags, NOW + 500).next_check_ms == NOW + 2001
    assert cleanable_range(log, lags, NOW + 2001).overdue_ms == 1
    assert cleanable_range(log, lags, NOW + 2001).next_check_ms is None, "it is due now"


@pytest.mark.parametrize("cleaned", [3, 1000])
def test_a_log_that_was_cleaned_elsewhere_is_dirty_from_its_start(cleaned: int) -> None:
    found = cleanable_range(a_log(0, 10, 20, start=5, cleaned=cleaned), LogConfig(), NOW)
    assert (found.first_dirty_offset, found.was_reset) == (5, True)


def test_a_log_is_due_when_more_of_it_is_dirty_than_the_ratio() -> None:
    config = LogConfig(min_cleanable_dirty_ratio=0.5)
    assert not cleanable_range(a_log(0, 10, 20, cleaned=10), config, NOW).is_due(config)
    assert cleanable_range(a_log(0, 10, 20, 30, cleaned=10), config, NOW).is_due(config)


def test_a_log_is_due_when_a_dirty_record_is_too_old() -> None:
    config = LogConfig(max_compaction_lag_ms=1000)
    old = a_log(0, 10, 20, 30, 40, cleaned=30, times=(NOW, NOW, NOW, NOW - 1001, NOW))
    assert cleanable_range(old, config, NOW).is_due(config)
    assert not cleanable_range(old, config, NOW - 10).is_due(config)


def test_a_log_with_nothing_but_an_active_segment_is_not_due() -> None:
    config = LogConfig(min_cleanable_dirty_ratio=0.0, max_compaction_lag_ms=1)
    assert not cleanable_range(a_log(0), config, NOW + 10**6).is_due(config)
