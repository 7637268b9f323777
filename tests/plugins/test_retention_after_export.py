"""cleanup.policy=delete-exported: what `delete` lets go, but nothing that an export has not got."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafkad.core.cleanup import NO_EXPORT, CleanupEffect, DeleteSegments, LogSummary
from kafkad.core.log.settings import LogConfig
from kafkad.core.retention import bytes_to_export
from kafkad.plugins.retention_after_export import RetentionAfterExport
from kafkad.testing import log_summary

OLD_MS, NOW_MS = 0, 1_000_000
CONFIG = LogConfig(retention_ms=500)


def log_of(exported: int | None, *, log_start: int = 0) -> LogSummary:
    """Old segments at 0, 10, 20 and 30, of 100 bytes each."""
    log = log_summary(0, 10, 20, 30, timestamp_ms=OLD_MS)
    return replace(log, exported_offset=exported, log_start_offset=log_start)


def plan(log: LogSummary, config: LogConfig = CONFIG) -> Sequence[CleanupEffect]:
    return RetentionAfterExport().plan(log, config, NOW_MS)


def deleted(base: int, reason: str = "retention.ms=500") -> list[CleanupEffect]:
    return [DeleteSegments(up_to_base_offset=base, reason=reason)]


@pytest.mark.parametrize(("exported", "base"), [(10, 0), (19, 0), (20, 10), (40, 30), (100, 30)])
def test_segments_that_are_exported_as_a_whole_go(exported: int, base: int) -> None:
    assert plan(log_of(exported)) == deleted(base)


@pytest.mark.parametrize("exported", [0, 9])
def test_a_segment_that_is_exported_in_part_stays(exported: int) -> None:
    assert plan(log_of(exported)) == []


def test_what_delete_keeps_stays_although_it_is_exported() -> None:
    assert plan(log_of(40), LogConfig(retention_ms=-1)) == []


@pytest.mark.parametrize("exported", [None, NO_EXPORT])
def test_nothing_goes_while_no_export_is_known(exported: int | None) -> None:
    assert plan(log_of(exported)) == []


@pytest.mark.parametrize("exported", [None, NO_EXPORT, 5])
def test_segments_below_the_log_start_go_as_nobody_can_read_them(exported: int | None) -> None:
    assert plan(log_of(exported, log_start=20), LogConfig(retention_ms=-1)) == deleted(10, "log start offset 20")


def test_that_nobody_exports_is_told_once_a_topic(caplog: pytest.LogCaptureFixture) -> None:
    policy = RetentionAfterExport()
    policy.plan(log_of(None), CONFIG, NOW_MS)
    policy.plan(log_of(NO_EXPORT), LogConfig(retention_ms=-1), NOW_MS)
    assert caplog.messages == []
    for _ in range(3):
        policy.plan(log_of(NO_EXPORT), CONFIG, NOW_MS)
    (line,) = caplog.messages
    assert line.startswith("t-0: cleanup.policy=delete-exported deletes nothing, because no group kafkad-export-")


def test_what_waits_is_counted() -> None:
    sizes = [bytes_to_export(log_of(exported), CONFIG, NOW_MS) for exported in (None, NO_EXPORT, 20, 40)]
    assert sizes == [400, 400, 200, 0]
    assert bytes_to_export(log_of(NO_EXPORT), LogConfig(retention_ms=-1), NOW_MS) == 0
