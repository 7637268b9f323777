"""What happens to a log that can't be compacted, and to the others?"""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.cleaning.latest_of_each_key import latest_of_each_key
from kafkad.core.cleaning.record_filter import LatestOfEachKey, RecordFilter
from kafkad.core.cleanup import FilterLimits
from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.records import RecordColumns
from kafkad.core.log.records.record import NewRecord
from kafkad.core.metrics.catalogue import (
    MAX_BUFFER_UTILIZATION,
    MAX_CLEAN_TIME,
    READ_TO_RECOPY_BYTES,
    RECOPIED_BYTES,
    UNCLEANABLE_PARTITIONS,
    of_log_dir,
)
from kafkad.processes.cleaner import compactor
from tests.core.log.batches import NOW
from tests.processes.cleaner.compacting import Compacting, OwnedLog

Make = Callable[..., Compacting]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Compacting] = []

    def begin(*, cleaners: int = 1, **options: str) -> Compacting:
        made.append(Compacting(tmp_path, cleaners=cleaners, **options))
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


def test_records_without_a_key_are_told_when_they_go(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    compacting = make()
    owned = compacting.log("t")
    owned.append(NewRecord(NOW, None, b"a"), NewRecord(NOW, b"k", b"b"), NewRecord(NOW, None, b"c"))
    owned.seal()
    compacting.compactor.plan(owned.planned())
    compacting.run()
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == ["compaction removed 2 records without a key from t-0"]


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
    assert line.startswith("cannot compact full-0") and "has 2500 bytes of free space" in line
    assert not full.left_over() and full.ended == [-1]
    assert _is_compacted(other)
    assert compacting.block[of_log_dir(UNCLEANABLE_PARTITIONS, 0)] == 1


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


def test_the_metrics_tell_of_the_last_compaction(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1_000_000, 1700))
    monkeypatch.setattr(compactor, "monotonic_ms", lambda: next(clock))
    compacting = make(log_cleaner_io_buffer_load_factor="0.5")
    owned = compacting.log("t")
    owned.write(200, keys=50)
    before = sum(segment.size for segment in owned.log.segments)
    compacting.compactor.plan(owned.planned())
    compacting.run()
    after = sum(segment.size for segment in owned.log.segments)
    (row,) = compacting.compactor.rows({})
    assert row.last is not None and row.last.seconds % 1 > 0
    assert (compacting.block[RECOPIED_BYTES], compacting.block[READ_TO_RECOPY_BYTES]) == (after, before)
    assert compacting.block[MAX_CLEAN_TIME] == int(row.last.seconds) > 0
    # Fifty keys in the slots for some two hundred, half of which may be used.
    assert 10 <= compacting.block[MAX_BUFFER_UTILIZATION] <= 13


def test_each_pass_hashes_keys_with_another_seed(make: Make) -> None:
    """Nobody who writes keys can make two that are taken for one."""
    seeds: list[int] = []

    def remembered(limits: FilterLimits) -> RecordFilter:
        seeds.append(limits.seed)
        return latest_of_each_key(limits)

    compacting = make()
    owned = compacting.log("t")
    for _ in range(2):
        owned.write(50)
        compacting.compactor.plan(owned.planned(remembered))
        compacting.run()
    assert len(set(seeds)) == 2


def _rate(bytes_per_second: int) -> dict[str, str]:
    return {"log_cleaner_io_max_bytes_per_second": str(bytes_per_second)}


def test_cleaners_share_the_bytes_of_a_second(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "monotonic_ms", lambda: 5_000)
    compacting = make(cleaners=2, **_rate(2_000_000))
    owned = compacting.log("t")
    owned.write(200)
    compacting.compactor.plan(owned.planned())
    compacting.step()
    compacting.step()
    # The first segment was read for its keys: a millisecond for each of its kilobytes.
    assert compacting.compactor.next_step_ms == 5_000 + owned.log.segments[0].size // 1000 > 5_000


def test_a_rate_that_is_raised_in_the_midst_of_a_pause_ends_it(make: Make) -> None:
    """A pass with a byte a second waited for days."""
    compacting = make(**_rate(1))
    owned = compacting.log("t")
    owned.write(200)
    compacting.compactor.plan(owned.planned())

    def pause_ms() -> int:
        return (compacting.compactor.next_step_ms or 0) - monotonic_ms()

    compacting.step()
    compacting.step()
    before_ms = compacting.compactor.next_step_ms
    compacting.compactor.tick(monotonic_ms())
    assert compacting.compactor.next_step_ms == before_ms, "nothing is done meanwhile"
    assert pause_ms() > 60_000
    compacting.configure(**_rate(1_000_000_000))
    assert pause_ms() <= 1000
    compacting.run()
    assert _is_compacted(owned)


@pytest.mark.parametrize("load_factor", ["0", "1", "3.5"])
def test_any_load_factor_compacts(make: Make, load_factor: str) -> None:
    compacting = make(log_cleaner_io_buffer_load_factor=load_factor)
    owned = compacting.log("t")
    owned.write(100)
    compacting.compactor.plan(owned.planned())
    compacting.run()
    assert _is_compacted(owned)
