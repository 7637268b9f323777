"""Timeouts: overdue transactions are aborted and their producers fenced, unused transactional ids expire."""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import ProducerInitialized, TransactionEnded
from kafkad.core.types import LAST_PRODUCER_EPOCH
from tests.core.transactions.bed import T0, T1, TIMEOUT_MS, TransactionBed

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def opened(bed: TransactionBed, transactional_id: str = "x") -> tuple[int, int]:
    producer = bed.started(transactional_id)
    bed.added(producer, T0, transactional_id=transactional_id)
    return producer


def test_a_transaction_is_aborted_after_its_timeout_and_not_at_it() -> None:
    bed = TransactionBed()
    opened(bed)
    bed.advance(TIMEOUT_MS)
    assert bed.state() == "Ongoing"
    bed.advance(1)
    assert bed.state() == "PrepareAbort"
    assert bed.lines[-1] == "x (producer 1000, epoch 0): aborting the transaction, which timed out after 60000 ms"
    assert [wanted.is_commit for wanted in bed.write_markers()] == [False]
    assert bed.state() == "CompleteAbort"


def test_the_time_counts_from_the_first_partition() -> None:
    bed = TransactionBed()
    producer = opened(bed)
    bed.advance(TIMEOUT_MS - 1)
    bed.added(producer, T1)
    bed.advance(2)
    assert bed.state() == "PrepareAbort"


def test_each_transaction_has_its_own_time() -> None:
    bed = TransactionBed()
    opened(bed, "x")
    bed.advance(1_000)
    opened(bed, "y")
    bed.advance(TIMEOUT_MS - 999)
    assert (bed.state("x"), bed.state("y")) == ("PrepareAbort", "Ongoing")


def test_an_ended_transaction_has_no_deadline() -> None:
    bed = TransactionBed()
    producer = opened(bed)
    bed.end(producer)
    bed.write_markers()
    bed.advance(2 * TIMEOUT_MS)
    assert bed.state() == "CompleteCommit"


def test_the_next_transaction_has_a_time_of_its_own() -> None:
    bed = TransactionBed()
    producer = opened(bed)
    bed.advance(TIMEOUT_MS - 1)
    bed.end(producer)
    bed.write_markers()
    bed.added(producer, T0)
    bed.advance(TIMEOUT_MS)
    assert bed.state() == "Ongoing"
    bed.advance(1)
    assert bed.state() == "PrepareAbort"


@pytest.mark.parametrize("version", [0, 1])
def test_before_version_2_a_timed_out_producer_is_fenced(version: int) -> None:
    bed = TransactionBed(transaction_version=version)
    producer = opened(bed)
    bed.advance(TIMEOUT_MS + 1)
    bed.write_markers()
    assert bed.end_code(producer) is ErrorCode.PRODUCER_FENCED
    assert bed.add_code(producer, T0) is ErrorCode.PRODUCER_FENCED
    assert bed.init("x", *producer) == ProducerInitialized(code=ErrorCode.PRODUCER_FENCED)


def test_since_version_2_a_timed_out_producer_may_abort_and_go_on() -> None:
    bed = TransactionBed()
    producer_id, epoch = opened(bed)
    bed.advance(TIMEOUT_MS + 1)
    bed.write_markers()
    late = (producer_id, epoch)
    assert bed.end_code(late, version=2) is ErrorCode.INVALID_TXN_STATE
    assert bed.add_code(late, T0) is ErrorCode.PRODUCER_FENCED
    assert bed.end(late, commit=False, version=2) == TransactionEnded(producer_id=producer_id, producer_epoch=epoch + 1)


def test_since_version_2_the_last_epoch_goes_on_with_a_new_id() -> None:
    bed = TransactionBed()
    producer_id, _ = bed.started()
    for _ in range(LAST_PRODUCER_EPOCH - 1):
        bed.started()
    bed.added((producer_id, LAST_PRODUCER_EPOCH - 1), T0)
    bed.advance(TIMEOUT_MS + 1)
    (wanted,) = bed.write_markers()
    assert (wanted.producer_id, wanted.producer_epoch) == (producer_id, LAST_PRODUCER_EPOCH)
    assert (bed.describe().producer_id, bed.describe().producer_epoch) == (producer_id + 1, 0)


def test_an_abort_that_can_not_be_written_comes_again() -> None:
    bed = TransactionBed(abort_interval_ms=10_000)
    opened(bed)
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    bed.advance(TIMEOUT_MS + 1)
    bed.log.refusal = None
    assert bed.state() == "Ongoing"
    bed.advance(9_999)
    assert bed.state() == "Ongoing"
    bed.advance(1)
    assert bed.state() == "PrepareAbort"


def test_an_abort_without_a_producer_id_comes_again() -> None:
    bed = TransactionBed(abort_interval_ms=10_000)
    producer_id, _ = bed.started()
    for _ in range(LAST_PRODUCER_EPOCH - 1):
        bed.started()
    bed.added((producer_id, LAST_PRODUCER_EPOCH - 1), T0)
    bed.producer_ids.is_dry = True
    bed.advance(TIMEOUT_MS + 1)
    assert bed.state() == "Ongoing"
    bed.producer_ids.is_dry = False
    bed.advance(10_000)
    assert bed.state() == "PrepareAbort"


def test_a_fence_that_was_not_written_fences_all_the_same_and_bumps_once() -> None:
    bed = TransactionBed(transaction_version=0)
    producer_id, epoch = opened(bed)
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        bed.init()
    bed.log.refusal = None
    assert bed.end_code((producer_id, epoch)) is ErrorCode.PRODUCER_FENCED
    bed.init()
    assert bed.describe().producer_epoch == epoch + 1


def test_the_deadline_survives_the_coordinator() -> None:
    bed = TransactionBed()
    opened(bed)
    bed.advance(TIMEOUT_MS - 10)
    bed.crash()
    bed.advance(10)
    assert bed.state() == "Ongoing"
    bed.advance(1)
    assert bed.state() == "PrepareAbort"


def test_what_was_overdue_at_loading_is_aborted_at_once() -> None:
    bed = TransactionBed()
    opened(bed)
    bed.runtime.unload(bed.moment)
    bed.advance(3 * TIMEOUT_MS)
    bed.start()
    bed.advance(0)
    assert bed.state() == "PrepareAbort"


def test_unused_ids_are_forgotten_with_a_tombstone() -> None:
    bed = TransactionBed(transactional_id_expiration_ms=DAY_MS, expiration_interval_ms=HOUR_MS)
    bed.started("old")
    bed.advance(DAY_MS // 2)
    bed.started("young")
    bed.advance(DAY_MS // 2 - HOUR_MS)
    assert bed.listed() == ["old", "young"]
    bed.advance(HOUR_MS)
    assert bed.listed() == ["young"]
    bed.crash()
    assert bed.listed() == ["young"]
    assert bed.end_code((1_000, 0), transactional_id="old") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_use_keeps_an_id() -> None:
    bed = TransactionBed(transactional_id_expiration_ms=DAY_MS, expiration_interval_ms=HOUR_MS)
    producer = bed.started()
    for _ in range(4):
        bed.advance(DAY_MS // 2)
        bed.added(producer, T0)
        bed.end(producer)
        bed.write_markers()
    assert bed.listed() == ["x"]


def test_ids_with_an_open_or_a_decided_transaction_stay() -> None:
    bed = TransactionBed(transactional_id_expiration_ms=1_000, expiration_interval_ms=1_000)
    opened(bed, "open")
    decided = opened(bed, "decided")
    bed.started("idle")
    bed.end(decided, transactional_id="decided")
    bed.advance(5_000)
    assert bed.listed() == ["decided", "open"]


def test_thousands_expire_in_batches_and_at_once() -> None:
    bed = TransactionBed(transactional_id_expiration_ms=DAY_MS, expiration_interval_ms=HOUR_MS)
    for number in range(2_500):
        bed.started(f"id-{number}")
    written = len(bed.log.written)
    bed.advance(DAY_MS + HOUR_MS)
    assert bed.shard.transactional_ids == 0
    assert len(bed.log.written) == written + 3


def test_tombstones_that_can_not_be_written_are_tried_again() -> None:
    bed = TransactionBed(transactional_id_expiration_ms=DAY_MS, expiration_interval_ms=HOUR_MS)
    bed.started()
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    bed.advance(DAY_MS)
    assert bed.listed() == ["x"]
    bed.log.refusal = None
    bed.advance(HOUR_MS)
    assert bed.listed() == []
