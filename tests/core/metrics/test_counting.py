"""Each refused batch moves the counters of its reason; ordinary reasons are no failures of the broker."""

import pytest

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.record_checks import InvalidRecords, RecordError
from kafkad.core.metrics.catalogue import (
    BLOCK_WORDS,
    BYTES_REJECTED,
    FAILED_PRODUCE,
    INVALID_CRC,
    INVALID_SEQUENCE,
    NO_KEY_COMPACTED,
)
from kafkad.core.metrics.counting import count_rejected, count_storage_failure

KEYLESS = InvalidRecords(ErrorCode.INVALID_RECORD, "", [RecordError(0, "no key"), RecordError(2, "no key")])


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (KafkaError(ErrorCode.CORRUPT_MESSAGE), {INVALID_CRC: 1}),
        (KafkaError(ErrorCode.MESSAGE_TOO_LARGE), {BYTES_REJECTED: 700}),
        (KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE), {BYTES_REJECTED: 700}),
        (KafkaError(ErrorCode.INVALID_RECORD), {INVALID_SEQUENCE: 1, FAILED_PRODUCE: 1}),
        (KEYLESS, {NO_KEY_COMPACTED: 2, FAILED_PRODUCE: 1}),
        (KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), {FAILED_PRODUCE: 1}),
    ],
)
def test_refused_batch_is_counted_by_its_reason(error: KafkaError, counted: dict[int, int]) -> None:
    block = memoryview(bytearray(8 * BLOCK_WORDS)).cast("Q")
    count_rejected(block, error, 700)
    assert {index: word for index, word in enumerate(block) if word} == counted


def test_batch_that_the_disk_did_not_take_is_a_failure() -> None:
    block = memoryview(bytearray(8 * BLOCK_WORDS)).cast("Q")
    count_storage_failure(block)
    assert block[FAILED_PRODUCE] == 1
