"""Retention, DeleteRecords and truncation."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import read_header
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.segments.index import TIME_ENTRY
from kafkad.core.log.segments.removal import (
    SEGMENTS_PER_STEP,
    delete_records_before,
    delete_segments,
    has_expired_segments,
    remove_expired_segments,
    remove_files,
    segment_summaries,
    truncate_fully_and_start_at,
    truncate_to,
)
from kafkad.core.ports import LogFile, NoSpaceLeft
from tests.core.log.batches import NOW, SMALL, append, batch, load
from tests.core.log.fake_store import Crashed, FakeStore
from tests.core.log.log_content import batch_offsets, check_indexes, segment_bases
from tests.core.log.sealed import sealed


def filled(store: FakeStore, batches: int = 40) -> PartitionLog:
    log = load(store)
    for number in range(batches):
        append(log, batch(2, producer_id=1, sequence=2 * number, timestamp=NOW + number), epoch=number // 10)
    log.advance_high_watermark(log.log_end_offset)
    return log


def test_deleting_records_moves_the_log_start_and_drops_segments_below_it() -> None:
    store = FakeStore()
    log = filled(store)
    bases = log.segments.base_offsets
    (effect,) = delete_records_before(log, bases[2] + 1)
    assert log.log_start_offset == bases[2] + 1
    assert log.segments.base_offsets == bases[2:]
    assert effect.delay_ms == SMALL.file_delete_delay_ms
    assert all(name.endswith(".deleted") for name in effect.names)
    assert log.epochs.entries[0].start_offset == bases[2] + 1


def test_deleted_files_stay_until_they_are_removed() -> None:
    store = FakeStore()
    log = filled(store)
    (effect,) = delete_records_before(log, log.segments.base_offsets[1])
    assert set(effect.names) <= set(store.sizes())
    remove_files(log, effect)
    assert not set(effect.names) & set(store.sizes())
    remove_files(log, effect)


def test_records_above_the_high_watermark_can_not_be_deleted() -> None:
    log = filled(FakeStore())
    for offset in (-1, 81):
        with pytest.raises(KafkaError) as refused:
            delete_records_before(log, offset)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_records_before(log, 0) == []


def test_retention_removes_segments_up_to_a_base_offset() -> None:
    log = filled(FakeStore())
    bases = log.segments.base_offsets
    generation = log.generation
    (effect,) = delete_segments(log, bases[1], NOW)
    assert log.segments.base_offsets == bases[2:]
    assert log.log_start_offset == bases[2]
    assert effect.generation == log.generation > generation


def test_when_all_segments_go_a_new_active_one_is_rolled_first() -> None:
    log = filled(FakeStore())
    delete_segments(log, 10**9, NOW)
    assert log.segments.base_offsets == [80]
    assert (log.log_start_offset, log.log_end_offset) == (80, 80)
    assert log.high_watermark == log.log_end
    assert delete_segments(log, 10**9, NOW) == []
    assert append(log, batch(2, producer_id=1, sequence=80)).base_offset == 80


def test_truncation_ends_the_log_at_a_batch() -> None:
    store = FakeStore()
    log = filled(store)
    truncate_to(log, 31, NOW)
    assert log.log_end_offset == 30
    assert log.high_watermark == log.log_end
    assert log.epochs.latest_epoch == 1
    assert batch_offsets(store, 1000) == [(n, n + 1) for n in range(0, 30, 2)]
    check_indexes(store)
    assert append(log, batch(2, producer_id=1, sequence=28)).duplicate
    assert append(log, batch(2, producer_id=1, sequence=30), epoch=9).base_offset == 30


def test_truncating_beyond_the_end_changes_nothing() -> None:
    store = FakeStore()
    log = filled(store)
    changes = store.changes
    assert truncate_to(log, 80, NOW) == []
    assert store.changes == changes


def test_truncating_below_the_first_segment_starts_anew() -> None:
    log = filled(FakeStore())
    delete_segments(log, log.segments.base_offsets[1], NOW)
    truncate_to(log, 5, NOW)
    assert (log.log_start_offset, log.log_end_offset, log.segments.base_offsets) == (5, 5, [5])


def test_starting_anew_forgets_everything() -> None:
    store = FakeStore()
    log = filled(store)
    truncate_fully_and_start_at(log, 500, NOW)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert segment_bases(store) == [500]
    assert log.epochs.entries == []
    assert append(log, batch(2, producer_id=1, sequence=40)).base_offset == 500


def test_starting_anew_where_the_log_began() -> None:
    store = FakeStore()
    log = filled(store)
    truncate_fully_and_start_at(log, 0, NOW)
    assert append(log, batch(1)).base_offset == 0
    log.close()
    assert load(store, was_clean=True, recovery_point=1).log_end_offset == 1


def test_a_flush_that_began_before_a_truncation_does_not_move_the_recovery_point() -> None:
    log = filled(FakeStore())
    log.request_flush(NOW)
    effect = log.take_flush()
    assert effect is not None
    truncate_to(log, 10, NOW)
    for _ in range(80):
        append(log, batch(1))
    effect.perform()
    log.flushed(effect)
    assert log.recovery_point <= 10


def test_segments_are_described_with_their_newest_time() -> None:
    store = FakeStore()
    log = filled(store)
    described = tuple(segment_summaries(log))
    assert [segment.base_offset for segment in described] == log.segments.base_offsets
    assert described[-1].largest_timestamp_ms == NOW + 40
    assert [segment.is_active for segment in described] == [False] * (len(described) - 1) + [True]
    assert sum(segment.size_bytes for segment in described) == log.size_bytes


def test_without_timestamps_the_files_own_time_counts() -> None:
    store = FakeStore()
    store.now_ms = 4711
    log = load(store)
    append(log, batch(1, timestamp=-1))
    (segment,) = tuple(segment_summaries(log))
    assert (segment.largest_timestamp_ms, segment.last_modified_ms) == (-1, 4711)


def _cut(file: LogFile, last: int) -> None:
    file.truncate(file.size() - 10)


def _break_length(file: LogFile, last: int) -> None:
    file.write_at((b"\x7f",), last + 8)


def _break_magic(file: LogFile, last: int) -> None:
    file.write_at((b"\x07",), last + 16)


@pytest.mark.parametrize("damage", [_cut, _break_length, _break_magic])
def test_a_damaged_batch_of_a_sealed_segment_costs_nobody_its_owner(damage: Callable[[LogFile, int], None]) -> None:
    """The owner is asked for the ages of segments with each round of the cleaner, and for places by followers."""
    store = FakeStore()
    config = replace(SMALL, cleanup_policy=frozenset({"compact"}))
    log = load(store, config=config)
    for number in range(40):
        append(log, batch(2, timestamp=NOW + number))
    log.close()
    sealed_log = store.open("00000000000000000000.log")
    batches = list(walk_batches(sealed_log.read_at, 0, sealed_log.size()))
    damage(sealed_log, batches[-1][0])
    # As if the final entry had been lost, which is there only where a newer time came after the last index entry.
    times = store.open("00000000000000000000.timeindex")
    times.truncate(times.size() - TIME_ENTRY.size)
    again = load(store, config=config, was_clean=True, recovery_point=80)
    first = next(segment_summaries(again))
    assert first.first_timestamp_ms == NOW + 1
    assert NOW <= first.largest_timestamp_ms < NOW + len(batches) + 1
    assert again.position_of(batches[-1][1].last_offset).position == batches[-1][0]


def test_a_log_whose_active_segment_begins_with_damage_is_appended_to() -> None:
    store = FakeStore()
    config = replace(SMALL, segment_bytes=1 << 20)
    log = load(store, config=config)
    for number in range(40):
        append(log, batch(1, timestamp=NOW + number))
    log.close()
    _break_length(store.open("00000000000000000000.log"), 0)
    again = load(store, config=config, was_clean=True, recovery_point=40)
    append(again, batch(1, timestamp=NOW + 50))
    assert again.log_end_offset == 41


def log_of_an_earlier_version(store: FakeStore, batches: int = 40) -> PartitionLog:
    """Records without a time of librdkafka, as they were stored as they came: as of 1970, in the indexes too."""
    log = load(store)
    for _ in range(batches):
        records = memoryview(bytearray(sealed(bytes(batch(1, timestamp=-1)), max_timestamp=0)))
        log.append_validated(records, read_header(records), leader_epoch=0, now_ms=NOW)
    return log


@pytest.mark.parametrize("was_clean", [True, False])
def test_records_of_1970_in_logs_of_earlier_versions_have_no_time(*, was_clean: bool) -> None:
    store = FakeStore()
    store.now_ms = NOW
    log_of_an_earlier_version(store).close()
    log = load(store, was_clean=was_clean)
    assert len(log.segments) > 2
    assert {(each.largest_timestamp_ms, each.last_modified_ms) for each in tuple(segment_summaries(log))} == {(-1, NOW)}
    append(log, batch(1, timestamp=-1), now_ms=NOW)
    assert tuple(segment_summaries(log))[-1].largest_timestamp_ms == -1
    append(log, batch(1, timestamp=NOW), now_ms=NOW)
    assert tuple(segment_summaries(log))[-1].largest_timestamp_ms == NOW


def test_records_without_a_time_roll_a_segment_by_the_clock() -> None:
    log = load(FakeStore(), config=replace(SMALL, segment_ms=1000))
    for now_ms in (NOW, NOW + 500, NOW + 1000, NOW + 1001):
        append(log, memoryview(bytearray(sealed(bytes(batch(1, timestamp=-1)), max_timestamp=0))), now_ms=now_ms)
    assert log.segments.base_offsets == [0, 3]


@pytest.mark.parametrize("target", [31, 0, 4])
def test_a_crash_at_any_step_of_a_truncation_leaves_a_prefix_of_the_log(target: int) -> None:
    def ready() -> tuple[FakeStore, PartitionLog]:
        store = FakeStore()
        log = filled(store)
        log.flush()
        store.sync_directory()
        return store, log

    store, log = ready()
    before = store.changes
    truncate_to(log, target, NOW)
    for step in range(1, store.changes - before + 1):
        store, log = ready()
        store.crash_at = store.changes + step
        with pytest.raises(Crashed):
            truncate_to(log, target, NOW)
        store.lose_power(Random(step))
        again = load(store, recovery_point=0)
        assert again.log_end_offset >= target - 1
        assert batch_offsets(store, 1000) == [(n, n + 1) for n in range(0, again.log_end_offset, 2)]


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("offset", [500, 30, 0])
def test_a_crash_at_any_step_of_starting_anew_leaves_a_prefix_of_the_log_or_an_empty_one(
    offset: int, loses_power: bool
) -> None:
    """A follower whose leader has none of its records any more."""

    def anew(store: FakeStore, log: PartitionLog) -> None:
        for effect in truncate_fully_and_start_at(log, offset, NOW):
            remove_files(log, effect)
        append(log, batch(2, producer_id=2, sequence=0, timestamp=NOW), epoch=7)
        log.flush()

    step, is_dead, ends = 0, True, set()
    while is_dead:
        step += 1
        store = FakeStore()
        log = filled(store)
        log.flush()
        store.sync_directory()
        store.crash_at, is_dead = store.changes + step, True
        with suppress(Crashed):
            anew(store, log)
            is_dead = False
        store.lose_power(Random(step)) if loses_power else store.kill()
        # The checkpoints are older.
        again = load(store, recovery_point=80)
        start, end = again.log_start_offset, again.log_end_offset
        found = batch_offsets(store, 1000)
        old, new = [(n, n + 1) for n in range(0, end, 2)], [(n, n + 1) for n in range(offset, end, 2)]
        assert (start, found) in ((0, old), (offset, new))
        if not is_dead:
            assert (start, end, found) == (offset, offset + 2, [(offset, offset + 1)])
        check_indexes(store)
        again_at = append(again, batch(2, producer_id=3, sequence=0), epoch=8).base_offset
        assert again_at == end
        ends.add(end)
    assert {80, offset, offset + 2} <= ends


REMOVALS: dict[str, tuple[int, Callable[[PartitionLog], list[UnlinkFiles]]]] = {
    "DeleteRecords": (51, lambda log: delete_records_before(log, 51)),
    "DeleteRecords of all": (80, lambda log: delete_records_before(log, 80)),
    "retention": (48, lambda log: delete_segments(log, log.segments.base_offsets[1], NOW)),
    "retention of all": (80, lambda log: delete_segments(log, 10**9, NOW)),
}


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("removal", REMOVALS)
def test_a_crash_at_any_step_of_a_removal_leaves_all_that_was_to_stay(removal: str, loses_power: bool) -> None:
    new_start, remove = REMOVALS[removal]

    def ready() -> tuple[FakeStore, PartitionLog]:
        store = FakeStore()
        log = filled(store)
        log.flush()
        store.sync_directory()
        return store, log

    def removed(log: PartitionLog) -> None:
        for effect in remove(log):
            remove_files(log, effect)

    store, log = ready()
    before = store.changes
    removed(log)
    steps = store.changes - before
    assert steps > 10
    for step in range(1, steps + 1):
        store, log = ready()
        store.crash_at = store.changes + step
        with pytest.raises(Crashed):
            removed(log)
        if loses_power:
            store.lose_power(Random(step))
        else:
            store.kill()
        # The new start may be in the checkpoint by then or not.
        for log_start in (0, min(new_start, log.log_start_offset)):
            again = load(store, recovery_point=80, log_start_offset=log_start)
            first = again.segments[0].base_offset
            assert first <= new_start
            assert batch_offsets(store, 80) == [(n, n + 1) for n in range(first, 80, 2)]
            assert (again.log_start_offset, again.log_end_offset) == (max(first, log_start), 80)
            assert not [name for name in store.names() if name.endswith(".deleted")]


def test_very_many_segments_are_removed_some_at_a_time() -> None:
    log = filled(FakeStore())
    while len(log.segments) < 3 * SEGMENTS_PER_STEP:
        append(log, batch(2))
        log.roll(log.log_end_offset, NOW)
    log.advance_high_watermark(log.log_end_offset)
    removed = delete_records_before(log, log.log_end_offset)
    assert log.log_start_offset == log.log_end_offset
    steps = 0
    while has_expired_segments(log):
        before = len(log.segments)
        removed += remove_expired_segments(log)
        assert 0 < before - len(log.segments) <= SEGMENTS_PER_STEP
        steps += 1
    assert (steps, len(log.segments)) == (2, 1)
    assert remove_expired_segments(log) == []
    assert log.high_watermark == log.log_end
    assert all(effect.names for effect in removed)


def test_segments_that_go_while_they_are_described_are_left_out() -> None:
    log = filled(FakeStore())
    described = segment_summaries(log)
    next(described)
    bases = log.segments.base_offsets
    delete_segments(log, bases[1], NOW)
    assert [row.base_offset for row in described] == bases[2:]


def test_retention_on_a_full_disk_removes_all_that_needs_no_room() -> None:
    """A new active segment would not fit; the ones before it go, and make room."""
    store = FakeStore()
    log = filled(store)
    bases = log.segments.base_offsets
    store.full_for = ".snapshot"
    delete_segments(log, bases[-1], NOW)
    assert log.segments.base_offsets == bases[-1:]
    assert log.log_start_offset == bases[-1]
    with pytest.raises(NoSpaceLeft):
        delete_segments(log, bases[-1], NOW)
    assert log.segments.base_offsets == bases[-1:]


def test_segments_go_where_the_directory_has_no_room_for_their_new_names() -> None:
    store = FakeStore()
    log = filled(store)
    bases = log.segments.base_offsets
    store.full_for = ".deleted"
    (effect,) = delete_records_before(log, bases[2])
    assert log.segments.base_offsets == bases[2:]
    remove_files(log, effect)
    assert segment_bases(store) == bases[2:]
