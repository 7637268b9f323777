"""Produce requests with a transactional id: what is asked, who waits for whom, and what they are told."""

import pytest

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.errors import ErrorCode
from kafkad.core.log.coordinated import append_end_marker
from kafkad.core.metrics.catalogue import BLOCK_WORDS
from kafkad.core.partition_slot import STATE_OFFLINE, STATE_ONLINE
from kafkad.core.transactions.requests import PartitionsToVerify
from kafkad.core.types import TopicPartition
from kafkad.processes.worker import appending
from kafkad.processes.worker.appending import Appender
from kafkad.processes.worker.coordinators.transactions import transactional_produce
from kafkad.processes.worker.coordinators.transactions.transaction_verification import OnVerified
from kafkad.processes.worker.coordinators.transactions.transactional_produce import RetryPauses
from kafkad.processes.worker.disks.disk_space import DiskSpace
from kafkad.processes.worker.outbox import Outbox
from kafkad.processes.worker.owned import DeletedTopics, OwnedPartition
from kafkad.wire.processes.descriptors import APPEND, APPENDED, pack_append, unpack_appended, unpack_control
from tests.config.configurations import configured
from tests.core.log.batches import NOW, batch, load
from tests.core.log.fake_store import FakeStore
from tests.processes.sent_frames import SentFrames

TOPIC_ID = bytes(8) + (5).to_bytes(8, "little")
OK, NO = ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE
NETWORK = ProcessKey("network", 0)
OLD, NEW = 11, 12
"""Produce versions: the coordinator is only asked, or told to add."""


class PlayedCoordinators:
    """Answers when the test says so, or at once with `at_once`."""

    def __init__(self) -> None:
        self.open: list[tuple[PartitionsToVerify, OnVerified]] = []
        self.at_once: ErrorCode | None = None

    def verify(self, request: PartitionsToVerify, completed: OnVerified) -> None:
        if self.at_once is not None:
            completed([self.at_once] * len(request.partitions))
        else:
            self.open.append((request, completed))

    def answer(self, *codes: ErrorCode) -> PartitionsToVerify:
        request, completed = self.open.pop(0)
        completed(list(codes) or [OK] * len(request.partitions))
        return request


class Owner:
    """Two partitions in slots 0 and 1, and one network process that asks."""

    def __init__(self, *, pause_ms: int = 0, total_ms: int = 60_000) -> None:
        self.coordinators = PlayedCoordinators()
        self.arena = bytearray(1 << 16)
        self.used = 0
        self.sent = SentFrames()
        self.partitions = {slot: self._partition(slot) for slot in (0, 1)}
        outbox = Outbox(self.partitions)
        self.appender = Appender(
            self.partitions,
            DeletedTopics(),
            [memoryview(self.arena)],
            now_ms=0,
            block=memoryview(bytearray(8 * BLOCK_WORDS)).cast("Q"),
            sender=self.sent,
            networks=[NETWORK],
            outbox=outbox,
            verifier=self.coordinators,
            retry=RetryPauses(pause_ms, total_ms),
            disk_space=DiskSpace([], configured(), outbox),
        )

    def _partition(self, slot: int) -> OwnedPartition:
        owned = OwnedPartition(TopicPartition("t", slot), slot, TOPIC_ID, 0, 0, 0)
        owned.log = load(FakeStore())
        owned.state = STATE_ONLINE
        return owned

    def produce(
        self,
        part: int,
        *batches: tuple[int, memoryview],
        version: int = OLD,
        transactional_id: str | None = "id",
    ) -> None:
        slices = []
        for slot, records in batches:
            self.arena[self.used : self.used + len(records)] = records
            slices.append((slot, 5, self.used, len(records)))
            self.used += len(records)
        entry = pack_append(part, 0, 1, version, slices, transactional_id)
        self.appender.append(0, bytes((APPEND,)) + entry)

    def answers(self) -> dict[int, list[tuple[int, int]]]:
        """(error, base offset) of each partition, by part, since it was asked last."""
        self.appender.finish()
        return self.answers_so_far()

    def answers_so_far(self) -> dict[int, list[tuple[int, int]]]:
        """The same, without what goes on in later passes."""
        self.appender.send_responses()
        sent, self.sent.frames = self.sent.frames, []
        frames = [frame for _peer, frame in sent if frame[0] == APPENDED]
        return {
            part: [(code, offset) for code, offset, _, _ in results]
            for frame in frames
            for part, results in unpack_appended(frame)
        }

    def end(self, slot: int = 0, *, producer: int = 7, epoch: int = 0) -> None:
        log = self.partitions[slot].log
        assert log is not None
        append_end_marker(
            log,
            producer_id=producer,
            producer_epoch=epoch,
            coordinator_epoch=0,
            commit=True,
            transaction_version=1,
            leader_epoch=0,
            now_ms=NOW,
        )


def in_transaction(sequence: int, *, producer: int = 7, epoch: int = 0) -> memoryview:
    return batch(producer_id=producer, sequence=sequence, epoch=epoch, is_transactional=True)


def test_the_first_batch_of_a_transaction_waits_for_its_coordinator() -> None:
    owner = Owner()
    owner.produce(1, (0, in_transaction(0)), (1, in_transaction(0)))
    assert owner.answers() == {}
    assert owner.coordinators.answer() == PartitionsToVerify("id", 7, 0, False, [("t", 0), ("t", 1)])
    assert owner.appender.is_busy
    assert owner.answers() == {1: [(0, 0), (0, 0)]}
    owner.produce(2, (0, in_transaction(1)))
    assert owner.answers() == {2: [(0, 1)]}, "its transaction is open, nobody has to be asked"


def test_from_version_12_on_the_coordinator_adds_the_partition() -> None:
    owner = Owner()
    owner.produce(1, (0, in_transaction(0)), version=NEW)
    assert owner.coordinators.answer().adds


def test_what_comes_later_of_the_id_waits_its_turn_and_others_do_not() -> None:
    owner = Owner()
    owner.produce(1, (0, in_transaction(0)))
    owner.produce(2, (0, in_transaction(1)))
    owner.produce(3, (0, batch()), transactional_id=None)
    owner.produce(4, (0, in_transaction(0, producer=8)), transactional_id="other")
    assert owner.answers() == {3: [(0, 0)]}
    assert len(owner.coordinators.open) == 2, "the second request of the id is not looked at before the first is done"
    owner.coordinators.answer()
    assert owner.answers() == {1: [(0, 1)], 2: [(0, 2)]}


def test_a_partition_that_needs_no_question_waits_with_the_others_of_its_request() -> None:
    owner = Owner()
    owner.coordinators.at_once = OK
    owner.produce(1, (0, in_transaction(0)))
    owner.coordinators.at_once = None
    owner.answers()
    owner.produce(2, (0, in_transaction(1)), (1, in_transaction(0)))
    assert owner.answers() == {}
    assert owner.coordinators.answer().partitions == [("t", 1)]
    assert owner.answers() == {2: [(0, 1), (0, 0)]}


def test_a_refused_partition_does_not_refuse_the_others() -> None:
    owner = Owner()
    owner.produce(1, (0, in_transaction(0)), (1, in_transaction(0)))
    owner.coordinators.answer(NO, OK)
    owner.appender.finish()
    owner.appender.send_responses()
    explained = unpack_control(owner.sent.frames[0][1])
    assert (explained.part_id, explained.ordinal) == (1, 0)  # type: ignore[union-attr]
    assert owner.answers() == {1: [(NO, -1), (0, 0)]}


def test_a_coordinator_that_is_away_is_a_reason_to_try_again() -> None:
    for version in (OLD, NEW):
        owner = Owner()
        owner.coordinators.at_once = ErrorCode.NOT_COORDINATOR
        owner.produce(1, (0, in_transaction(0)), version=version)
        assert owner.answers() == {1: [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]}


def test_the_transaction_before_may_still_be_ending() -> None:
    owner = Owner()
    owner.coordinators.at_once = ErrorCode.CONCURRENT_TRANSACTIONS
    owner.produce(1, (0, in_transaction(0)), version=OLD)
    assert owner.answers() == {1: [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]}
    owner.produce(2, (0, in_transaction(0)), version=NEW)
    owner.produce(3, (0, in_transaction(1)), version=NEW)
    assert owner.answers() == {}, "the broker asks again itself"
    owner.coordinators.at_once = OK
    due_ms = owner.appender.next_deadline_ms
    assert due_ms is not None
    owner.appender.expire(due_ms)
    assert owner.answers() == {2: [(0, 0)], 3: [(0, 1)]}


def test_a_transaction_that_does_not_end_in_time_is_the_clients_to_wait_for() -> None:
    owner = Owner(total_ms=0)
    owner.coordinators.at_once = ErrorCode.CONCURRENT_TRANSACTIONS
    owner.produce(1, (0, in_transaction(0)), version=NEW)
    assert owner.answers() == {1: [(ErrorCode.CONCURRENT_TRANSACTIONS, -1)]}


def test_a_marker_that_comes_before_the_answer_makes_it_worthless() -> None:
    owner = Owner()
    owner.produce(1, (0, in_transaction(0)))
    owner.end()
    owner.coordinators.answer(OK)
    assert owner.answers() == {1: [(NO, -1)]}


def test_batches_of_two_producers_in_one_request_are_refused() -> None:
    owner = Owner()
    owner.produce(1, (0, in_transaction(0)), (1, in_transaction(0, producer=8)))
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert owner.answers() == {1: [(code, -1), (code, -1)]}
    assert owner.coordinators.open == []


def test_an_epoch_that_is_over_is_refused_without_a_question() -> None:
    owner = Owner()
    owner.end(epoch=3)
    owner.produce(1, (0, in_transaction(0, epoch=2)))
    assert owner.answers() == {1: [(ErrorCode.INVALID_PRODUCER_EPOCH, -1)]}


def test_a_request_without_an_id_has_no_transactional_batch() -> None:
    owner = Owner()
    owner.produce(1, (0, in_transaction(0)), transactional_id=None)
    assert owner.answers() == {1: [(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)]}


def test_a_plain_batch_under_a_transactional_id_is_a_plain_batch() -> None:
    owner = Owner()
    owner.produce(1, (0, batch()))
    assert owner.answers() == {1: [(0, 0)]}


def test_nobody_is_asked_where_verification_is_off_unless_the_partition_has_to_be_added() -> None:
    owner = Owner()
    log = owner.partitions[0].log
    assert log is not None
    log.producers.verifies_transactions = False
    owner.produce(1, (0, in_transaction(0)))
    assert owner.answers() == {1: [(0, 0)]}
    owner.produce(2, (0, in_transaction(0, producer=8)), version=NEW, transactional_id="other")
    assert owner.answers() == {}
    assert owner.coordinators.answer().adds


def test_what_is_not_here_is_not_asked_about() -> None:
    owner = Owner()
    owner.partitions[1].state = STATE_OFFLINE
    owner.produce(1, (0, in_transaction(0)), (1, in_transaction(0)), (9, in_transaction(0)))
    assert owner.coordinators.answer().partitions == [("t", 0)]
    offline, elsewhere = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert owner.answers() == {1: [(0, 0), (offline, -1), (elsewhere, -1)]}


def test_bytes_that_are_no_batch_are_refused_as_ever() -> None:
    owner = Owner()
    owner.produce(1, (0, memoryview(bytearray(b"short"))))
    assert owner.answers() == {1: [(ErrorCode.INVALID_RECORD, -1)]}


def test_a_request_that_takes_long_goes_on_in_later_passes_after_what_came_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(appending, "STEP_NS", 0)
    owner = Owner()
    owner.coordinators.at_once = OK
    for part, sequence in ((1, 0), (2, 1)):
        owner.produce(part, (0, in_transaction(sequence)), (1, in_transaction(sequence)))
    owner.produce(3, (1, batch()), transactional_id=None)
    owner.end(0)
    logs = [partition.log.log_end_offset for partition in owner.partitions.values() if partition.log is not None]
    assert logs == [2, 0], "one batch a pass; the marker that came meanwhile is after it"
    assert owner.answers() == {1: [(0, 0), (0, 0)], 2: [(NO, -1), (0, 1)], 3: [(0, 2)]}


def test_a_request_about_very_many_partitions_is_looked_at_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_produce, "STEP", 1)
    owner = Owner()
    owner.produce(1, (0, in_transaction(0)), (1, in_transaction(0)))
    owner.produce(2, (0, in_transaction(1)))
    owner.produce(3, (0, batch()), transactional_id=None)
    assert owner.answers_so_far() == {3: [(0, 0)]}, "others do not wait for all of it"
    owner.appender.finish()
    owner.coordinators.answer()
    owner.appender.finish()
    assert owner.answers() == {1: [(0, 1), (0, 0)], 2: [(0, 2)]}


def test_who_dies_while_its_request_is_looked_at_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_produce, "STEP", 1)
    owner = Owner()
    owner.produce(1, (0, in_transaction(0)), (1, in_transaction(0)))
    owner.appender.network_lost(0)
    assert owner.answers() == {}
    assert owner.coordinators.open == []


def test_a_dead_network_process_holds_up_nobody_of_the_next_life() -> None:
    owner = Owner()
    owner.produce(1, (0, in_transaction(0)))
    owner.produce(2, (0, in_transaction(1)))
    owner.appender.network_lost(0)
    owner.produce(1, (1, in_transaction(0)))
    owner.coordinators.answer()
    assert owner.answers() == {}, "nothing of a dead process reaches a log"
    owner.coordinators.answer()
    assert owner.answers() == {1: [(0, 0)]}
    log = owner.partitions[0].log
    assert log is not None and log.log_end_offset == 0
