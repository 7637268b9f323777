"""Many logs are closed at a clean stop: all of them synced, and one that fails costs the others nothing."""

import shutil

import pytest

from kafkad.adapters.files import segment_files
from kafkad.adapters.links.supervision_channel import Stopped
from kafkad.processes.worker import loop as worker_loop
from kafkad.processes.worker.closing import AT_A_TIME, close_logs
from kafkad.processes.worker.owned import OwnedPartition
from tests.processes.pieces import TOPIC, WORKER, Pieces
from tests.simulation.disk import SimulatedDisk, Trouble
from tests.simulation.scheduler import Scheduler
from tests.tools.raw_requests import batch, produce, read_produced

PARTITIONS = 100


@pytest.fixture
def owned(pieces: Pieces) -> list[OwnedPartition]:
    """A hundred partitions with a record each that is on no disk yet."""
    pieces.create_topic("many", PARTITIONS)
    pieces.run_until_online("many")
    pieces.run_until_known()
    client = pieces.connect()
    for partition in range(PARTITIONS):
        assert read_produced(client.ask(produce({("many", partition): batch()})))["many", partition].error == 0
    return [each for each in pieces.worker.partitions.by_slot.values() if each.name.topic != TOPIC]


def test_every_log_is_synced_and_its_slot_says_so(pieces: Pieces, owned: list[OwnedPartition]) -> None:
    heard: list[tuple[int, int]] = []
    assert {pieces.table.read(each.slot).recovery_point for each in owned} == {0}
    assert close_logs(owned, pieces.worker.slots, lambda done, of: heard.append((done, of)))
    assert {pieces.table.read(each.slot).recovery_point for each in owned} == {1}
    assert heard == [(0, PARTITIONS), (AT_A_TIME, PARTITIONS)]
    for each in owned:
        assert (pieces.directory("many", each.name.partition) / "00000000000000000001.snapshot").exists()


@pytest.mark.parametrize("lost", [0, PARTITIONS - 1])
def test_log_that_can_not_be_closed_is_said_and_the_others_are_closed(
    pieces: Pieces, owned: list[OwnedPartition], caplog: pytest.LogCaptureFixture, lost: int
) -> None:
    shutil.rmtree(pieces.directory("many", owned[lost].name.partition))
    assert not close_logs(owned, pieces.worker.slots, lambda _done, _of: None)
    assert len([record for record in caplog.records if "cannot close" in record.getMessage()]) == 1
    synced = [pieces.table.read(each.slot).recovery_point for each in owned]
    assert synced == [0 if at == lost else 1 for at in range(PARTITIONS)]


def stop(pieces: Pieces) -> Stopped:
    """The worker is told to stop, and does; what it said last."""
    pieces.stop(WORKER, deadline_ms=0)
    pieces.run(lambda: pieces.incarnations[WORKER].strand.is_over, "the worker stops")
    *_, last = pieces.heard_from(WORKER)
    assert isinstance(last, Stopped)
    return last


def test_a_stop_while_something_loads_closes_the_others_and_is_not_called_clean(
    pieces: Pieces, owned: list[OwnedPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces.kill(WORKER)
    monkeypatch.setattr(worker_loop, "STEP_S", 1e-6)
    pieces.begin(WORKER)
    by_slot = pieces.worker.partitions.by_slot
    client = pieces.connect()
    pieces.run(lambda: sum(each.is_online for each in by_slot.values()) > 10, "some are loaded")
    first = next(each for each in by_slot.values() if each.is_online and each.name.topic != TOPIC)
    client.send(produce({(str(first.name.topic), first.name.partition): batch()}))
    pieces.run(lambda: pieces.table.read(first.slot).leo_offset == 2, "one more record is in the log")
    assert not pieces.worker.loader.is_idle
    assert not stop(pieces).is_clean
    assert pieces.table.read(first.slot).recovery_point == 2


def test_what_could_not_be_recovered_is_not_called_clean(pieces: Pieces, owned: list[OwnedPartition]) -> None:
    pieces.kill(WORKER)
    (pieces.directory("many", 7) / "00000000000000000000.log").write_bytes(b"")
    pieces.begin(WORKER)
    pieces.run_until_online(TOPIC)
    pieces.run(lambda: pieces.worker.loader.is_idle, "everything is loaded")
    lost = next(each for each in pieces.worker.partitions.by_slot.values() if each.name == owned[7].name)
    assert lost.log is None
    assert not stop(pieces).is_clean


def test_nothing_is_synced_in_a_directory_that_has_failed(
    pieces: Pieces, owned: list[OwnedPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces.worker.outbox.log_dir_failed(0, "a test")
    disk = SimulatedDisk(Scheduler(0))
    monkeypatch.setattr(segment_files, "os", disk)
    disk.trouble(pieces.directory("many", 0).parent, Trouble.BROKEN)
    assert stop(pieces).is_clean
    assert {pieces.table.read(each.slot).recovery_point for each in owned} == {0}
