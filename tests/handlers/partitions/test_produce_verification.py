"""What clients of each Produce version are told when the coordinator refuses."""

import pytest

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.handlers.partitions.produce_verification import (
    adds_partitions,
    check_sole_producer,
    may_retry,
    verification_error,
)

BUSY, ABORTABLE = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.TRANSACTION_ABORTABLE
RETRY, WRONG = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("code", "old", "abortable", "adding"),
    [
        (ErrorCode.PRODUCER_FENCED, *[ErrorCode.INVALID_PRODUCER_EPOCH] * 3),
        (ErrorCode.INVALID_PRODUCER_EPOCH, *[ErrorCode.INVALID_PRODUCER_EPOCH] * 3),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, *[ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 3),
        (ABORTABLE, WRONG, ABORTABLE, ABORTABLE),
        (WRONG, WRONG, WRONG, WRONG),
        (BUSY, RETRY, RETRY, BUSY),
        (ErrorCode.NOT_COORDINATOR, RETRY, RETRY, RETRY),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, RETRY, RETRY, RETRY),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, RETRY, RETRY, RETRY),
        (ErrorCode.NETWORK_EXCEPTION, RETRY, RETRY, RETRY),
    ],
)
def test_each_version_is_told_what_it_understands(
    code: ErrorCode, old: ErrorCode, abortable: ErrorCode, adding: ErrorCode
) -> None:
    told = [error.code for version in (10, 11, 12) if (error := verification_error(code, version)) is not None]
    assert told == [old, abortable, adding]


def test_what_is_not_refused_is_no_error() -> None:
    assert verification_error(ErrorCode.NONE, 11) is None


def test_only_clients_that_let_the_batch_add_the_partition_are_asked_for_again() -> None:
    assert [version for version in range(3, 14) if adds_partitions(version)] == [12, 13]
    assert may_retry([ErrorCode.NONE, BUSY], 12)
    assert not may_retry([ErrorCode.NONE, BUSY], 11)
    assert not may_retry([WRONG], 12)


def test_a_request_has_one_transactional_producer() -> None:
    assert check_sole_producer([]) is None
    assert check_sole_producer([(7, 0), (7, 0)]) == (7, 0)
    with pytest.raises(KafkaError) as caught:
        check_sole_producer([(7, 0), (7, 1)])
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
