"""EndTxn: the decision, before and since transaction version 2 (KIP-98, 890), and which producers may make it."""

import pytest

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.record import iter_records
from kafkad.core.transactions.ending import EndAction, check_end_txn
from kafkad.core.transactions.records import TransactionRecord
from kafkad.core.transactions.requests import EndTxn, TransactionEnded
from kafkad.core.transactions.state import TransactionState
from kafkad.core.types import LAST_PRODUCER_EPOCH
from tests.core.coordinator.memory_log import Refused
from tests.core.transactions.bed import T0, T1, TransactionBed

State = TransactionState


def opened(bed: TransactionBed) -> tuple[int, int]:
    """A producer with T0 and T1 in its transaction."""
    producer = bed.started()
    bed.added(producer, T0, T1)
    return producer


@pytest.mark.parametrize("version", [0, 2])
def test_a_commit_is_decided_marked_and_complete(version: int) -> None:
    bed = TransactionBed()
    producer = opened(bed)
    assert bed.end_code(producer, version=version) is ErrorCode.NONE
    assert bed.state() == "PrepareCommit"
    (wanted,) = bed.write_markers()
    assert wanted.is_commit
    assert wanted.partitions == frozenset({T0, T1})
    assert (wanted.coordinator_epoch, wanted.transaction_version) == (7, version)
    assert bed.describe().partitions == ()
    assert bed.state() == "CompleteCommit"


def test_partitions_are_described_until_they_have_their_markers() -> None:
    bed = TransactionBed()
    producer = opened(bed)
    bed.end(producer)

    def advance(epoch: int) -> None:
        marked = frozenset({T1})
        bed.ask(lambda asked: bed.shard.markers_advanced(asked.token, "x", epoch, marked))

    advance(producer[1] + 1)
    assert bed.describe().partitions == (T0, T1), "of another transaction"
    advance(producer[1])
    assert (bed.describe().partitions, bed.state()) == ((T0,), "PrepareCommit")
    bed.write_markers()
    bed.added(producer, T0, T1)
    assert bed.describe().partitions == (T0, T1), "the next transaction has all of its own"
    advance(producer[1])
    assert bed.describe().partitions == (T0, T1), "and is not being ended"


def test_an_abort_is_decided_marked_and_complete() -> None:
    bed = TransactionBed()
    assert bed.end_code(opened(bed), commit=False) is ErrorCode.NONE
    assert bed.state() == "PrepareAbort"
    assert [wanted.is_commit for wanted in bed.write_markers()] == [False]
    assert bed.state() == "CompleteAbort"


def test_the_next_transaction_follows_with_the_same_epoch() -> None:
    bed = TransactionBed()
    producer = opened(bed)
    for _ in range(3):
        assert bed.end(producer) == TransactionEnded()
        bed.write_markers()
        bed.added(producer, T0)
    assert bed.describe().partitions == (T0,)


def test_version_2_gives_the_epoch_of_the_next_transaction() -> None:
    bed = TransactionBed()
    producer_id, epoch = opened(bed)
    reply = bed.end((producer_id, epoch), version=2)
    assert reply == TransactionEnded(producer_id=producer_id, producer_epoch=epoch + 1)
    (wanted,) = bed.write_markers()
    assert wanted.producer_epoch == epoch + 1
    bed.added((producer_id, epoch + 1), T0)
    assert bed.add_code((producer_id, epoch), T0) is ErrorCode.PRODUCER_FENCED


def test_version_2_gives_a_new_producer_id_when_the_epochs_are_used_up() -> None:
    bed = TransactionBed()
    producer_id, _ = bed.started()
    for _ in range(LAST_PRODUCER_EPOCH - 1):
        bed.started()
    last = (producer_id, LAST_PRODUCER_EPOCH - 1)
    bed.added(last, T0)
    reply = bed.end(last, version=2)
    assert reply == TransactionEnded(producer_id=producer_id + 1, producer_epoch=0)
    (wanted,) = bed.write_markers()
    # The partitions still know the old id: its last epoch of all is for this marker.
    assert (wanted.producer_id, wanted.producer_epoch) == (producer_id, LAST_PRODUCER_EPOCH)
    assert bed.end(last, version=2) == reply
    bed.added((producer_id + 1, 0), T0)


def test_version_2_decides_nothing_without_a_producer_id_to_go_on_with() -> None:
    bed = TransactionBed()
    producer_id, _ = bed.started()
    for _ in range(LAST_PRODUCER_EPOCH - 1):
        bed.started()
    last = (producer_id, LAST_PRODUCER_EPOCH - 1)
    bed.added(last, T0)
    bed.producer_ids.is_dry = True
    assert bed.end_code(last, version=2) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bed.state() == "Ongoing"
    bed.producer_ids.is_dry = False
    assert bed.end_code(last, version=2) is ErrorCode.NONE


def test_version_2_aborts_a_transaction_without_partitions_at_once() -> None:
    bed = TransactionBed()
    producer_id, epoch = bed.started()
    reply = bed.end((producer_id, epoch), commit=False, version=2)
    assert reply == TransactionEnded(producer_id=producer_id, producer_epoch=epoch + 1)
    assert bed.markers == []
    assert (bed.state(), bed.describe().start_ms) == ("CompleteAbort", bed.moment.wall_ms)


def test_before_version_2_the_last_epoch_goes_on() -> None:
    bed = TransactionBed()
    producer_id, _ = bed.started()
    for _ in range(LAST_PRODUCER_EPOCH - 1):
        bed.started()
    last = (producer_id, LAST_PRODUCER_EPOCH - 1)
    bed.added(last, T0)
    bed.producer_ids.is_dry = True
    assert bed.end_code(last) is ErrorCode.NONE
    bed.write_markers()
    bed.added(last, T0)


def test_a_client_of_version_2_waits_until_the_feature_is_finalized() -> None:
    bed = TransactionBed(transaction_version=0)
    producer = opened(bed)
    assert bed.end_code(producer, version=2) is ErrorCode.UNSUPPORTED_VERSION
    assert bed.add_code(producer, ("t", 5), client_version=2) is ErrorCode.UNSUPPORTED_VERSION
    assert bed.end_code(producer) is ErrorCode.NONE


@pytest.mark.parametrize(("level", "value_version"), [(0, 0), (1, 1), (2, 1)])
def test_records_are_of_the_version_that_the_feature_allows(level: int, value_version: int) -> None:
    bed = TransactionBed(transaction_version=2 if level == 0 else 0)
    bed.started()
    bed.configure(transaction_version=level)
    bed.started()
    (row,) = iter_records(memoryview(bed.log.written[-1]))
    assert row.value is not None
    assert int.from_bytes(row.value[:2], "big") == value_version


@pytest.mark.parametrize("version", [0, 2])
def test_an_id_that_is_not_known_has_no_producer(version: int) -> None:
    assert TransactionBed().end_code((1, 0), version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", [0, 2])
def test_an_empty_id_is_refused(version: int) -> None:
    bed = TransactionBed()
    assert bed.end_code((1, 0), version=version, transactional_id="") is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [False, True])
def test_while_markers_are_written_the_id_is_busy(commit: bool, version: int) -> None:
    bed = TransactionBed()
    producer_id, epoch = opened(bed)
    bed.end((producer_id, epoch), version=version)
    late = (producer_id, bed.describe().producer_epoch) if version == 0 else (producer_id, epoch)
    assert bed.end_code(late, commit=commit, version=version) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_nobody_is_told_before_the_decision_is_safe() -> None:
    bed = TransactionBed()
    producer = opened(bed)
    bed.log.lag()
    token = bed.ask_end(EndTxn("x", *producer, True, 0))
    assert token not in bed.answers and bed.markers == []
    bed.catch_up()
    assert bed.answers[token] == TransactionEnded() and len(bed.markers) == 1


def test_a_decision_that_the_log_refuses_was_never_made() -> None:
    bed = TransactionBed()
    producer = opened(bed)
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    token = bed.ask_end(EndTxn("x", *producer, True, 2))
    assert bed.answers[token] == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bed.markers == []
    bed.log.refusal = None
    assert bed.end(producer, version=2) == TransactionEnded(producer_id=producer[0], producer_epoch=producer[1] + 1)


def test_a_decision_that_takes_too_long_is_carried_out_when_it_is_safe() -> None:
    bed = TransactionBed()
    producer = opened(bed)
    bed.log.lag()
    token = bed.ask_end(EndTxn("x", *producer, True, 0))
    bed.advance(12_000)
    assert bed.answers[token] == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    # The log may still lose it: partitions must not hear of it.
    assert bed.markers == []
    bed.catch_up()
    bed.write_markers()
    assert bed.state() == "CompleteCommit"
    assert bed.end(producer) == TransactionEnded()


def record(state: State, epoch: int = 5, producer_id: int = 9, previous_producer_id: int = 9) -> TransactionRecord:
    return TransactionRecord(
        transactional_id="x",
        producer_id=producer_id,
        previous_producer_id=previous_producer_id,
        producer_epoch=epoch,
        timeout_ms=1,
        state=state,
        last_update_ms=0,
    )


def judged(current: TransactionRecord, epoch: int, *, commit: bool, version: int, producer_id: int = 9) -> object:
    try:
        return check_end_txn(current, EndTxn("x", producer_id, epoch, commit, version), is_pending=False)
    except KafkaError as error:
        return error.code


DECIDE, DONE = EndAction.DECIDE, EndAction.NONE
FENCED, MISFIT = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("state", "abort", "commit"),
    [
        (State.EMPTY, MISFIT, MISFIT),
        (State.ONGOING, DECIDE, DECIDE),
        (State.PREPARE_ABORT, BUSY, MISFIT),
        (State.PREPARE_COMMIT, MISFIT, BUSY),
        (State.COMPLETE_ABORT, DONE, MISFIT),
        (State.COMPLETE_COMMIT, MISFIT, DONE),
    ],
)
def test_before_version_2_the_state_decides(state: State, abort: object, commit: object) -> None:
    current = record(state)
    assert judged(current, 5, commit=False, version=0) == abort
    assert judged(current, 5, commit=True, version=0) == commit
    for epoch in (4, 6):
        assert judged(current, epoch, commit=True, version=0) == FENCED


@pytest.mark.parametrize(
    ("state", "abort_retry", "abort", "commit_retry", "commit"),
    [
        (State.EMPTY, FENCED, DECIDE, FENCED, MISFIT),
        (State.ONGOING, FENCED, DECIDE, FENCED, DECIDE),
        (State.PREPARE_ABORT, BUSY, FENCED, MISFIT, FENCED),
        (State.PREPARE_COMMIT, MISFIT, FENCED, BUSY, FENCED),
        (State.COMPLETE_ABORT, DONE, DECIDE, MISFIT, MISFIT),
        (State.COMPLETE_COMMIT, MISFIT, DECIDE, DONE, MISFIT),
    ],
)
def test_since_version_2_the_epoch_tells_a_retry(
    state: State, abort_retry: object, abort: object, commit_retry: object, commit: object
) -> None:
    current = record(state)
    assert judged(current, 4, commit=False, version=2) == abort_retry
    assert judged(current, 5, commit=False, version=2) == abort
    assert judged(current, 4, commit=True, version=2) == commit_retry
    assert judged(current, 5, commit=True, version=2) == commit
    for epoch in (3, 6):
        assert judged(current, epoch, commit=True, version=2) == FENCED


@pytest.mark.parametrize(
    ("state", "abort", "commit"),
    [(State.COMPLETE_ABORT, DONE, MISFIT), (State.COMPLETE_COMMIT, MISFIT, DONE)],
)
def test_a_retry_with_the_producer_id_before_is_recognized(state: State, abort: object, commit: object) -> None:
    current = record(state, epoch=0, producer_id=10, previous_producer_id=9)
    assert judged(current, LAST_PRODUCER_EPOCH - 1, commit=False, version=2) == abort
    assert judged(current, LAST_PRODUCER_EPOCH - 1, commit=True, version=2) == commit
    assert judged(current, LAST_PRODUCER_EPOCH - 2, commit=True, version=2) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", [0, 2])
def test_another_producer_id_has_nothing_to_end(version: int) -> None:
    code = judged(record(State.ONGOING), 5, commit=True, version=version, producer_id=8)
    assert code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_pending_step_comes_before_everything_since_version_2_and_after_the_fence_before() -> None:
    stranger = EndTxn("x", 8, 5, True, 2)
    with pytest.raises(KafkaError, match="CONCURRENT_TRANSACTIONS"):
        check_end_txn(record(State.ONGOING), stranger, is_pending=True)
    with pytest.raises(KafkaError, match="INVALID_PRODUCER_ID_MAPPING"):
        check_end_txn(record(State.ONGOING), stranger._replace(client_version=0), is_pending=True)
