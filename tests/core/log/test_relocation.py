"""A log goes on in another directory: nothing is lost, whatever happens while it is copied."""

from random import Random

import pytest

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.producers.snapshot import encode_snapshot
from kafkad.core.log.relocation import CopyBytes, CopyFiles, FindCopied, Relocation, complete_copy
from kafkad.core.log.segments.layout import LOG, file_name
from kafkad.core.log.segments.removal import delete_records_before, truncate_to
from kafkad.core.ports import NoSpaceLeft
from tests.core.cleaning.cleaned_log import Writer, batches_of
from tests.core.log.batches import NOW, append, batch, load
from tests.core.log.fake_store import Crashed, FakeStore

CHUNK = 700


def perform(step: CopyBytes | CopyFiles, source: FakeStore, target: FakeStore) -> None:
    """As a thread would."""
    if isinstance(step, CopyBytes):
        name = file_name(step.base_offset, LOG)
        _copy(source, target, name, step.start, step.end)
        if step.sync:
            target.open(name).sync()
        return
    for name in step.names:
        if source.has(name):
            _copy(source, target, name, 0, len(source.read(name)))
    for name in (file_name(step.base_offset, LOG), *step.names):
        if target.has(name):
            target.open(name).sync()


def _copy(source: FakeStore, target: FakeStore, name: str, start: int, end: int) -> None:
    content = source.read(name)[start:end]
    file = target.open(name, create=True)
    if content:
        file.write_at((content,), start)


def copy_all(log: PartitionLog, source: FakeStore, target: FakeStore) -> Relocation:
    copy = Relocation(log)
    while (step := next_copy(copy)) is not None:
        perform(step, source, target)
        copy.done(step)
    return copy


def next_copy(copy: Relocation) -> CopyBytes | CopyFiles | None:
    step = copy.next_step(CHUNK)
    assert not isinstance(step, FindCopied)
    return step


def move(log: PartitionLog, source: FakeStore, target: FakeStore) -> None:
    copy = copy_all(log, source, target)
    complete_copy(log, copy, target)
    log.relocate_to(target, synced_up_to=copy.synced_up_to, now_ms=NOW)


def a_log(seed: int = 5) -> Writer:
    """With transactions, producers, several segments, and an active one."""
    writer = Writer(seed)
    writer.write(80)
    for _ in range(5):
        writer.append(-1)
    writer.log.advance_high_watermark(writer.log.log_end_offset)
    return writer


def everything(log: PartitionLog) -> list[object]:
    return list(batches_of(log, log.log_end_offset + 1))


def producers(log: PartitionLog) -> bytes:
    return encode_snapshot(log.producers.active())


def test_the_moved_log_is_the_log_and_goes_on() -> None:
    writer = a_log()
    log, source, target = writer.log, writer.store, FakeStore()
    before, end, generation = everything(log), log.log_end, log.generation
    move(log, source, target)
    assert everything(log) == before and log.log_end == end
    assert log.generation == generation + 1
    source.files.clear()
    writer.append(-1)
    writer.write(30)
    expected = everything(log)
    log.close()
    again = load(target, config=log.config, was_clean=True)
    assert everything(again) == expected
    assert producers(again) == producers(log)
    assert again.epochs.entries == log.epochs.entries


@pytest.mark.parametrize("was_clean", [True, False])
def test_the_copy_alone_is_the_log(was_clean: bool) -> None:
    """Whoever loads it after a crash finds what was in the old directory."""
    writer = a_log()
    target = FakeStore()
    copy = copy_all(writer.log, writer.store, target)
    complete_copy(writer.log, copy, target)
    loaded = load(target, config=writer.log.config, was_clean=was_clean)
    assert everything(loaded) == everything(writer.log)
    assert producers(loaded) == producers(writer.log)


def test_records_appended_and_segments_removed_while_it_is_copied_are_right() -> None:
    writer = a_log()
    log, source, target = writer.log, writer.store, FakeStore()
    copy = Relocation(log)
    random, steps = Random(1), 0
    while (step := next_copy(copy)) is not None:
        perform(step, source, target)
        copy.done(step)
        steps += 1
        if steps < 40:
            writer.append(random.choice((-1, 0)))
            log.advance_high_watermark(log.log_end_offset)
        if steps == 10:
            delete_records_before(log, log.segments[3].base_offset + 1)
    for _ in range(3):
        writer.append(-1)
    log.advance_high_watermark(log.log_end_offset)
    expected = everything(log)
    complete_copy(log, copy, target)
    log.relocate_to(target, synced_up_to=copy.synced_up_to, now_ms=NOW)
    source.files.clear()
    assert everything(log) == expected
    log.close()
    start = log.log_start_offset
    loaded = load(target, config=log.config, was_clean=True, log_start_offset=start)
    assert (loaded.log_start_offset, loaded.log_end_offset) == (start, log.log_end_offset)
    assert everything(loaded) == expected


@pytest.mark.parametrize("seed", range(8))
def test_what_was_on_disk_in_the_old_directory_is_on_disk_in_the_new_one(seed: int) -> None:
    writer = a_log(seed)
    log, source, target = writer.log, writer.store, FakeStore()
    copy = copy_all(log, source, target)
    for _ in range(3):
        writer.append(-1)
    log.advance_high_watermark(log.log_end_offset)
    log.flush()
    on_disk, expected = log.recovery_point, everything(log)
    complete_copy(log, copy, target)
    target.lose_power(Random(seed))
    loaded = load(target, config=log.config)
    assert loaded.log_end_offset >= on_disk
    assert everything(loaded) == expected


@pytest.mark.parametrize("seed", range(8))
def test_after_the_move_recovery_begins_where_the_new_files_are_on_disk(seed: int) -> None:
    writer = a_log(seed)
    log, source, target = writer.log, writer.store, FakeStore()
    log.flush()
    move(log, source, target)
    point, expected = log.recovery_point, log.log_end_offset
    assert point == expected
    target.lose_power(Random(seed))
    assert load(target, config=log.config, recovery_point=point).log_end_offset == expected


def test_a_sync_of_the_old_files_that_ends_after_the_move_means_nothing() -> None:
    log, source, target = load(FakeStore()), FakeStore(), FakeStore()
    source = log.store  # type: ignore[assignment]
    append(log, batch(3))
    copy = copy_all(log, source, target)
    append(log, batch(3))
    effect = log.flush_effect(log.log_end_offset)
    effect.perform()
    complete_copy(log, copy, target)
    log.relocate_to(target, synced_up_to=copy.synced_up_to, now_ms=NOW)
    log.flushed(effect)
    assert log.recovery_point == 3


@pytest.mark.parametrize("loses_power", [False, True])
def test_what_an_interrupted_copy_has_of_sealed_segments_is_not_copied_again(loses_power: bool) -> None:
    done = -1
    is_whole = False
    while not is_whole:
        done += 1
        writer = a_log()
        source, target = writer.store, FakeStore()
        copied, is_whole = copied_steps(writer.log, source, target, done)
        writer.log.flush()
        end = writer.log.log_end_offset
        if loses_power:
            source.lose_power(Random(done))
            target.lose_power(Random(done))
        else:
            source.kill()
        for name in target.names():
            if name not in copied:
                target.unlink(name)
        log = load(source, config=writer.log.config, recovery_point=end)
        log.advance_high_watermark(log.log_end_offset)
        expected = everything(log)

        copy = Relocation(log, is_resumed=True)
        asked = copy.next_step(CHUNK)
        assert isinstance(asked, FindCopied) and set(copied) <= set(asked.names)
        copy.found(copied)
        assert copy.missing_bytes == log.size_bytes - sum(copied.values())
        while (step := next_copy(copy)) is not None:
            assert isinstance(step, CopyFiles) or file_name(step.base_offset, LOG) not in copied
            perform(step, source, target)
            copy.done(step)
        complete_copy(log, copy, target)
        target.lose_power(Random(done))
        assert everything(load(target, config=log.config)) == expected
    assert done > 20


def copied_steps(log: PartitionLog, source: FakeStore, target: FakeStore, most: int) -> tuple[dict[str, int], bool]:
    """The segments that were copied as a whole by so many steps, and whether there is no other step."""
    copy = Relocation(log)
    copied: dict[str, int] = {}
    for _ in range(most):
        step = next_copy(copy)
        if step is None:
            return copied, True
        perform(step, source, target)
        copy.done(step)
        if isinstance(step, CopyFiles):
            target.sync_directory()
            copied[file_name(step.base_offset, LOG)] = step.size
    return copied, False


def test_a_segment_that_is_active_again_is_copied_as_one_that_grows() -> None:
    """Recovery has removed those behind it."""
    writer = a_log()
    log = writer.log
    copy = Relocation(log, is_resumed=True)
    active = log.segments.active
    copy.found({file_name(active.base_offset, LOG): active.size})
    while (step := next_copy(copy)) is not None:
        copy.done(step)
        last = step
    assert isinstance(last, CopyBytes) and last.sync
    assert last.base_offset == log.segments.active.base_offset
    assert copy.copied_active_bytes == log.segments.active.size


def test_a_truncation_ends_the_copy() -> None:
    writer = a_log()
    copy = copy_all(writer.log, writer.store, FakeStore())
    assert copy.is_valid
    truncate_to(writer.log, writer.log.log_end_offset - 2, NOW)
    assert not copy.is_valid


def test_a_segment_is_sealed_while_its_bytes_are_copied() -> None:
    log, target = load(FakeStore()), FakeStore()
    source = log.store
    assert isinstance(source, FakeStore)
    for _ in range(5):
        append(log, batch(3))
    copy = Relocation(log)
    step = copy.next_step(CHUNK)
    assert isinstance(step, CopyBytes) and step.sync
    log.roll(log.log_end_offset, NOW)
    perform(step, source, target)
    copy.done(step)
    assert isinstance(copy.next_step(CHUNK), CopyFiles)
    move(log, source, FakeStore())


def test_a_crash_at_any_step_leaves_the_old_log_whole() -> None:
    """The copy is of use only when all of it is there; until then the old directory counts."""
    step = 0
    while True:
        step += 1
        writer = a_log()
        log, source, target = writer.log, writer.store, FakeStore()
        expected = everything(log)
        target.crash_at = step
        try:
            complete_copy(log, copy_all(log, source, target), target)
            break
        except Crashed:
            source.kill()
        assert everything(load(source, config=log.config)) == expected
    assert step > 20


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    writer = a_log()
    log, source, target = writer.log, writer.store, FakeStore()
    copy = copy_all(log, source, target)
    writer.append(-1)
    log.advance_high_watermark(log.log_end_offset)
    expected = everything(log)
    target.free_bytes = 0
    with pytest.raises(NoSpaceLeft):
        complete_copy(log, copy, target)
    writer.append(-1)
    log.advance_high_watermark(log.log_end_offset)
    assert everything(log)[: len(expected)] == expected and len(everything(log)) == len(expected) + 1


def test_batches_that_wait_for_the_disk_are_synced_in_the_new_directory() -> None:
    store = FakeStore()
    log = load(store)
    log.update_config(log.config.__class__(flush_messages=1))
    append(log, batch(2))
    target = FakeStore()
    copy = copy_all(log, store, target)
    append(log, batch(2))
    assert log.completed_end == 0
    complete_copy(log, copy, target)
    log.relocate_to(target, synced_up_to=copy.synced_up_to, now_ms=NOW)
    effect = log.take_flush()
    assert effect is not None
    effect.perform()
    log.flushed(effect)
    assert log.completed_end == log.log_end_offset
