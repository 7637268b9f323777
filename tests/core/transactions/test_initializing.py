"""InitProducerId of a transactional producer: ids and epochs, fencing, refusals (KIP-98, 360)."""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import InitProducerId, ProducerInitialized
from kafkad.core.types import LAST_PRODUCER_EPOCH
from tests.core.coordinator.memory_log import Refused
from tests.core.transactions.bed import T0, TransactionBed


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
