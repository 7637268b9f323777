"""The error codes of logs that can't be read. For each cause, Apache Kafka responds with the same code.

A damaged log affects its partition only: the rest of the request, the connection and the process continue.
"""

from kafkad.core.errors import ErrorCode
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.records.record import MalformedBatch, MalformedRecords, TooManyRecords, UndecodableRecords
from kafkad.core.ports import StorageFailed

DAMAGE = (StorageFailed, CorruptBatch, MalformedRecords)
"""The exceptions of reading a log: disk errors, invalid batches, invalid records in a batch."""


def code_of(error: Exception) -> ErrorCode:
    """`error` is one of `DAMAGE`."""
    match error:
        case StorageFailed():
            return ErrorCode.KAFKA_STORAGE_ERROR
        case CorruptBatch() | MalformedBatch():
            return ErrorCode.CORRUPT_MESSAGE
        case UndecodableRecords() | TooManyRecords():
            # Apache Kafka has no code for a failing codec: it throws a bare KafkaException.
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case MalformedRecords():
            return ErrorCode.INVALID_RECORD
    raise AssertionError(f"{error!r} is not an error of a log")
