"""Many logs are closed at a clean stop: all of them synced, and one that fails costs the others nothing."""

import shutil

import pytest

from kafkad.processes.worker.closing import close_logs
from kafkad.processes.worker.owned import OwnedPartition
from tests.processes.pieces import TOPIC, Pieces
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
    assert close_logs(owned, pieces.worker.publish, lambda done, of: heard.append((done, of)))
    assert {pieces.table.read(each.slot).recovery_point for each in owned} == {1}
    assert heard == [(0, PARTITIONS)]
    for each in owned:
        assert (pieces.directory("many", each.name.partition) / "00000000000000000001.snapshot").exists()


@pytest.mark.parametrize("lost", [0, PARTITIONS - 1])
def test_log_that_can_not_be_closed_is_said_and_the_others_are_closed(
    pieces: Pieces, owned: list[OwnedPartition], caplog: pytest.LogCaptureFixture, lost: int
) -> None:
    shutil.rmtree(pieces.directory("many", owned[lost].name.partition))
    assert not close_logs(owned, pieces.worker.publish, lambda _done, _of: None)
    assert len([record for record in caplog.records if "can't be closed" in record.getMessage()]) == 1
    synced = [pieces.table.read(each.slot).recovery_point for each in owned]
    assert synced == [0 if at == lost else 1 for at in range(PARTITIONS)]
