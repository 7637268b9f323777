"""A partition that is moved to another log directory while clients use it, and processes die."""

import errno
import itertools
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from kafkad.adapters.files.moved_directory import MOVED_FROM
from kafkad.core.controller.deltas import PartitionsChanged
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.segments.removal import delete_records_before, truncate_to
from kafkad.core.partition_slot import STATE_OFFLINE, STATE_ONLINE
from kafkad.core.ports import StorageFailed
from kafkad.core.types import FreeSpace
from kafkad.processes.worker.disks.disk_space import DiskSpace
from kafkad.processes.worker.moving import moves, old_directories
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.cleaning_messages import CleaningRequest
from kafkad.wire.processes.controller_messages import LogDirFailed, PartitionMoved
from tests.core.cleaning.naive import read_batches
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Client, Pieces
from tests.tools.raw_requests import fetch, produce, read_fetched, read_produced

NOW = 1_700_000_000_000
ONE, TWO, THREE = 0, 1, 2


@pytest.fixture
def pieces(make_pieces: Callable[..., Pieces], tmp_path: Path) -> Pieces:
    return make_pieces(log_dirs=",".join(str(tmp_path / name) for name in ("one", "two", "three")))


def ask(pieces: Pieces, target: int, log_dir: int | None = None) -> None:
    """What the controller says when a client asks for it; -1 for no move."""
    row = pieces.image.topics[TOPIC].partitions[0]
    changed = structs.replace(row, future_dir=target, log_dir=row.log_dir if log_dir is None else log_dir)
    pieces.publish(PartitionsChanged(TOPIC, (changed,)))


def until_moved(pieces: Pieces, target: int) -> None:
    """As the controller does, it takes note of the end."""
    pieces.run(lambda: moved(pieces, target), f"the partition is in directory {target}")
    ask(pieces, -1, target)
    pieces.run_until_known()
    pieces.settle()
    assert pieces.published().future_dir == -1


def moved(pieces: Pieces, target: int) -> bool:
    said = [message for message in pieces.heard if isinstance(message, PartitionMoved)]
    return any(message.log_dir == target for message in said)


def directory(pieces: Pieces, log_dir: int) -> Path:
    return Path(pieces.config.log_dirs.log_dirs[log_dir])


def names(pieces: Pieces, log_dir: int) -> list[str]:
    """Directories of the partition."""
    return sorted(each.name for each in directory(pieces, log_dir).glob(f"{TOPIC}-0*"))


def owned_of(pieces: Pieces) -> OwnedPartition:
    return pieces.worker.partitions.by_slot[pieces.slot()]


def log_of(pieces: Pieces) -> PartitionLog:
    partition_log = owned_of(pieces).log
    assert partition_log is not None
    return partition_log


def write(client: Client, *values: str) -> None:
    for value in values:
        data = build_batch([NewRecord(NOW, b"k", value.encode())])
        assert read_produced(client.ask(produce({(TOPIC, 0): data})))[TOPIC, 0].error == 0


def roll(pieces: Pieces) -> None:
    partition_log = log_of(pieces)
    partition_log.roll(partition_log.log_end_offset, NOW)
    pieces.worker.outbox.touched(owned_of(pieces))
    pieces.settle()


def read(client: Client, end: int, offset: int = 0) -> list[str]:
    values: list[str] = []
    while offset < end:
        records = read_fetched(client.ask(fetch({(TOPIC, 0): offset})))[TOPIC, 0].records
        for batch in read_batches(records):
            values += [(row.value or b"").decode() for row in batch.rows if row.offset >= offset]
            offset = batch.last_offset + 1
    return values


def filled(pieces: Pieces, client: Client) -> list[str]:
    """Three segments, of which the last is active."""
    values = [f"v{number}" for number in range(6)]
    for first in (0, 2, 4):
        write(client, *values[first : first + 2])
        if first < 4:
            roll(pieces)
    return values


def test_a_partition_is_moved_while_it_is_written_and_read(pieces: Pieces) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    assert read(client, 6) == values
    ask(pieces, TWO)
    write(client, "while", "it", "moves")
    until_moved(pieces, TWO)
    write(client, "after")
    expected = [*values, "while", "it", "moves", "after"]
    assert read(client, 10) == expected
    assert (names(pieces, TWO), pieces.published().log_dir) == (["t-0"], TWO)
    pieces.run(lambda: not names(pieces, ONE), "the old directory is removed")
    pieces.run(lambda: not (directory(pieces, TWO) / "t-0" / MOVED_FROM).exists(), "where it came from is forgotten")


def test_where_a_partition_came_from_is_known_until_the_controller_has_heard(pieces: Pieces) -> None:
    """A worker that died before took the old directory, which was gone, for the partition's: it was offline."""
    client = pieces.connect()
    values = filled(pieces, client)
    ask(pieces, TWO)
    pieces.run(lambda: moved(pieces, TWO), "the move is over")
    pieces.replace(WORKER)
    pieces.run_until_online()
    assert read(client, 6) == values
    until_moved(pieces, TWO)


def test_the_moved_partition_is_there_after_the_worker_died(pieces: Pieces) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    ask(pieces, TWO)
    until_moved(pieces, TWO)
    write(client, "after")
    pieces.replace(WORKER)
    pieces.run_until_online()
    assert read(client, 7) == [*values, "after"]


def test_how_far_it_has_come_is_published(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(pieces, pieces.connect())
    monkeypatch.setattr(pieces.worker.moves, "_complete", lambda copy: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().future_end == 6, "all is copied")
    published = pieces.published()
    assert (published.log_dir, published.future_dir) == (ONE, TWO)
    assert published.future_bytes == published.size_bytes


def test_nothing_is_copied_while_the_rate_is_zero(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(pieces, pieces.connect())
    monkeypatch.setattr(pieces.worker.moves, "_rate", 0)
    ask(pieces, TWO)
    pieces.run(lambda: names(pieces, TWO), "the move has begun")
    pieces.settle()
    assert not [*(directory(pieces, TWO) / names(pieces, TWO)[0]).glob("*.log")]
    assert pieces.worker.moves.next_deadline_ms is not None


def test_small_pieces_are_spaced_out_by_the_rate(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pieces.connect()
    filled(pieces, client)
    size = log_of(pieces).size_bytes
    steps, resume = itertools.count(), pieces.worker.moves._resume

    def counted(copy: moves._Copy, now_ms: int) -> None:
        next(steps)
        resume(copy, now_ms)

    monkeypatch.setattr(pieces.worker.moves, "_rate", size // 2)
    monkeypatch.setattr(pieces.worker.moves, "_resume", counted)
    ask(pieces, TWO)
    until_moved(pieces, TWO)
    assert next(steps) > 3


def test_naming_the_present_directory_ends_the_move(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    monkeypatch.setattr(pieces.worker.moves, "_complete", lambda copy: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().future_end == 6, "all is copied")
    ask(pieces, -1)
    pieces.run_until_known()
    monkeypatch.undo()
    pieces.run(lambda: not names(pieces, TWO), "the copy is removed")
    assert pieces.published().future_dir == -1
    assert (names(pieces, ONE), read(client, 6)) == (["t-0"], values)


def test_another_target_in_mid_move(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    monkeypatch.setattr(pieces.worker.moves, "_complete", lambda copy: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().future_end == 6, "all is copied")
    ask(pieces, THREE)
    pieces.run_until_known()
    monkeypatch.undo()
    until_moved(pieces, THREE)
    pieces.run(lambda: not names(pieces, TWO) and not names(pieces, ONE), "the others are removed")
    assert read(client, 6) == values


def test_back_and_forth(pieces: Pieces) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    for number, target in enumerate((TWO, THREE, ONE, TWO)):
        pieces.heard.clear()
        ask(pieces, target)
        until_moved(pieces, target)
        write(client, f"w{number}")
        values.append(f"w{number}")
    assert read(client, len(values)) == values


def test_a_topic_deleted_in_mid_move_leaves_nothing(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(pieces, pieces.connect())
    monkeypatch.setattr(pieces.worker.moves, "_complete", lambda copy: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().future_end == 6, "all is copied")
    pieces.delete_topic(TOPIC)
    pieces.run(lambda: not names(pieces, TWO), "the copy is removed")
    pieces.settle()
    assert "t-0" not in names(pieces, ONE)


def test_a_topic_deleted_right_after_the_move_leaves_no_name_behind(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers may still have the old directory; a new topic of the name needs it."""
    filled(pieces, pieces.connect())
    monkeypatch.setattr(pieces.worker.moves._old_directories, "tick", lambda now_ms: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().log_dir == TWO, "the partition is there")
    assert names(pieces, ONE) == ["t-0"]
    pieces.delete_topic(TOPIC)
    pieces.run(lambda: "t-0" not in names(pieces, ONE) + names(pieces, TWO), "both names are free")


def test_a_truncation_in_mid_move_begins_the_copy_anew(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    monkeypatch.setattr(pieces.worker.moves, "_complete", lambda copy: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().future_end == 6, "all is copied")
    truncate_to(log_of(pieces), 5, NOW)
    pieces.worker.outbox.touched(owned_of(pieces))
    monkeypatch.undo()
    until_moved(pieces, TWO)
    write(client, "again")
    assert read(client, 6) == [*values[:5], "again"]


def test_records_deleted_in_mid_move_stay_deleted(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    monkeypatch.setattr(pieces.worker.moves, "_complete", lambda copy: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().future_end == 6, "all is copied")
    for effect in delete_records_before(log_of(pieces), 3):
        pieces.worker.outbox.remove_later(owned_of(pieces), effect)
    pieces.worker.outbox.touched(owned_of(pieces))
    monkeypatch.undo()
    until_moved(pieces, TWO)
    assert log_of(pieces).log_start_offset == 3
    assert read(client, 6, offset=3) == values[3:]
    logs = [each.name for each in (directory(pieces, TWO) / "t-0").glob("*.log")]
    assert sorted(logs) == ["00000000000000000002.log", "00000000000000000004.log"]


def test_no_compaction_while_it_is_moved(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(pieces, pieces.connect())
    log_of(pieces).update_config(replace(log_of(pieces).config, cleanup_policy=frozenset({"compact"})))
    log_of(pieces).flush()
    monkeypatch.setattr(pieces.worker.moves, "_complete", lambda copy: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().future_end == 6, "all is copied")
    owned = owned_of(pieces)
    cleanings = pieces.worker.cleanings
    pieces.worker.cleanings._grant(NETWORK, CleaningRequest(owned.slot, owned.short_id, "compact", 0, 4))
    assert not cleanings._grants


def test_a_target_without_room_keeps_the_partition_where_it_is(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    monkeypatch.setattr(pieces.worker.disk_space, "min_free_bytes", lambda _total_bytes: 1 << 60)
    ask(pieces, TWO)
    pieces.run(lambda: moved(pieces, ONE), "the move is given up")
    assert [row for row in caplog.records if row.levelno == logging.ERROR and "cannot move" in row.message]
    assert (names(pieces, TWO), pieces.published().future_dir) == ([], -1)
    assert read(client, 6) == values


@pytest.mark.parametrize("name", ["copy_bytes", "copy_small_files", "complete_copy", "rename_future", "create_future"])
def test_a_target_that_fails_keeps_the_partition_where_it_is(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    client = pieces.connect()
    values = filled(pieces, client)

    def fail(*_: object, **__: object) -> None:
        raise StorageFailed("told to fail")

    monkeypatch.setattr(moves, name, fail)
    ask(pieces, TWO)
    pieces.run(lambda: moved(pieces, ONE), "the move is given up")
    ask(pieces, -1)
    pieces.run(lambda: not names(pieces, TWO), "nothing is left of it")
    write(client, "after")
    assert read(client, 7) == [*values, "after"]


STEPS = ["create_future", "copy_bytes", "copy_small_files", "complete_copy", "rename_future", "mark_for_deletion"]


@pytest.mark.parametrize("name", STEPS)
def test_a_worker_that_dies_before_any_step_leaves_a_move_that_its_next_life_ends(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    revive = die_before(pieces, monkeypatch, name)
    ask(pieces, TWO)
    with pytest.raises(Killed):
        pieces.run(lambda: False, "the worker dies")
    pieces.kill(WORKER)
    revive()
    pieces.begin(WORKER)
    until_moved(pieces, TWO)
    pieces.run(lambda: "t-0" not in names(pieces, ONE), "the old name is free")
    write(client, "after")
    assert read(client, 7) == [*values, "after"]
    assert "t-0" in names(pieces, TWO) and not [name for name in names(pieces, TWO) if name.endswith("-future")]


class Killed(Exception):
    """The worker is not turned any more."""


def die_before(pieces: Pieces, monkeypatch: pytest.MonkeyPatch, name: str) -> Callable[[], None]:
    def die(*_: object, **__: object) -> None:
        raise Killed

    calls = iter(range(10))
    module = old_directories if hasattr(old_directories, name) else moves
    real = getattr(module, name)

    def later(*args: object, **kwargs: object) -> object:
        # The first sets aside what there may be of an earlier attempt.
        if next(calls):
            raise Killed
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, later if name == "mark_for_deletion" else die)
    return monkeypatch.undo


def test_a_worker_that_dies_between_the_names_leaves_two_of_which_the_new_one_counts(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    real = os.rename

    def die_after(source: object, target: object) -> None:
        real(str(source), str(target))
        if str(target).endswith("/t-0"):
            raise Killed

    monkeypatch.setattr(os, "rename", die_after)
    ask(pieces, TWO)
    with pytest.raises(Killed):
        pieces.run(lambda: False, "the worker dies")
    pieces.kill(WORKER)
    monkeypatch.undo()
    assert "t-0" in names(pieces, ONE) and "t-0" in names(pieces, TWO)
    pieces.begin(WORKER)
    until_moved(pieces, TWO)
    pieces.run(lambda: not names(pieces, ONE), "the old directory is removed")
    write(client, "after")
    assert read(client, 7) == [*values, "after"]


def test_a_controller_that_died_hears_of_the_move_again(pieces: Pieces) -> None:
    filled(pieces, pieces.connect())
    ask(pieces, TWO)
    pieces.run(lambda: moved(pieces, TWO), "the partition is there")
    pieces.heard.clear()
    # Its next incarnation knows of the move only, not of its end.
    ask(pieces, TWO, ONE)
    pieces.run(lambda: moved(pieces, TWO), "it is told again")
    ask(pieces, -1, TWO)
    pieces.run_until_known()
    pieces.settle()
    assert not owned_of(pieces).is_moving


def test_acknowledged_batches_that_wait_for_the_disk_are_answered_after_the_move(
    make_pieces: Callable[..., Pieces], tmp_path: Path
) -> None:
    folders = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    pieces = make_pieces(log_dirs=folders, log_flush_interval_messages="1")
    client = pieces.connect()
    write(client, "a", "b")
    ask(pieces, TWO)
    write(client, "c", "d")
    until_moved(pieces, TWO)
    write(client, "e")
    assert read(client, 5) == ["a", "b", "c", "d", "e"]
    assert log_of(pieces).recovery_point == 5


def test_a_sync_of_the_old_directory_that_ends_after_the_move_costs_nothing(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is renamed by then: the partition was offline until the broker was restarted."""
    client = pieces.connect()
    written = filled(pieces, client)
    pieces.run(lambda: not pieces.worker.upkeep._syncing, "no sync is under way")
    syncs: list[Future[None]] = []

    def held(_work: object) -> Future[None]:
        syncs.append(Future())
        return syncs[-1]

    with monkeypatch.context() as patch:
        patch.setattr(pieces.worker.upkeep._threads, "submit", held)
        log_of(pieces).request_flush(NOW)
        pieces.worker.upkeep.collect(owned_of(pieces))
        assert len(syncs) == 1
        ask(pieces, TWO)
        until_moved(pieces, TWO)
        syncs[0].set_exception(FileNotFoundError(errno.ENOENT, "no such directory"))
        pieces.settle()
    assert owned_of(pieces).is_online
    write(client, "more")
    assert read(client, 7) == [*written, "more"]


@pytest.mark.parametrize("target", [-1, THREE])
def test_a_move_that_is_ended_while_the_worker_is_dead_leaves_nothing(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch, target: int
) -> None:
    """The next start would take what it left for a move that goes on."""
    client = pieces.connect()
    values = filled(pieces, client)
    monkeypatch.setattr(pieces.worker.moves, "_complete", lambda copy: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().future_end == 6, "all is copied")
    pieces.kill(WORKER)
    monkeypatch.undo()
    ask(pieces, target)
    pieces.begin(WORKER)
    if target < 0:
        pieces.run_until_online()
    else:
        until_moved(pieces, target)
    pieces.run(lambda: not names(pieces, TWO), "the copy is removed")
    assert read(client, 6) == values


def test_what_an_earlier_move_has_left_is_forgotten_before_the_next_one(pieces: Pieces) -> None:
    """The worker died before it could: else two directories would each say that the other is of no use."""
    client = pieces.connect()
    values = filled(pieces, client)
    (directory(pieces, ONE) / "t-0" / MOVED_FROM).write_text(str(directory(pieces, TWO)))
    ask(pieces, TWO)
    pieces.run(lambda: not (directory(pieces, ONE) / "t-0" / MOVED_FROM).exists(), "it is forgotten")
    until_moved(pieces, TWO)
    assert read(client, 6) == values


def test_an_interrupted_move_goes_on_behind_the_segments_that_were_copied(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    monkeypatch.setattr(pieces.worker.moves, "_complete", lambda copy: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().future_end == 6, "all is copied")
    pieces.kill(WORKER)
    monkeypatch.undo()
    (folder,) = names(pieces, TWO)
    before = inodes(directory(pieces, TWO) / folder)
    pieces.begin(WORKER)
    until_moved(pieces, TWO)
    write(client, "after")
    assert read(client, 7) == [*values, "after"]
    after = inodes(directory(pieces, TWO) / "t-0")
    sealed = [f"{base:020d}.log" for base in (0, 2)]
    assert [after[name] for name in sealed] == [before[name] for name in sealed]


def inodes(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_ino for each in folder.glob("*.log")}


def test_a_resumed_move_needs_room_for_the_rest_alone(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    monkeypatch.setattr(pieces.worker.moves, "_complete", lambda copy: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().future_end == 6, "all is copied")
    size, active = log_of(pieces).size_bytes, log_of(pieces).segments.active.size
    pieces.kill(WORKER)
    monkeypatch.undo()
    monkeypatch.setattr(moves, "measure_free_space", lambda path: FreeSpace(free_bytes=size - 1, total_bytes=size))
    monkeypatch.setattr(DiskSpace, "min_free_bytes", lambda _self, _total_bytes: 0)
    assert active < size - 1
    pieces.begin(WORKER)
    until_moved(pieces, TWO)
    assert read(client, 6) == values


def test_a_resumed_move_that_fails_keeps_the_partition_where_it_is(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = pieces.connect()
    values = filled(pieces, client)
    monkeypatch.setattr(pieces.worker.moves, "_complete", lambda copy: None)
    ask(pieces, TWO)
    pieces.run(lambda: pieces.published().future_end == 6, "all is copied")
    pieces.kill(WORKER)
    monkeypatch.undo()

    def fail(*_: object) -> dict[str, int]:
        raise StorageFailed("told to fail")

    monkeypatch.setattr(moves, "find_copied", fail)
    pieces.begin(WORKER)
    pieces.run(lambda: moved(pieces, ONE), "the move is given up")
    ask(pieces, -1)
    pieces.run(lambda: not names(pieces, TWO), "nothing is left of it")
    assert read(client, 6) == values


def test_a_worker_that_starts_again_needs_no_other_log_directory(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks there for moves that the former incarnation has begun."""
    client = pieces.connect()
    write(client, "a")
    broken = str(directory(pieces, TWO))

    def failing(name: str) -> Callable[..., object]:
        real = getattr(os, name)

        def call(path: object, *rest: object, **named: object) -> object:
            if isinstance(path, str | Path) and str(path).startswith(broken):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(path, *rest, **named)

        return call

    for name in ("stat", "rename", "open"):
        monkeypatch.setattr(os, name, failing(name))
    pieces.replace(WORKER)
    pieces.run_until_online()
    assert read(pieces.connect(), 1) == ["a"]


def test_a_partition_may_be_where_its_note_of_a_move_can_not_be_read(pieces: Pieces) -> None:
    """It stays offline with the directory, and nothing is made in the one where it was."""
    note = directory(pieces, TWO) / f"{TOPIC}-0" / MOVED_FROM
    note.mkdir(parents=True)
    ask(pieces, TWO)
    pieces.replace(WORKER)
    pieces.run(lambda: any(isinstance(each, LogDirFailed) for each in pieces.heard), "the controller is told")
    pieces.run_until_known()
    pieces.settle()
    assert [each.log_dir for each in pieces.heard if isinstance(each, LogDirFailed)] == [TWO]
    assert [pieces.published(partition=each).state for each in range(2)] == [STATE_OFFLINE, STATE_ONLINE]
