"""Which metrics count a batch that was not appended? As in Apache Kafka, a corrupt or too large batch does not count as
failed: the counter of failures is for problems that need an operator.
"""

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.record_checks import InvalidRecords
from kafkad.core.metrics.catalogue import (
    BYTES_REJECTED,
    FAILED_PRODUCE,
    INVALID_CRC,
    INVALID_SEQUENCE,
    NO_KEY_COMPACTED,
)
from kafkad.core.metrics.histograms import Block

_CLIENT_ERRORS = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def count_rejected(block: Block, error: KafkaError, size: int) -> None:
    """Count a batch of `size` bytes that was rejected with `error`."""
    match error.code:
        case ErrorCode.CORRUPT_MESSAGE:
            block[INVALID_CRC] += 1
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
            block[BYTES_REJECTED] += size
        case ErrorCode.INVALID_RECORD if isinstance(error, InvalidRecords):
            block[NO_KEY_COMPACTED] += len(error.record_errors)
        case ErrorCode.INVALID_RECORD:
            block[INVALID_SEQUENCE] += 1
    if error.code not in _CLIENT_ERRORS:
        block[FAILED_PRODUCE] += 1


def count_storage_failure(block: Block) -> None:
    """Count a batch that the disk failed to write."""
    block[FAILED_PRODUCE] += 1
