"""Which code does a client get when a log can't be read? The one that Apache Kafka answers with, for each cause.

A damaged log affects nothing else: neither the rest of the request, nor the connection, nor the process.
"""

from kafkad.core.errors import ErrorCode
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.records.record import MalformedBatch, MalformedRecords, TooManyRecords, UndecodableRecords
from kafkad.core.ports import StorageFailed

DAMAGE = (StorageFailed, CorruptBatch, MalformedRecords)
"""The errors of reading a log: of the disk, of an invalid batch, of invalid records in a batch."""


def code_of(error: Exception) -> ErrorCode:
    """`error` is one of `DAMAGE`."""
    match error:
        case StorageFailed():
            return ErrorCode.KAFKA_STORAGE_ERROR
        case CorruptBatch() | MalformedBatch():
            return ErrorCode.CORRUPT_MESSAGE
        case UndecodableRecords() | TooManyRecords():
            # Apache Kafka has no code for a codec that fails: it is a bare KafkaException there.
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case MalformedRecords():
            return ErrorCode.INVALID_RECORD
    raise AssertionError(f"{error!r} says nothing about a log")
