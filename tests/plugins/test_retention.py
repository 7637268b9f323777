"""cleanup.policy=delete: what goes by time, by size and below the log start, and what never goes."""

from collections.abc import Sequence

import pytest

from kafkad.core.cleanup import CleanupEffect, DeleteSegments, LogSummary, SegmentSummary
from kafkad.core.log.settings import LogConfig
from kafkad.plugins.retention import Retention

NOW_MS = 1_000_000


def log_of(
    *timestamps_ms: int, high_watermark: int = 1_000, log_start: int = 0, size: int = 100, active_size: int = 100
) -> LogSummary:
    """Segments of ten records each, the last of them active."""
    last = len(timestamps_ms) - 1
    return LogSummary(
        topic="t",
        partition=0,
        log_start_offset=log_start,
        high_watermark=high_watermark,
        log_end_offset=10 * (last + 1) if active_size else 10 * last,
        segments=tuple(
            SegmentSummary(
                base_offset=10 * number,
                size_bytes=active_size if number == last else size,
                largest_timestamp_ms=timestamp_ms,
                last_modified_ms=NOW_MS,
                is_active=number == last,
            )
            for number, timestamp_ms in enumerate(timestamps_ms)
        ),
    )


def plan(log: LogSummary, *, retention_ms: int = -1, retention_bytes: int = -1) -> Sequence[CleanupEffect]:
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes)
    return Retention().plan(log, config, NOW_MS)


def up_to(base: int, reason: str) -> list[CleanupEffect]:
    return [DeleteSegments(up_to_base_offset=base, reason=reason)]


def test_without_limits_nothing_goes() -> None:
    assert plan(log_of(0, 0, 0)) == []


def test_segments_older_than_retention_ms_go() -> None:
    old = NOW_MS - 501
    assert plan(log_of(old, old, NOW_MS), retention_ms=500) == up_to(10, "retention.ms=500")
    assert plan(log_of(NOW_MS - 500, NOW_MS), retention_ms=500) == []


def test_a_young_segment_protects_the_old_ones_after_it() -> None:
    assert plan(log_of(0, NOW_MS, 0, NOW_MS), retention_ms=500) == up_to(0, "retention.ms=500")


def test_the_active_segment_goes_too_when_all_is_old() -> None:
    assert plan(log_of(0, 0), retention_ms=500) == up_to(10, "retention.ms=500")


def test_an_empty_active_segment_stays() -> None:
    assert plan(log_of(0, 0, active_size=0), retention_ms=500) == up_to(0, "retention.ms=500")
    assert plan(log_of(0, active_size=0), retention_ms=500) == []


def test_segments_without_timestamps_are_as_old_as_their_file() -> None:
    assert plan(log_of(-1, NOW_MS), retention_ms=500) == []


def test_nothing_above_the_high_watermark_goes() -> None:
    assert plan(log_of(0, 0, 0, high_watermark=19), retention_ms=500) == up_to(0, "retention.ms=500")
    assert plan(log_of(0, 0, 0, high_watermark=5), retention_ms=500) == []


@pytest.mark.parametrize(
    ("retention_bytes", "base"), [(300, None), (299, None), (200, 0), (199, 0), (100, 10), (0, 20)]
)
def test_oldest_segments_go_while_the_rest_still_fills_retention_bytes(retention_bytes: int, base: int | None) -> None:
    expected = [] if base is None else up_to(base, f"retention.bytes={retention_bytes}")
    assert plan(log_of(NOW_MS, NOW_MS, NOW_MS), retention_bytes=retention_bytes) == expected


def test_size_counts_what_time_has_left() -> None:
    log = log_of(0, NOW_MS, NOW_MS, NOW_MS)
    assert plan(log, retention_ms=500, retention_bytes=300) == up_to(0, "retention.ms=500")
    assert plan(log, retention_ms=500, retention_bytes=200) == up_to(10, "retention.bytes=200")


def test_segments_below_the_log_start_go_whatever_their_age() -> None:
    assert plan(log_of(NOW_MS, NOW_MS, NOW_MS, log_start=20)) == up_to(10, "log start offset 20")
    assert plan(log_of(NOW_MS, NOW_MS, NOW_MS, log_start=19)) == up_to(0, "log start offset 19")


FAR_MS = NOW_MS + 7_200_000


def test_a_record_from_the_future_keeps_its_segment_and_those_after_it() -> None:
    assert plan(log_of(0, FAR_MS, 0, NOW_MS), retention_ms=500) == up_to(0, "retention.ms=500")
    assert plan(log_of(FAR_MS, NOW_MS, NOW_MS), retention_ms=0) == []


def test_a_segment_from_the_future_goes_by_size() -> None:
    assert plan(log_of(FAR_MS, 0, NOW_MS), retention_ms=500, retention_bytes=200) == up_to(0, "retention.bytes=200")


def test_a_segment_from_the_future_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    policy, config = Retention(), LogConfig(retention_ms=500)
    for _ in range(3):
        policy.plan(log_of(0, FAR_MS, 0), config, NOW_MS)
    (line,) = caplog.messages
    assert line.startswith("t-0: the segment at offset 10 has a record of 1970-01-01 02:16:40+00:00, which is in the")
    policy.plan(log_of(0, NOW_MS, 0), config, NOW_MS)
    policy.plan(log_of(2**62, 0), config, NOW_MS)
    assert f"offset 0 has a record of timestamp {2**62}" in caplog.messages[1]


def test_clocks_that_differ_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    Retention().plan(log_of(NOW_MS + 1000, NOW_MS), LogConfig(retention_ms=500), NOW_MS)
    Retention().plan(log_of(FAR_MS, NOW_MS), LogConfig(retention_ms=-1), NOW_MS)
    assert caplog.messages == []
