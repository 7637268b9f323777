"""What happens to a log that can't be compacted, and to the others?"""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkad.core.cleaning.record_filter import LatestOfEachKey, RecordFilter
from kafkad.core.cleanup import FilterLimits
from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.records import RecordColumns
from kafkad.core.metrics.catalogue import uncleanable_index
from tests.processes.cleaner.compacting import Compacting, OwnedLog

Make = Callable[..., Compacting]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Compacting] = []

    def begin(**options: str) -> Compacting:
        made.append(Compacting(tmp_path, **options))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def _is_compacted(owned: OwnedLog) -> bool:
    return owned.log.cleaned_offset == owned.log.segments.active.base_offset and not owned.left_over()


def test_a_log_is_compacted(make: Make) -> None:
    compacting = make()
    owned = compacting.log("t")
    owned.write(200)
    compacting.compactor.plan(owned.planned())
    compacting.run()
    assert _is_compacted(owned)
    assert sum(segment.size for segment in owned.log.segments) < 2000


def test_a_log_is_compacted_only_where_there_is_room_for_what_is_written(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compacting = make()
    full, other = compacting.log("full"), compacting.log("other")
    full.write(200)
    other.write(10)
    volume = os.statvfs(full.path)
    fields = list(volume)
    fields[1], fields[4] = 1, 2500
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(fields))
    compacting.compactor.plan(full.planned())
    compacting.compactor.plan(other.planned())
    compacting.run()
    (line,) = _errors(caplog)
    assert line.startswith("full-0 can't be compacted") and "has 2500 bytes of free room" in line
    assert not full.left_over() and full.ended == [-1]
    assert _is_compacted(other)
    assert compacting.block[uncleanable_index(0)] == 1


class _EndsIn(LatestOfEachKey):
    """Fails in the middle of a pass."""

    def retains(self, records: RecordColumns, end_offset: int, now_ms: int) -> Flags:
        if records.offset[0] >= _BAD_OFFSET:
            raise ValueError("no more")
        return super().retains(records, end_offset, now_ms)


_BAD_OFFSET = 100


def test_what_was_written_before_a_failure_is_swapped_in(make: Make) -> None:
    compacting = make()
    owned = compacting.log("t")
    owned.write(200, keys=1000)

    def ending(limits: FilterLimits) -> RecordFilter:
        return _EndsIn(
            most_bytes=limits.most_bytes, load_factor=limits.load_factor, most_keys=limits.most_keys, seed=limits.seed
        )

    compacting.compactor.plan(owned.planned(ending))
    compacting.run()
    assert owned.ended == [-1] and not owned.left_over()
    # A segment is one window here.
    assert owned.log.rewrites == len([base for base in owned.log.segments.base_offsets if base < _BAD_OFFSET]) > 1


@pytest.mark.parametrize("load_factor", ["0", "1", "3.5"])
def test_any_load_factor_compacts(make: Make, load_factor: str) -> None:
    compacting = make(log_cleaner_io_buffer_load_factor=load_factor)
    owned = compacting.log("t")
    owned.write(100)
    compacting.compactor.plan(owned.planned())
    compacting.run()
    assert _is_compacted(owned)
