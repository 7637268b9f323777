"""flush.messages, and kafkad.log.flush.acks for all topics: a record is acknowledged and seen when it is on disk, and
one sync is for all that came before it.
"""

import threading
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.files import segment_files
from kafkad.adapters.files.segment_files import SegmentFile
from kafkad.core.controller.deltas import PartitionsChanged
from kafkad.core.errors import ErrorCode
from kafkad.core.log.settings import LogConfig
from kafkad.core.metrics.catalogue import LOG_FLUSHES
from kafkad.core.partition_slot import STATE_OFFLINE
from kafkad.wire.processes.controller_messages import LogDirFailed
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Client, Pieces
from tests.simulation.disk import SimulatedDisk, Trouble
from tests.simulation.scheduler import Scheduler
from tests.tools.raw_requests import batch, delete_records, fetch, produce, read_fetched, read_produced

OTHER = 9
"""The id of another broker."""


class SlowDisk(SimulatedDisk):
    """Syncs last until they are let through."""

    def __init__(self) -> None:
        super().__init__(Scheduler(0))
        self.lets_through = threading.Event()
        self.lets_through.set()
        self._waiting: set[int] = set()
        """Of threads."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def fsync(self, fd: int) -> None:
        self._waiting.add(threading.get_ident())
        assert self.lets_through.wait(WITHIN_S)
        self._waiting.discard(threading.get_ident())
        super().fsync(fd)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    disk = SlowDisk()
    monkeypatch.setattr(segment_files, "os", disk)
    yield disk
    disk.lets_through.set()


OPTIONS = [{"log_flush_interval_messages": "1"}, {"kafkad_log_flush_acks": "true"}]


@pytest.fixture(params=OPTIONS, ids=["flush.messages", "flush.acks"])
def pieces(make_pieces: Callable[..., Pieces], disk: SlowDisk, request: pytest.FixtureRequest) -> Pieces:
    """In this order: the end of the pieces waits for syncs under way, which the end of the disk lets through."""
    return make_pieces(**request.param)


def sent(pieces: Pieces, disk: SlowDisk, *, acks: int = 1, partition: int = 0) -> Client:
    """A client whose record is in the log, and is not on disk for now."""
    client = pieces.connect()
    end = pieces.published(partition=partition).leo_offset
    client.send(produce({(TOPIC, partition): batch()}, acks=acks, timeout_ms=1))
    pieces.run(
        lambda: pieces.published(partition=partition).leo_offset == end + 1 and disk.waiting, "the record is in the log"
    )
    return client


def error(client: Client, partition: int = 0) -> int:
    return read_produced(client.reply())[TOPIC, partition].error


@pytest.mark.parametrize("acks", [1, -1])
def test_a_record_is_acknowledged_and_seen_when_it_is_on_disk(pieces: Pieces, disk: SlowDisk, acks: int) -> None:
    disk.lets_through.clear()
    client = sent(pieces, disk, acks=acks)
    reader = pieces.connect()
    pieces.settle()
    assert not client.replies
    assert pieces.published().hw_offset == 0
    assert read_fetched(reader.ask(fetch({(TOPIC, 0): 0}, min_bytes=0)))[TOPIC, 0].records == b""
    reader.send(fetch({(TOPIC, 0): 0}, max_wait_ms=int(1000 * WITHIN_S)))
    disk.lets_through.set()
    assert error(client) == 0
    assert read_fetched(reader.reply())[TOPIC, 0].records
    assert (pieces.published().hw_offset, pieces.published().recovery_point) == (1, 1)


def test_other_partitions_are_served_while_one_waits_for_the_disk(pieces: Pieces, disk: SlowDisk) -> None:
    disk.lets_through.clear()
    waiting = sent(pieces, disk)
    other = pieces.worker.partitions.by_slot[pieces.slot(partition=1)].log
    assert other is not None
    other.update_config(LogConfig())
    client = pieces.connect()
    assert read_produced(client.ask(produce({(TOPIC, 1): batch()})))[TOPIC, 1].error == 0
    assert not waiting.replies


def test_one_sync_is_for_all_that_came_before_it(pieces: Pieces, disk: SlowDisk) -> None:
    disk.lets_through.clear()
    first = sent(pieces, disk)
    others = [pieces.connect() for _ in range(30)]
    for number, client in enumerate(others):
        client.send(produce({(TOPIC, 0): batch()}))
        pieces.run(lambda end=number + 2: pieces.published().leo_offset == end, "it is in the log")  # type: ignore[misc]
    disk.lets_through.set()
    assert error(first) == 0
    assert [error(client) for client in others] == [0] * len(others)
    assert pieces.worker._block[LOG_FLUSHES] == 2


def test_a_request_for_two_partitions_waits_for_both(pieces: Pieces, disk: SlowDisk) -> None:
    disk.lets_through.clear()
    client = pieces.connect()
    client.send(produce({(TOPIC, 0): batch(), (TOPIC, 1): batch()}, acks=-1, timeout_ms=1))
    pieces.run(lambda: disk.waiting == 2, "both are synced at the same time")
    disk.lets_through.set()
    read = read_produced(client.reply())
    assert [(read[TOPIC, each].error, read[TOPIC, each].base_offset) for each in (0, 1)] == [(0, 0), (0, 0)]


@pytest.mark.parametrize("acks", [1, -1])
def test_who_waits_for_a_disk_that_fails_hears_so(pieces: Pieces, disk: SlowDisk, acks: int) -> None:
    disk.lets_through.clear()
    client = sent(pieces, disk, acks=acks)
    disk.trouble(pieces.directory().parent, Trouble.UNSYNCABLE)
    disk.lets_through.set()
    assert error(client) == ErrorCode.KAFKA_STORAGE_ERROR
    assert (pieces.published().state, pieces.published().hw_offset) == (STATE_OFFLINE, 0)
    pieces.run(lambda: any(isinstance(message, LogDirFailed) for message in pieces.heard), "the controller is told")


def test_who_waits_for_the_disk_hears_that_the_topic_was_deleted(pieces: Pieces, disk: SlowDisk) -> None:
    disk.lets_through.clear()
    client = sent(pieces, disk)
    pieces.delete_topic(TOPIC)
    pieces.settle()
    disk.lets_through.set()
    assert error(client) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("leads_again", [False, True], ids=["another leader", "leader again"])
def test_a_leader_that_is_replaced_acknowledges_no_record_that_waits_for_the_disk(
    pieces: Pieces, disk: SlowDisk, acks: int, leads_again: bool
) -> None:
    """As a follower it may truncate the record, and reach the same offset with another one."""
    disk.lets_through.clear()
    client = sent(pieces, disk, acks=acks)
    row = pieces.image.topics[TOPIC].partitions[0]
    pieces.publish(PartitionsChanged(TOPIC, (replace(row, leader=OTHER, leader_epoch=1),)), to=(WORKER,))
    if leads_again:
        # The worker receives both in one pass.
        pieces.publish(PartitionsChanged(TOPIC, (replace(row, leader_epoch=2),)), to=(WORKER,))
    assert error(client) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_nobody_is_told_of_a_record_of_a_dead_network_process(pieces: Pieces, disk: SlowDisk) -> None:
    disk.lets_through.clear()
    sent(pieces, disk)
    pieces.kill(NETWORK)
    pieces.tell_roster()
    pieces.turn(WORKER)
    disk.lets_through.set()
    pieces.run(lambda: pieces.published().hw_offset == 1, "the record is on disk")
    assert not pieces.worker.appender._unflushed


def test_records_that_wait_for_the_disk_can_not_be_deleted(pieces: Pieces, disk: SlowDisk) -> None:
    disk.lets_through.clear()
    waiting = sent(pieces, disk)
    client = pieces.connect()
    answer = client.ask(delete_records(TOPIC, 0, 1))
    assert ErrorCode.OFFSET_OUT_OF_RANGE.to_bytes(2, "big") in answer[-3:]
    disk.lets_through.set()
    assert error(waiting) == 0


def test_a_file_is_synced_through_the_descriptor_that_wrote_it(
    pieces: Pieces, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of a write that failed later to those who had the file open then."""
    synced: list[int] = []
    monkeypatch.setattr(disk, "fsync", synced.append)
    client = pieces.connect()
    assert read_produced(client.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0
    partition_log = pieces.worker.partitions.by_slot[pieces.slot()].log
    assert partition_log is not None
    file = partition_log.segments.active.log
    assert isinstance(file, SegmentFile)
    assert file.fd in synced
    assert file.pins == 0


def test_what_a_dead_worker_has_not_synced_is_on_disk_before_the_next_one_shows_it(
    pieces: Pieces, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be gone after a power loss, when somebody has read it or a coordinator has acted on it."""
    disk.lets_through.clear()
    sent(pieces, disk)
    disk.trouble(pieces.directory().parent, Trouble.UNSYNCABLE)
    disk.lets_through.set()
    pieces.kill(WORKER)
    disk.heal()
    synced: list[int] = []
    monkeypatch.setattr(disk, "fsync", lambda _fd: synced.append(pieces.published().hw_offset))
    pieces.begin(WORKER)
    pieces.run(lambda: pieces.published().hw_offset == 1, "the record is shown")
    assert synced
    assert set(synced) == {0}
