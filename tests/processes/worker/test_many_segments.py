"""A partition of very many segments: they are described and removed in steps, and others produce in between."""

from threading import Event

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.segments.removal import SEGMENTS_PER_STEP, remove_files
from kafkad.processes.runtime.turns import Turns
from kafkad.processes.worker import upkeep
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.descriptors import CleanupOrdered, SegmentsDescribed, SegmentsRequest, unpack_control
from tests.processes.pieces import NETWORK, TOPIC, Pieces
from tests.processes.sent_frames import SentFrames
from tests.tools.raw_requests import batch, produce, read_produced

SEGMENTS = 5 * SEGMENTS_PER_STEP


class Steps:
    """Lets the worker take one step of its pending work after each call of `permit`, in whatever pass that is."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._may_go_on = False

    def permit(self) -> None:
        self._may_go_on = True

    def work(self) -> None:
        if self._may_go_on:
            self._may_go_on = False
            Turns.work(self._turns, 0.0)


@pytest.fixture
def steps(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> Steps:
    turns = pieces.worker.partition_requests._turns
    steps = Steps(turns)
    monkeypatch.setattr(turns, "work", steps.work)
    return steps


def _long(pieces: Pieces) -> tuple[OwnedPartition, PartitionLog]:
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    partition_log = owned.log
    assert partition_log is not None
    writer = pieces.connect()
    while len(partition_log.segments) < SEGMENTS:
        assert read_produced(writer.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0
        partition_log.roll(partition_log.log_end_offset, 0)
    return owned, partition_log


def test_others_produce_while_segments_are_removed(pieces: Pieces, steps: Steps) -> None:
    owned, partition_log = _long(pieces)
    writer = pieces.connect()
    end = partition_log.log_end_offset
    last = partition_log.segments[-2].base_offset
    pieces.hand_over(NETWORK, CleanupOrdered(owned.slot, owned.short_id, False, last, end, "a test"))
    assert partition_log.log_start_offset == end
    asked = 0
    while pieces.worker.partition_requests.is_busy:
        assert len(partition_log.segments) > 1
        steps.permit()
        assert read_produced(writer.ask(produce({(TOPIC, 1): batch()})))[TOPIC, 1].base_offset == asked
        asked += 1
    assert asked > 1
    assert len(partition_log.segments) == 1
    assert read_produced(writer.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].base_offset == end


def test_others_produce_while_segments_are_described(
    pieces: Pieces, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned, partition_log = _long(pieces)
    writer = pieces.connect()
    partition_requests = pieces.worker.partition_requests
    sent = SentFrames()
    monkeypatch.setattr(partition_requests, "_sender", sent)
    pieces.hand_over(NETWORK, SegmentsRequest(1, [(owned.slot, owned.short_id), (owned.slot, owned.short_id + 1)]))
    asked = 0
    while not sent.frames:
        steps.permit()
        assert read_produced(writer.ask(produce({(TOPIC, 1): batch()})))[TOPIC, 1].error == 0
        asked += 1
    assert asked > 1
    message = unpack_control(sent.frames[0][1])
    assert isinstance(message, SegmentsDescribed)
    many, unknown = message.partitions
    assert [row.base_offset for row in many.segments] == partition_log.segments.base_offsets
    assert [row.is_active for row in many.segments] == [False] * (SEGMENTS - 1) + [True]
    assert (many.log_end_offset, unknown.segments) == (partition_log.log_end_offset, [])


def test_topic_that_is_deleted_while_its_segments_go_ends_that(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    owned, partition_log = _long(pieces)
    turns = pieces.worker.partition_requests._turns
    last = partition_log.segments[-2].base_offset
    order = CleanupOrdered(owned.slot, owned.short_id, False, last, partition_log.log_end_offset, "a test")
    pieces.hand_over(NETWORK, order)
    # No step is made before the worker hears of the deletion, however many passes that takes.
    with monkeypatch.context() as held:
        held.setattr(turns, "work", lambda: None)
        pieces.delete_topic(TOPIC)
        pieces.run(lambda: owned.slot not in pieces.worker.partitions.by_slot, "the worker hears of the deletion")
        assert pieces.worker.partition_requests.is_busy
    left = len(partition_log.segments)
    assert left > 1
    pieces.run(lambda: not pieces.worker.partition_requests.is_busy, "nothing is left to do")
    assert len(partition_log.segments) == left
    assert not pieces.worker.partition_requests._removing_below_start


def test_others_produce_while_the_file_system_takes_its_time_to_remove_a_file(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    assert owned.log is not None
    name = "00000000000000000000.log.deleted"
    owned.log.store.open(name, create=True)
    may_go = Event()

    def slow(partition_log: PartitionLog, effect: UnlinkFiles) -> None:
        assert may_go.wait(WITHIN_S), "nobody else was served"
        remove_files(partition_log, effect)

    monkeypatch.setattr(upkeep, "remove_files", slow)
    pieces.worker.outbox.remove_later(owned, UnlinkFiles(names=(name,), delay_ms=0, generation=0))
    pieces.run(lambda: pieces.worker.upkeep.next_deadline_ms is None, "the file is being removed")
    assert read_produced(pieces.connect().ask(produce({(TOPIC, 1): batch()})))[TOPIC, 1].error == 0
    assert name in owned.log.store.sizes()
    may_go.set()
    pieces.run(lambda: owned.log is not None and name not in owned.log.store.sizes(), "the file is gone")
