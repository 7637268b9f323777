"""AddPartitionsToTxn, AddOffsetsToTxn, verification: which partitions join, refusals, and that it is all or nothing."""

import pytest

from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import OffsetsAdded, PartitionResult, PartitionsAdded, PartitionsToAdd
from kafkad.core.transactions.shard import OFFSETS_TOPIC
from tests.core.coordinator.memory_log import Refused
from tests.core.transactions.bed import T0, T1, TransactionBed


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
