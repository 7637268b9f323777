"""Which producers may start, add partitions to their transactions, and end them."""

import pytest

from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.record import iter_records
from kafkad.core.transactions.producer_requests import EndAction, check_end_txn
from kafkad.core.transactions.records import TransactionRecord
from kafkad.core.transactions.requests import (
    EndTxn,
    InitProducerId,
    OffsetsAdded,
    PartitionResult,
    PartitionsAdded,
    PartitionsToAdd,
    ProducerInitialized,
    TransactionEnded,
)
from kafkad.core.transactions.shard import OFFSETS_TOPIC
from kafkad.core.transactions.state import TransactionState
from kafkad.core.types import LAST_PRODUCER_EPOCH
from tests.core.coordinator.memory_log import Refused
from tests.core.transactions.bed import T0, T1, TransactionBed


def fenced() -> ProducerInitialized:
    return ProducerInitialized(code=ErrorCode.PRODUCER_FENCED)


def test_a_new_id_gets_a_producer_id_and_epoch_zero() -> None:
    bed = TransactionBed()
    assert bed.init() == ProducerInitialized(producer_id=1_000, producer_epoch=0)
    assert bed.state() == "Empty"


def test_each_new_instance_gets_the_next_epoch() -> None:
    bed = TransactionBed()
    assert [bed.started() for _ in range(3)] == [(1_000, 0), (1_000, 1), (1_000, 2)]


def test_ids_are_told_apart() -> None:
    bed = TransactionBed()
    assert [bed.started(name) for name in "xyx"] == [(1_000, 0), (1_001, 0), (1_000, 1)]


def test_a_producer_without_transactional_id_only_gets_an_id() -> None:
    bed = TransactionBed()
    token = bed.ask_init(InitProducerId(None, -1))
    assert bed.answers[token] == ProducerInitialized(producer_id=1_000, producer_epoch=0)
    assert bed.log.written == []


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (InitProducerId("", 1), ErrorCode.INVALID_REQUEST),
        (InitProducerId("x", 1, producer_id=5), ErrorCode.INVALID_REQUEST),
        (InitProducerId("x", 1, producer_epoch=5), ErrorCode.INVALID_REQUEST),
        (InitProducerId("x", 0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerId("x", -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerId("x", 900_001), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_requests_that_can_not_be_are_refused(wanted: InitProducerId, code: ErrorCode) -> None:
    bed = TransactionBed()
    assert bed.answers[bed.ask_init(wanted)] == ProducerInitialized(code=code)
    assert bed.log.written == []


def test_the_longest_timeout_is_allowed() -> None:
    assert TransactionBed().init(timeout_ms=900_000).code is ErrorCode.NONE


def test_without_a_producer_id_at_hand_the_client_comes_again() -> None:
    bed = TransactionBed()
    bed.producer_ids.is_dry = True
    assert bed.init() == ProducerInitialized(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bed.producer_ids.is_dry = False
    assert bed.started() == (1_000, 0)


def test_a_producer_that_names_itself_goes_on_with_the_next_epoch() -> None:
    bed = TransactionBed()
    producer_id, epoch = bed.started()
    assert bed.init("x", producer_id, epoch) == ProducerInitialized(producer_id=producer_id, producer_epoch=epoch + 1)


def test_a_lost_answer_is_given_again() -> None:
    bed = TransactionBed()
    producer_id, epoch = bed.started()
    first = bed.init("x", producer_id, epoch)
    assert bed.init("x", producer_id, epoch) == first


def test_a_coordinator_that_was_loaded_has_forgotten_the_last_epoch() -> None:
    bed = TransactionBed()
    producer_id, epoch = bed.started()
    bed.init("x", producer_id, epoch)
    bed.crash()
    assert bed.init("x", producer_id, epoch) == fenced()


def test_a_zombie_is_fenced_after_a_new_instance() -> None:
    bed = TransactionBed()
    producer_id, epoch = bed.started()
    bed.started()
    assert bed.init("x", producer_id, epoch) == fenced()


def test_a_producer_with_somebody_elses_id_is_fenced() -> None:
    bed = TransactionBed()
    producer_id, epoch = bed.started()
    assert bed.init("x", producer_id + 1, epoch) == fenced()


def test_a_producer_that_the_coordinator_forgot_starts_anew() -> None:
    bed = TransactionBed()
    assert bed.init("x", 5, 3) == ProducerInitialized(producer_id=1_000, producer_epoch=0)


def test_an_open_transaction_is_aborted_first() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.added(producer, T0)
    assert bed.init() == ProducerInitialized(code=ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bed.state() == "PrepareAbort"
    assert bed.init() == ProducerInitialized(code=ErrorCode.CONCURRENT_TRANSACTIONS)
    (wanted,) = bed.write_markers()
    assert not wanted.is_commit and wanted.producer_epoch == producer[1] + 1
    assert bed.started() == (producer[0], producer[1] + 2)


@pytest.mark.parametrize(("version", "last_epoch_is_known"), [(0, False), (1, False), (2, True)])
def test_a_fence_bumps_the_epoch_once_whatever_the_version(version: int, last_epoch_is_known: bool) -> None:
    bed = TransactionBed(transaction_version=version)
    producer_id, epoch = bed.started()
    bed.added((producer_id, epoch), T0)
    bed.init()
    (wanted,) = bed.write_markers()
    assert wanted.transaction_version == (2 if version == 2 else 0)
    assert bed.describe().producer_epoch == epoch + 1
    # Since version 2 the producer that was timed out, or came again, may go on where it was.
    reply = bed.init("x", producer_id, epoch)
    assert (reply.code is ErrorCode.NONE) == last_epoch_is_known


def exhausted(bed: TransactionBed, epoch: int = LAST_PRODUCER_EPOCH - 1) -> int:
    """The producer id of one that has come to its last epoch."""
    producer_id, _ = bed.started()
    for _ in range(epoch):
        bed.started()
    return producer_id


def test_an_exhausted_producer_gets_a_new_id() -> None:
    bed = TransactionBed()
    assert bed.describe().code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    producer_id = exhausted(bed)
    assert bed.describe().producer_epoch == LAST_PRODUCER_EPOCH - 1
    assert bed.started() == (producer_id + 1, 0)


def test_an_exhausted_producer_that_names_itself_gets_a_new_id_and_may_ask_twice() -> None:
    bed = TransactionBed()
    producer_id = exhausted(bed)
    first = bed.init("x", producer_id, LAST_PRODUCER_EPOCH - 1)
    assert first == ProducerInitialized(producer_id=producer_id + 1, producer_epoch=0)
    assert bed.init("x", producer_id, LAST_PRODUCER_EPOCH - 1) == first


def test_only_the_last_epoch_of_the_id_before_may_ask_twice() -> None:
    bed = TransactionBed()
    producer_id = exhausted(bed)
    bed.init("x", producer_id, LAST_PRODUCER_EPOCH - 1)
    assert bed.init("x", producer_id, LAST_PRODUCER_EPOCH - 2) == fenced()


def test_a_zombie_of_the_id_before_is_fenced_by_a_new_instance() -> None:
    bed = TransactionBed()
    producer_id = exhausted(bed)
    bed.started()
    assert bed.init("x", producer_id, LAST_PRODUCER_EPOCH - 1) == fenced()


def test_an_old_epoch_of_an_exhausted_producer_is_an_error() -> None:
    bed = TransactionBed()
    producer_id = exhausted(bed)
    assert bed.init("x", producer_id, 3) == ProducerInitialized(code=ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_second_request_waits_its_turn_while_the_first_is_not_safe() -> None:
    bed = TransactionBed()
    bed.log.lag()
    first = bed.ask_init(InitProducerId("x", 1_000))
    second = bed.ask_init(InitProducerId("x", 1_000))
    assert bed.answers == {}
    bed.catch_up()
    assert bed.answers[first] == ProducerInitialized(producer_id=1_000, producer_epoch=0)
    assert bed.answers[second] == ProducerInitialized(code=ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bed.started() == (1_000, 1)


def test_a_refused_append_leaves_nothing_behind() -> None:
    bed = TransactionBed()
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert bed.init() == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bed.shard.transactional_ids == 0
    bed.log.refusal = None
    assert bed.started() == (1_001, 0)


def test_the_state_is_the_same_after_loading() -> None:
    bed = TransactionBed()
    bed.started()
    bed.started()
    before = bed.describe()
    bed.crash()
    assert bed.describe() == before
    assert bed.started() == (1_000, 2)


def test_the_first_partition_begins_the_transaction() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.advance(5_000)
    bed.added(producer, T0)
    row = bed.describe()
    assert (row.state, row.partitions, row.start_ms) == ("Ongoing", (T0,), bed.moment.wall_ms)


def test_more_partitions_join_and_the_beginning_stays() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.added(producer, T0)
    began = bed.moment.wall_ms
    bed.advance(5_000)
    bed.added(producer, T1, T0)
    row = bed.describe()
    assert (row.partitions, row.start_ms) == ((T0, T1), began)


def test_what_is_in_it_already_is_not_written_again() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.added(producer, T0, T1)
    written = len(bed.log.written)
    bed.added(producer, T1)
    assert len(bed.log.written) == written


def test_one_partition_that_does_not_exist_keeps_all_out() -> None:
    bed = TransactionBed()
    producer = bed.started()
    results = bed.add(producer, T0, ("t", 10), ("nowhere", 0))
    assert results == (
        PartitionResult("t", 0, ErrorCode.OPERATION_NOT_ATTEMPTED),
        PartitionResult("t", 10, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        PartitionResult("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    )
    assert bed.state() == "Empty"


def test_clients_add_no_partition_of_an_internal_topic_themselves() -> None:
    bed = TransactionBed()
    producer = bed.started()
    internal = (OFFSETS_TOPIC, 0)
    assert bed.add(producer, T0, internal) == (
        PartitionResult(*T0, ErrorCode.OPERATION_NOT_ATTEMPTED),
        PartitionResult(*internal, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    )
    assert bed.state() == "Empty"
    (of_a_broker,) = bed.add(producer, internal, client_version=2)
    assert of_a_broker.code is ErrorCode.NONE


@pytest.mark.parametrize("verify_only", [False, True])
@pytest.mark.parametrize(
    ("producer", "transactional_id", "code"),
    [
        ((1_000, 0), "y", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ((1_001, 1), "x", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ((1_000, 0), "x", ErrorCode.PRODUCER_FENCED),
        ((1_000, 2), "x", ErrorCode.PRODUCER_FENCED),
        ((1_000, 1), "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_strangers_and_zombies_are_refused(
    producer: tuple[int, int], transactional_id: str, code: ErrorCode, verify_only: bool
) -> None:
    bed = TransactionBed()
    bed.started()
    bed.added(bed.started(), T0)
    assert bed.add_code(producer, T0, transactional_id=transactional_id, verify_only=verify_only) is code


@pytest.mark.parametrize("verify_only", [False, True])
def test_while_markers_are_written_nothing_joins(verify_only: bool) -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.added(producer, T0)
    bed.end(producer)
    assert bed.add_code(producer, T0, verify_only=verify_only) is ErrorCode.CONCURRENT_TRANSACTIONS
    bed.write_markers()
    bed.added(producer, T0)


def test_a_busy_id_is_busy_for_strangers_too() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.log.lag()
    first = bed.ask_add(PartitionsToAdd("x", *producer, (T0,)))
    second = bed.ask_add(PartitionsToAdd("x", 5, 5, (T0,)))
    bed.catch_up()
    codes = [bed.answers[token].transactions[0][1][0].code for token in (first, second)]
    assert codes == [ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS]


def test_verification_tells_which_partitions_are_in_it() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.added(producer, T0)
    written = len(bed.log.written)
    assert bed.add(producer, T0, T1, verify_only=True) == (
        PartitionResult(*T0, ErrorCode.NONE),
        PartitionResult(*T1, ErrorCode.TRANSACTION_ABORTABLE),
    )
    assert len(bed.log.written) == written


def test_after_the_end_nothing_is_in_it() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.added(producer, T0)
    bed.end(producer)
    bed.write_markers()
    assert bed.add_code(producer, T0, verify_only=True) is ErrorCode.TRANSACTION_ABORTABLE


def test_verification_says_nothing_that_is_not_safe() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.log.lag()
    bed.ask_add(PartitionsToAdd("x", *producer, (T0,)))
    token = bed.ask_add(PartitionsToAdd("x", *producer, (T0,), verify_only=True))
    assert token not in bed.answers
    bed.catch_up()
    assert bed.answers[token].transactions[0][1] == (PartitionResult(*T0, ErrorCode.NONE),)


def test_several_transactions_are_answered_together_and_written_at_once() -> None:
    bed = TransactionBed()
    one, other = bed.started("x"), bed.started("y")
    written = len(bed.log.written)
    token = bed.ask_add(
        PartitionsToAdd("x", *one, (T0,)),
        PartitionsToAdd("z", *one, (T0, T1)),
        PartitionsToAdd("y", *other, (T1,)),
        client_version=2,
    )
    no_mapping = tuple(PartitionResult(*each, ErrorCode.INVALID_PRODUCER_ID_MAPPING) for each in (T0, T1))
    assert bed.answers[token] == PartitionsAdded(
        transactions=(
            ("x", (PartitionResult(*T0, ErrorCode.NONE),)),
            ("z", no_mapping),
            ("y", (PartitionResult(*T1, ErrorCode.NONE),)),
        )
    )
    assert len(bed.log.written) == written + 1
    bed.added(one, T1)
    bed.added(other, T0, transactional_id="y")


def test_a_refused_append_leaves_the_transaction_as_it_was() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.log.refusal = ErrorCode.REQUEST_TIMED_OUT
    token = bed.ask_add(PartitionsToAdd("x", *producer, (T0,)))
    assert bed.answers[token] == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bed.state() == "Empty"
    bed.log.refusal = None
    bed.added(producer, T0)


@pytest.mark.parametrize("partitions", [50, 3])
def test_offsets_join_with_the_partition_of_their_group(partitions: int) -> None:
    bed = TransactionBed()
    bed.topics.partitions[OFFSETS_TOPIC] = partitions
    assert bed.add_offsets(bed.started(), "my-group") == OffsetsAdded()
    assert bed.describe().partitions == ((OFFSETS_TOPIC, partition_for("my-group", partitions)),)


def test_offsets_join_before_their_topic_exists() -> None:
    bed = TransactionBed(offsets_partitions=5)
    del bed.topics.partitions[OFFSETS_TOPIC]
    assert bed.add_offsets(bed.started()) == OffsetsAdded()
    assert bed.describe().partitions == ((OFFSETS_TOPIC, partition_for("g", 5)),)


def test_offsets_of_a_zombie_do_not_join() -> None:
    bed = TransactionBed()
    producer = bed.started()
    bed.started()
    assert bed.add_offsets(producer) == OffsetsAdded(code=ErrorCode.PRODUCER_FENCED)


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
