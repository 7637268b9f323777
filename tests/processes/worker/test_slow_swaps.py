"""A compacted log on a slow disk: clients go on while the directory is synced, and what changes meanwhile holds."""

import threading
from collections.abc import Callable, Iterator

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.files import atomic_write
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.segments.removal import delete_records_before, truncate_to
from kafkad.core.ports import StorageFailed
from kafkad.wire.processes.cleaning_messages import NO_GRANT
from tests.core.cleaning.naive import read_batches
from tests.processes.pieces import TOPIC, WORKER, Client, Pieces
from tests.processes.worker.played_cleaner import CLEANER, NOW, Cleaner, log_of
from tests.tools.raw_requests import fetch, produce, read_fetched, read_produced


class SlowDirectory:
    """Syncs of a directory last until they are let through, from the moment at which it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._lets_through = threading.Semaphore(0)
        self._monkeypatch = monkeypatch
        self._sync = atomic_write.sync_directory
        self.begun: list[str] = []
        self.fails = False

    def be_slow(self) -> None:
        self._monkeypatch.setattr(atomic_write, "sync_directory", self._slow)

    def let_through(self, count: int = 1) -> None:
        self._lets_through.release(count)

    def _slow(self, path: str) -> None:
        self.begun.append(path)
        assert self._lets_through.acquire(timeout=WITHIN_S)
        if self.fails:
            raise StorageFailed(f"{path}: told to fail")
        self._sync(path)


@pytest.fixture
def pieces(make_pieces: Callable[..., Pieces]) -> Pieces:
    return make_pieces(log_cleanup_policy="compact")


@pytest.fixture
def cleaner(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cleaner]:
    played = Cleaner(pieces, monkeypatch)
    yield played
    played.close()


@pytest.fixture
def disk(pieces: Pieces, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDirectory]:
    disk = SlowDirectory(monkeypatch)
    yield disk
    disk.let_through(1000)


def write(pieces: Pieces, client: Client, *values: str) -> None:
    for value in values:
        data = build_batch([NewRecord(NOW, value[:1].encode(), value.encode())])
        assert read_produced(client.ask(produce({(TOPIC, 0): data})))[TOPIC, 0].error == 0


def read(client: Client, end: int, offset: int = 0) -> list[str]:
    values: list[str] = []
    while offset < end:
        records = read_fetched(client.ask(fetch({(TOPIC, 0): offset})))[TOPIC, 0].records
        for batch in read_batches(records):
            values += [(row.value or b"").decode() for row in batch.rows if row.offset >= offset]
            offset = batch.last_offset + 1
    return values


def begin(pieces: Pieces, cleaner: Cleaner, client: Client, disk: SlowDirectory) -> None:
    """a1, b1 and a2 in a sealed segment, a3 in the active one; a swap waits for its first sync."""
    write(pieces, client, "a1", "b1", "a2")
    log = log_of(pieces)
    log.roll(log.log_end_offset, NOW)
    log.flush()
    pieces.worker.outbox.touched(pieces.worker.partitions.by_slot[pieces.slot()])
    write(pieces, client, "a3")
    pieces.settle()
    steps = cleaner.steps(cleaner.ask(3), 3)
    cleaner.until_written(steps)
    disk.be_slow()
    cleaner.until_swap(steps)
    pieces.run(lambda: disk.begun, "the directory is synced")


def test_clients_go_on_while_the_directory_is_synced(pieces: Pieces, cleaner: Cleaner, disk: SlowDirectory) -> None:
    client = pieces.connect()
    begin(pieces, cleaner, client, disk)
    assert read(client, 4) == ["a1", "b1", "a2", "a3"]
    write(pieces, client, "c1")
    assert log_of(pieces).rewrites == 0
    disk.let_through()
    pieces.run(lambda: len(disk.begun) > 1, "the names are synced again")
    assert log_of(pieces).rewrites == 1
    assert read(client, 5) == ["b1", "a2", "a3", "c1"]
    assert not cleaner.answers, "what it is told has to be on disk"
    disk.let_through()
    assert cleaner.swapped()


def test_a_log_that_is_truncated_meanwhile_is_not_swapped(
    pieces: Pieces, cleaner: Cleaner, disk: SlowDirectory
) -> None:
    client = pieces.connect()
    begin(pieces, cleaner, client, disk)
    disk.let_through(1000)
    truncate_to(log_of(pieces), 1, NOW)
    assert begun_files(pieces) == []
    assert not cleaner.swapped()


def begun_files(pieces: Pieces) -> list[str]:
    return [name for name in log_of(pieces).store.names() if name.endswith((".swap", ".cleaned"))]


def test_segments_that_are_deleted_meanwhile_are_not_swapped(
    pieces: Pieces, cleaner: Cleaner, disk: SlowDirectory
) -> None:
    client = pieces.connect()
    begin(pieces, cleaner, client, disk)
    disk.let_through(1000)
    delete_records_before(log_of(pieces), 3)
    pieces.worker.outbox.touched(pieces.worker.partitions.by_slot[pieces.slot()])
    assert not cleaner.swapped()
    assert begun_files(pieces) == []
    assert read(client, 4, 3) == ["a3"]


def test_a_topic_that_is_deleted_meanwhile_is_not_swapped(
    pieces: Pieces, cleaner: Cleaner, disk: SlowDirectory
) -> None:
    begin(pieces, cleaner, pieces.connect(), disk)
    pieces.delete_topic(TOPIC)
    pieces.turn(WORKER)
    disk.let_through(1000)
    assert not cleaner.swapped()


def test_a_directory_that_fails_takes_its_partitions_with_it(
    pieces: Pieces, cleaner: Cleaner, disk: SlowDirectory
) -> None:
    begin(pieces, cleaner, pieces.connect(), disk)
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    disk.fails = True
    disk.let_through()
    assert not cleaner.swapped()
    pieces.run(lambda: not owned.is_online, "the directory is offline")


def test_a_second_pass_waits_for_a_swap_whose_cleaner_is_gone(
    pieces: Pieces, cleaner: Cleaner, disk: SlowDirectory
) -> None:
    client = pieces.connect()
    begin(pieces, cleaner, client, disk)
    pieces.worker.cleanings.cleaner_lost(CLEANER)
    assert cleaner.ask(3).grant == NO_GRANT
    disk.let_through(1000)
    assert not cleaner.swapped()
    assert cleaner.ask(3).grant != NO_GRANT
    assert read(client, 4) == ["a1", "b1", "a2", "a3"]
