"""What loading makes of a directory: leftovers, missing and orphaned files, the log start."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.records.old_formats import OldMessageFormat
from kafkad.core.log.recovery import loading
from kafkad.core.log.recovery.crash_recovery import Progress
from kafkad.core.log.recovery.loading import LoadRequest, load_steps
from kafkad.core.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from kafkad.core.log.segments.layout import CLEANED, DELETED, LOG, OFFSET_INDEX, SWAP, TIME_INDEX, file_name
from kafkad.core.log.segments.transaction_index import ENTRY_SIZE
from kafkad.core.log.settings import LogConfig
from kafkad.core.types import TopicPartition
from tests.core.log.batches import NOW, SMALL, append, batch, load
from tests.core.log.fake_store import Crashed, FakeStore
from tests.core.log.log_content import batch_offsets, check_indexes, segment_bases
from tests.core.log.old_messages import old_messages

BASE_0 = "00000000000000000000"


def closed(store: FakeStore, batches: int = 30) -> PartitionLog:
    log = load(store)
    for number in range(batches):
        append(log, batch(2, timestamp=NOW + number))
    log.close()
    return log


def test_an_empty_directory_becomes_an_empty_log() -> None:
    store = FakeStore()
    log = load(store)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert set(store.sizes()) == {f"{BASE_0}.log", f"{BASE_0}.index", f"{BASE_0}.timeindex"}


def test_a_clean_log_is_not_read_beyond_its_end() -> None:
    store = FakeStore()
    closed(store)
    store.reads = 0
    load(store, was_clean=True, recovery_point=60)
    assert store.reads <= 8


def test_no_step_looks_at_all_segments_of_a_log_that_has_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "SEGMENTS_A_STEP", 4)
    store = FakeStore()
    segments = len(closed(store, 300).segments)
    request = LoadRequest(
        partition=TopicPartition("orders", 0), config=SMALL, was_clean=True, now_ms=NOW, recovery_point=600
    )
    assert len(list(load_steps(store, request))) == 1 + 2 * (segments // 4)


def test_producers_are_found_again_in_steps() -> None:
    store = FakeStore()
    segments = len(closed(store, 300).segments)
    request = LoadRequest(partition=TopicPartition("orders", 0), config=SMALL, was_clean=False, now_ms=NOW)
    checked = [step for step in load_steps(store, request) if step == Progress(1, 1)]
    assert len(checked) == segments


def test_the_log_start_of_the_checkpoint_is_honoured() -> None:
    store = FakeStore()
    closed(store)
    log = load(store, was_clean=True, log_start_offset=17)
    assert log.log_start_offset == 17
    assert log.log_end_offset == 60


def test_a_log_that_ends_below_its_start_begins_anew_there() -> None:
    store = FakeStore()
    closed(store)
    log = load(store, was_clean=True, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert log.segments.base_offsets == segment_bases(store) == [100]
    assert append(log, batch(1)).base_offset == 100


@pytest.mark.parametrize("suffix", [DELETED, ".delete", CLEANED, ".tmp"])
def test_partial_files_are_removed(suffix: str) -> None:
    store = FakeStore()
    closed(store)
    store.replace(f"{500:020d}.log{suffix}", b"whatever")
    load(store, was_clean=True)
    assert not [name for name in store.sizes() if name.endswith(suffix)]


def test_indexes_without_a_log_are_removed() -> None:
    store = FakeStore()
    closed(store)
    for kind in (".index", ".timeindex", ".txnindex"):
        store.replace(f"{777:020d}{kind}", bytes(24))
    load(store, was_clean=True)
    assert not [name for name in store.sizes() if name.startswith(f"{777:020d}")]


@pytest.mark.parametrize("was_clean", [True, False])
def test_what_is_removed_with_a_log_that_is_gone_is_named(*, was_clean: bool) -> None:
    store = FakeStore()
    bases = closed(store).segments.base_offsets
    store.unlink(file_name(bases[1], LOG))
    said = findings(store, was_clean=was_clean, recovery_point=60)
    assert said == [
        f"removed {file_name(bases[1], kind)}: {file_name(bases[1], LOG)} does not exist"
        for kind in (OFFSET_INDEX, TIME_INDEX)
    ]


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_segment_that_was_emptied_is_named(*, was_clean: bool) -> None:
    store = FakeStore()
    bases = closed(store).segments.base_offsets
    store.open(file_name(bases[1], LOG)).truncate(0)
    (line,) = findings(store, was_clean=was_clean, recovery_point=60)
    assert line.startswith(f"{file_name(bases[1], LOG)} is empty, but its indexes are not")
    assert load(store, was_clean=was_clean, recovery_point=60).log_end_offset == 60
    assert findings(store, was_clean=was_clean, recovery_point=60) == []


def test_files_of_others_are_left_alone() -> None:
    store = FakeStore()
    store.replace("notes.txt", b"mine")
    load(store)
    assert store.read("notes.txt") == b"mine"


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd length"])
def test_an_index_that_is_missing_or_can_not_be_right_is_rebuilt(kind: str, damage: str) -> None:
    store = FakeStore()
    log = closed(store)
    for base in log.segments.base_offsets:
        name = f"{base:020d}{kind}"
        store.unlink(name) if damage == "missing" else store.open(name).truncate(7)
    again = load(store, was_clean=True, recovery_point=60)
    assert again.log_end_offset == 60
    assert check_indexes(store) > 10


def lines_of(store: FakeStore, recovery_point: int) -> tuple[PartitionLog, list[str]]:
    """The log after an unclean stop, and what was said about it."""
    steps = load_steps(
        store,
        LoadRequest(
            partition=TopicPartition("orders", 0),
            config=SMALL,
            was_clean=False,
            now_ms=NOW,
            recovery_point=recovery_point,
        ),
    )
    said: list[str] = []
    while True:
        try:
            said += [message] if (message := next(steps).message) else []
        except StopIteration as finished:
            return finished.value, said


DAMAGES: dict[str, Callable[[FakeStore, str], None]] = {
    "missing": lambda store, name: store.unlink(name),
    "odd length": lambda store, name: store.open(name).write_at((b"\0" * 5,), store.sizes()[name]),
    "all zero": lambda store, name: store.open(name).write_at((bytes(store.sizes()[name]),), 0),
    "beyond the log": lambda store, name: store.open(name).write_at(
        (OFFSET_ENTRY.pack(50, 1 << 20) if name.endswith(".index") else TIME_ENTRY.pack(1, 50),),
        store.sizes()[name] - (8 if name.endswith(".index") else 12),
    ),
}


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_an_index_below_the_recovery_point_that_can_not_be_right_is_rebuilt_with_one_line(
    kind: str, damage: str
) -> None:
    store = FakeStore()
    log = closed(store, 60)
    whole = {name: store.read(name) for name in store.files if name.endswith((".index", ".timeindex"))}
    assert len(log.segments) > 3
    name = file_name(log.segments[1].base_offset, kind)
    DAMAGES[damage](store, name)
    loaded, said = lines_of(store, recovery_point=log.segments.active.base_offset)
    assert len(said) == 1 and name in said[0]
    assert {name: store.read(name) for name in whole} == whole
    assert loaded.log_end_offset == log.log_end_offset
    assert lines_of(store, recovery_point=log.segments.active.base_offset)[1] == []


def test_a_rebuilt_index_is_there_after_the_loss_of_power() -> None:
    store = FakeStore()
    log = closed(store, 60)
    name = file_name(log.segments[1].base_offset, ".index")
    content = store.read(name)
    DAMAGES["odd length"](store, name)
    lines_of(store, recovery_point=log.segments.active.base_offset)
    store.lose_power(Random(1))
    assert store.read(name) == content


def test_a_transaction_index_below_the_recovery_point_that_can_not_be_right_is_rebuilt() -> None:
    store = FakeStore()
    log = closed(store, 60)
    name = file_name(log.segments[1].base_offset, ".txnindex")
    store.open(name, create=True).write_at((b"\7" * ENTRY_SIZE,), 0)
    _, said = lines_of(store, recovery_point=log.segments.active.base_offset)
    assert len(said) == 1 and name in said[0]
    assert not store.has(name)


def test_an_index_with_a_zero_tail_is_used_up_to_the_tail() -> None:
    store = FakeStore()
    closed(store)
    last = segment_bases(store)[-1]
    for kind in (".index", ".timeindex"):
        store.open(f"{last:020d}{kind}").truncate(4092)
    again = load(store, config=LogConfig(index_interval_bytes=0), was_clean=True, recovery_point=60)
    assert again.log_end_offset == 60
    append(again, batch(1, timestamp=NOW + 100))
    append(again, batch(1, timestamp=NOW + 101))
    again.close()
    assert check_indexes(store) > 10


def test_garbage_after_the_end_of_a_cleanly_closed_log_is_found_and_cut() -> None:
    store = FakeStore()
    log = closed(store)
    last = log.segments.base_offsets[-1]
    store.open(f"{last:020d}.log").write_at((b"garbage" * 20,), log.segments.active.size)
    assert load(store, was_clean=True, recovery_point=60).log_end == log.log_end


def findings(store: FakeStore, **known: Any) -> list[str]:
    request = LoadRequest(partition=TopicPartition("t", 0), config=SMALL, now_ms=NOW, **known)
    return [progress.message for progress in load_steps(store, request) if progress.message]


def test_a_cleanly_closed_log_that_lost_its_end_keeps_what_is_left_of_it() -> None:
    store = FakeStore()
    log = closed(store)
    active = log.segments.active
    _, second, *_ = [at for at, _ in walk_batches(active.log.read_at, 0, active.size)]
    assert 0 < second < active.offset_index.last[1]
    store.open(f"{active.base_offset:020d}.log").truncate(second + 5)
    again = load(store, was_clean=True, recovery_point=60)
    assert again.log_end_offset == active.base_offset + 2
    assert again.segments.active.size == second
    check_indexes(store)


def test_an_offset_in_the_last_batch_that_can_not_be_is_not_believed() -> None:
    store = FakeStore()
    log = closed(store)
    active = log.segments.active
    *_, (last, header) = walk_batches(active.log.read_at, 0, active.size)
    store.open(f"{active.base_offset:020d}.log").write_at(((header.base_offset | 1 << 61).to_bytes(8, "big"),), last)
    assert load(store, was_clean=True, recovery_point=60).log_end_offset == header.base_offset


@pytest.mark.parametrize("was_clean", [True, False])
def test_records_that_were_synced_and_are_gone_are_named(was_clean: bool) -> None:
    store = FakeStore()
    log = closed(store)
    assert findings(store, was_clean=was_clean, recovery_point=60) == []
    for kind in (".log", ".index", ".timeindex"):
        store.unlink(f"{log.segments.base_offsets[-1]:020d}{kind}")
    end = log.segments.base_offsets[-1]
    (line,) = findings(store, was_clean=was_clean, recovery_point=60)
    assert line == f"the log ends at offset {end}, but the checkpoints have recovery point 60: records are lost"


def test_a_new_partition_has_lost_nothing() -> None:
    assert findings(FakeStore(), was_clean=False) == []


def test_what_a_log_start_beyond_the_end_takes_away_is_named() -> None:
    store = FakeStore()
    closed(store)
    (line,) = findings(store, was_clean=True, recovery_point=60, log_start_offset=100)
    assert line.startswith("the log ends at offset 60,") and "log start offset 100: the log starts empty" in line


def compacted(store: FakeStore, suffix: str) -> list[int]:
    """Segments 1 and 2 of a log merged into one file with `suffix`; returns the original base offsets."""
    log = closed(store, batches=40)
    bases = log.segments.base_offsets
    survivors = bytes(batch(2, base_offset=bases[1], leader_epoch=0, timestamp=NOW))
    survivors += bytes(batch(2, base_offset=bases[3] - 2, leader_epoch=0, timestamp=NOW + 9))
    store.replace(f"{bases[1]:020d}.log{suffix}", survivors)
    store.replace(f"{bases[1]:020d}.index{suffix}", b"")
    store.replace(f"{bases[1]:020d}.timeindex{suffix}", b"")
    store.sync_directory()
    for content in store.files.values():
        content.sync()
    return bases


def test_a_swapped_segment_takes_the_place_of_those_it_covers() -> None:
    store = FakeStore()
    bases = compacted(store, SWAP)
    log = load(store, was_clean=True, recovery_point=80)
    assert log.segments.base_offsets == [bases[0], bases[1], *bases[3:]]
    assert (bases[1] + 2, bases[1] + 3) not in batch_offsets(store, 1000)
    assert log.log_end_offset == 80


def test_a_swap_beside_a_cleaned_file_was_not_complete_and_is_undone() -> None:
    store = FakeStore()
    bases = compacted(store, SWAP)
    store.replace(f"{bases[1]:020d}.txnindex{CLEANED}", b"")
    log = load(store, was_clean=True, recovery_point=80)
    assert log.segments.base_offsets == bases
    assert len(batch_offsets(store, 1000)) == 40


def test_a_crash_at_any_step_of_completing_a_swap_leads_to_the_same_log() -> None:
    store = FakeStore()
    compacted(store, SWAP)
    before = store.changes
    load(store, recovery_point=80)
    expected = batch_offsets(store, 1000)
    for step in range(1, store.changes - before + 1):
        store = FakeStore()
        compacted(store, SWAP)
        store.crash_at = store.changes + step
        with pytest.raises(Crashed):
            load(store, recovery_point=80)
        store.lose_power(Random(step))
        load(store, recovery_point=80)
        assert batch_offsets(store, 1000) == expected


def test_snapshots_that_belong_to_no_segment_are_removed_but_the_newest() -> None:
    store = FakeStore()
    closed(store)
    store.replace(f"{3:020d}.snapshot", store.read(f"{60:020d}.snapshot"))
    load(store, config=SMALL, was_clean=True, recovery_point=60)
    assert f"{3:020d}.snapshot" not in store.sizes()
    assert f"{60:020d}.snapshot" in store.sizes()


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_log_of_an_old_message_format_is_refused_and_nothing_of_it_is_changed(magic: int, was_clean: bool) -> None:
    store = FakeStore()
    log_file = store.open(f"{BASE_0}.log", create=True)
    log_file.write_at([old_messages(magic, [b"first", b"second"])], 0)
    store.open(f"{BASE_0}.index.deleted", create=True)
    before = {name: store.read(name) for name in store.sizes()}
    with pytest.raises(OldMessageFormat, match="at byte 0"):
        load(store, was_clean=was_clean)
    assert {name: store.read(name) for name in store.sizes()} == before


@pytest.mark.parametrize("was_clean", [True, False])
def test_an_old_message_behind_batches_of_today_does_not_end_the_log(was_clean: bool) -> None:
    store = FakeStore()
    log = load(store)
    append(log, batch(2))
    log.close()
    name = f"{BASE_0}.log"
    today = store.read(name)
    store.open(name).write_at([old_messages(1, [b"old"])], len(today))
    before = store.read(name)
    with pytest.raises(OldMessageFormat, match=f"at byte {len(today)}"):
        load(store, was_clean=was_clean)
    assert store.read(name) == before
