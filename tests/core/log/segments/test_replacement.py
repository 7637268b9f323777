from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkad.core.cleaning.cleaned_segment import CleanedSegment
from kafkad.core.log.coordinated import append_end_marker
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.record import NewRecord
from kafkad.core.log.recovery.state_files import snapshot_offsets
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.layout import (
    CLEANED,
    DELETED,
    LOG,
    OFFSET_INDEX,
    PRODUCER_SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
)
from kafkad.core.log.segments.removal import delete_records_before, remove_files, truncate_to
from kafkad.core.log.segments.replacement import abort_swap, are_current, begin_swap
from kafkad.core.log.segments.segment import Segment
from kafkad.core.ports import NoSpaceLeft
from tests.amounts import amount
from tests.core.cleaning.cleaned_log import CONFIG, Writer, aborted_in, batches_of, begin_pass, compacted
from tests.core.cleaning.naive import Batch, read_batches
from tests.core.log.batches import NOW, load
from tests.core.log.fake_store import Crashed, FakeStore
from tests.core.log.segments.swapping import replace_segments


def written(store: FakeStore, log: PartitionLog) -> Iterator[tuple[list[Segment], CleanedFiles]]:
    """The groups of a pass, one after the other, with what was written of them and is on disk."""
    cleaning, _ = begin_pass(log, store, first_dirty=0, now_ms=NOW)
    for _ in cleaning.learn():
        continue
    by_base = {segment.base_offset: segment for segment in log.segments}
    for group in cleaning.groups():
        steps = cleaning.clean(group)
        while True:
            try:
                next(steps)
            except StopIteration as finished:
                files: CleanedFiles = finished.value
                break
        for kind in files.kinds():
            store.open(file_name(files.base_offset, kind, CLEANED)).sync()
        yield [by_base[source.base_offset] for source in group], files


def a_log(seed: int = 3) -> Writer:
    """Its first half was compacted, so the next pass merges segments."""
    writer = Writer(seed)
    writer.write(60)
    swap_all(writer)
    writer.write(60)
    writer.log.flush()
    return writer


def content(log: PartitionLog) -> list[Batch]:
    return batches_of(log, log.log_end_offset + 1)


def swap_all(writer: Writer) -> None:
    for sources, files in written(writer.store, writer.log):
        replace_segments(writer.log, sources, files)


def test_the_log_holds_what_the_cleaned_files_hold() -> None:
    writer = a_log()
    before = writer.log.segments.base_offsets
    expected: list[Batch] = []
    for sources, files in written(writer.store, writer.log):
        expected += naive_batches(writer.store, file_name(files.base_offset, LOG, CLEANED))
        effect = replace_segments(writer.log, sources, files)
        assert {name.removesuffix(DELETED) for name in effect.names} >= {
            file_name(segment.base_offset, kind) for segment in sources for kind in (LOG, OFFSET_INDEX)
        }
        remove_files(writer.log, effect)
    assert content(writer.log) == expected
    assert len(writer.log.segments) < len(before)
    assert not [name for name in writer.store.files if name.endswith((DELETED, CLEANED))]


def naive_batches(store: FakeStore, name: str) -> list[Batch]:
    return read_batches(store.read(name))


def test_offsets_are_found_in_a_replaced_segment() -> None:
    writer = a_log()
    swap_all(writer)
    log = writer.log
    for segment in log.segments:
        offset = segment.base_offset
        for batch in batches_of(log, log.log_end_offset + 1):
            if segment.base_offset <= batch.base_offset <= segment.next_offset() - 1:
                place = log.position_of(batch.base_offset)
                assert (place.segment_base, place.offset) == (segment.base_offset, batch.base_offset)
                offset = batch.last_offset
        assert offset < segment.next_offset() or segment.size == 0


def test_a_loaded_log_is_the_one_that_was_replaced() -> None:
    writer = a_log()
    swap_all(writer)
    expected, end = content(writer.log), writer.log.log_end_offset
    writer.log.close()
    loaded = load(writer.store, config=CONFIG, was_clean=True, recovery_point=end)
    assert (content(loaded), loaded.log_end_offset) == (expected, end)


def contents_after(before: list[Batch], sources: list[Segment], cleaned: list[Batch]) -> list[list[Batch]]:
    """What a log may hold whose swap was finished by loading."""
    later = [batch for batch in before if batch.base_offset >= sources[-1].next_offset()]
    # Of a source behind the last cleaned batch loading can't know that it was replaced, as in Apache Kafka: what is in
    # it is older than what follows, and goes with the next pass.
    end_of_cleaned = cleaned[-1].last_offset + 1 if cleaned else sources[0].base_offset
    unknown = [source.base_offset for source in sources[1:] if source.base_offset >= end_of_cleaned]
    left = [batch for batch in before if unknown and unknown[0] <= batch.base_offset < sources[-1].next_offset()]
    return [cleaned + later, cleaned + left + later]


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize(("seed", "is_next_written"), [(3, False), (5, False), (5, True)])
def test_a_swap_that_is_stopped_at_any_step_is_undone_or_finished(
    seed: int, is_next_written: bool, loses_power: bool
) -> None:
    step = 1
    while True:
        writer = a_log(seed)
        before = content(writer.log)
        sources, files = next(written(writer.store, writer.log))
        cleaned = naive_batches(writer.store, file_name(files.base_offset, LOG, CLEANED))
        after = contents_after(before, sources, cleaned)
        end = writer.log.log_end_offset
        next_name = file_name(sources[-1].next_offset(), LOG, CLEANED)
        if is_next_written:
            writer.store.open(next_name, create=True)
        writer.store.crash_at = writer.store.changes + step
        try:
            replace_segments(writer.log, sources, files)
        except Crashed:
            crashed = True
        else:
            crashed = False
            assert (next_name in writer.store.files) is is_next_written
        if loses_power:
            writer.store.lose_power(Random(step))
        else:
            writer.store.kill()
        loaded = load(writer.store, config=CONFIG, recovery_point=end)
        assert content(loaded) in (before, *after)
        assert loaded.log_end_offset == end
        if not crashed:
            return
        step += 1


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_segment_that_is_empty_after_a_swap_has_no_transaction_index(loses_power: bool) -> None:
    """That of what it replaces stayed, with transactions of which nothing is left."""
    step = 1
    while True:
        writer = an_aborted_log()
        assert writer.store.has(file_name(0, TXN_INDEX))
        sources = [writer.log.segments[0]]
        files = CleanedSegment(writer.store, CONFIG, 0).finish([], NOW)
        for kind in files.kinds():
            writer.store.open(file_name(0, kind, CLEANED)).sync()
        end = writer.log.log_end_offset
        writer.store.crash_at = writer.store.changes + step
        crashed = False
        try:
            replace_segments(writer.log, sources, files)
        except Crashed:
            crashed = True
        if loses_power:
            writer.store.lose_power(Random(step))
        else:
            writer.store.kill()
        load(writer.store, config=CONFIG, recovery_point=end)
        is_replaced = writer.store.sizes()[file_name(0, LOG)] == 0
        assert writer.store.has(file_name(0, TXN_INDEX)) is not is_replaced
        if not crashed:
            assert is_replaced
            return
        step += 1


def begun(writer: Writer) -> tuple[list[Segment], list[Batch]]:
    """A swap that is on disk, but not made: its sources, and what is to take their place."""
    sources, files = next(written(writer.store, writer.log))
    cleaned = naive_batches(writer.store, file_name(files.base_offset, LOG, CLEANED))
    begin_swap(writer.log, files)
    writer.store.sync_directory()
    return sources, cleaned


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_swap_that_was_given_up_does_not_come_back(loses_power: bool) -> None:
    step = 1
    while True:
        writer = a_log()
        before, end = content(writer.log), writer.log.log_end_offset
        sources, files = next(written(writer.store, writer.log))
        cleaned = naive_batches(writer.store, file_name(files.base_offset, LOG, CLEANED))
        after = contents_after(before, sources, cleaned)
        begin_swap(writer.log, files)
        writer.store.sync_directory()
        writer.store.crash_at = writer.store.changes + step
        crashed = False
        try:
            abort_swap(writer.log)
        except Crashed:
            crashed = True
        if loses_power:
            writer.store.lose_power(Random(step))
        else:
            writer.store.kill()
        loaded = content(load(writer.store, config=CONFIG, recovery_point=end))
        assert loaded == before or (crashed and loaded in after)
        if not crashed:
            return
        step += 1


@pytest.mark.parametrize("loses_power", [False, True])
def test_what_is_truncated_while_a_swap_is_begun_does_not_come_back(loses_power: bool) -> None:
    """The next start would finish the swap."""
    step = 1
    while True:
        writer = a_log()
        _, cleaned = begun(writer)
        cut = cleaned[-1].base_offset
        end = writer.log.log_end_offset
        writer.store.crash_at = writer.store.changes + step
        crashed = False
        try:
            truncate_to(writer.log, cut, NOW)
        except Crashed:
            crashed = True
        if loses_power:
            writer.store.lose_power(Random(step))
        else:
            writer.store.kill()
        loaded = load(writer.store, config=CONFIG, recovery_point=min(cut, end))
        if not crashed:
            assert loaded.log_end_offset == writer.log.log_end_offset <= cut
            return
        step += 1


def test_records_that_are_deleted_while_a_swap_is_begun_do_not_come_back() -> None:
    writer = a_log()
    sources, _ = begun(writer)
    start = sources[-1].next_offset()
    for effect in delete_records_before(writer.log, start):
        remove_files(writer.log, effect)
    assert not are_current(writer.log, sources)
    writer.store.lose_power(Random(0))
    writer.store.kill()
    loaded = load(writer.store, config=CONFIG, recovery_point=writer.log.log_end_offset)
    assert loaded.segments[0].base_offset == start


def an_aborted_log() -> Writer:
    """An aborted transaction is all that its first segment holds."""
    writer = Writer(0)
    writer.append(1)
    append_end_marker(
        writer.log,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=1,
        commit=False,
        transaction_version=1,
        leader_epoch=0,
        now_ms=NOW,
    )
    writer.open.clear()
    writer.write(0)
    writer.log.flush()
    return writer


def test_a_pass_that_was_given_up_does_not_undo_a_later_swap() -> None:
    """Files of an older pass with a lower offset say to loading that a swap was not made in full."""
    writer = a_log()
    for kind in (LOG, OFFSET_INDEX):
        writer.store.open(file_name(0, kind, CLEANED), create=True)
    *_, (sources, files) = written(writer.store, writer.log)
    assert sources[0].base_offset > 0
    assert file_name(0, LOG, CLEANED) in writer.store.files
    replace_segments(writer.log, sources, files)
    assert file_name(0, LOG, CLEANED) not in writer.store.files


def test_without_room_for_other_names_the_log_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = a_log()
    before = content(writer.log)
    sources, files = next(written(writer.store, writer.log))
    rename = writer.store.rename

    def full(old: str, new: str) -> None:
        if old.endswith(OFFSET_INDEX + CLEANED):
            raise NoSpaceLeft("no room for another name")
        rename(old, new)

    monkeypatch.setattr(writer.store, "rename", full)
    with pytest.raises(NoSpaceLeft):
        replace_segments(writer.log, sources, files)
    assert content(writer.log) == before
    loaded = load(writer.store, config=CONFIG, recovery_point=writer.log.log_end_offset)
    assert content(loaded) == before


def test_segments_that_were_removed_meanwhile_are_not_replaced() -> None:
    writer = a_log()
    (first, _), (other, _), *_ = written(writer.store, writer.log)
    delete_records_before(writer.log, writer.log.segments[1].base_offset)
    assert not are_current(writer.log, first)
    assert are_current(writer.log, other)


def test_positions_in_replaced_segments_are_looked_up_again() -> None:
    writer = compacted([NewRecord(NOW, b"a", bytes(50))], [NewRecord(NOW, b"b", b"1")], [NewRecord(NOW, b"a", b"2")])
    generation, log = writer.log.generation, writer.log
    stale, before = log.position_of(1), log.manifest()
    swap_all(writer)
    assert log.position_of(1).position != stale.position
    assert log.generation > generation
    assert log.manifest().rewrites == 1
    assert not log.manifest().continues(before)


def test_segments_that_are_merged_away_lose_their_snapshots_and_the_first_keeps_its_own() -> None:
    """It says what producers had written before the segment, which is what it was."""
    writer = a_log()
    log, store = writer.log, writer.store
    delete_records_before(log, log.segments[1].base_offset)
    sources, files = next(written(store, log))
    bases = [segment.base_offset for segment in sources]
    assert len(bases) > 2 and set(bases) <= set(snapshot_offsets(store.names()))
    kept = store.read(file_name(bases[0], PRODUCER_SNAPSHOT))
    replace_segments(log, sources, files)
    assert [base for base in snapshot_offsets(store.names()) if base in bases] == bases[:1]
    assert store.read(file_name(bases[0], PRODUCER_SNAPSHOT)) == kept


@settings(max_examples=amount("cleaning_examples"), deadline=None)
@given(st.integers(0, 10**6))
def test_nothing_of_a_key_but_its_last_value_is_lost(seed: int) -> None:
    writer = Writer(seed)
    writer.write(40)
    before = latest_values(writer)
    swap_all(writer)
    assert latest_values(writer) == before


def latest_values(writer: Writer) -> dict[bytes, bytes | None]:
    """What a consumer with read_committed knows at the end."""
    aborted = aborted_in(writer.store)
    return {
        row.key: row.value
        for batch in content(writer.log)
        if not batch.is_control
        and not any(
            batch.is_transactional
            and batch.producer_id == entry.producer_id
            and entry.first_offset <= batch.base_offset <= entry.last_offset
            for entry in aborted
        )
        for row in batch.rows
        if row.key is not None
    }


def test_a_cleaned_segment_is_as_old_as_the_last_of_its_sources() -> None:
    """Where records have no timestamps, retention goes by the files."""
    writer = a_log()
    for segment in writer.log.segments:
        writer.store.set_modified_ms(file_name(segment.base_offset, LOG), 1000 + segment.base_offset)
    writer.store.now_ms = NOW
    for sources, files in written(writer.store, writer.log):
        replace_segments(writer.log, sources, files)
        for kind in (LOG, OFFSET_INDEX, TIME_INDEX):
            assert writer.store.modified_ms(file_name(files.base_offset, kind)) == 1000 + sources[-1].base_offset
