"""The requests between brokers about transactions: WriteTxnMarkers 1 and AddPartitionsToTxn 4 (KIP-890)."""

from collections.abc import Iterable
from dataclasses import dataclass

from kafkad.core.errors import ErrorCode
from kafkad.wire.cluster.schema import (
    Field,
    Message,
    array_of,
    boolean,
    constant,
    error_code,
    int16,
    int32,
    int64,
    string,
    struct_of,
)

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsOfTopic:
    name: str
    partitions: tuple[int, ...]


def by_topic(partitions: Iterable[Partition]) -> tuple[PartitionsOfTopic, ...]:
    topics: dict[str, list[int]] = {}
    for name, partition in partitions:
        topics.setdefault(name, []).append(partition)
    return tuple(PartitionsOfTopic(name=name, partitions=tuple(indexes)) for name, indexes in topics.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnMarker:
    producer_id: int
    producer_epoch: int
    is_commit: bool
    topics: tuple[PartitionsOfTopic, ...]
    coordinator_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersRequest:
    """One marker for each producer id."""

    markers: tuple[TxnMarker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionToVerify:
    """Without `verify_only` the coordinator adds missing partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: tuple[PartitionsOfTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationRequest:
    transactions: tuple[TransactionToVerify, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationResponse:
    """`codes` has an error code for each partition, by transactional id; `error_code` is for the whole request."""

    error_code: ErrorCode
    codes: dict[str, dict[Partition, ErrorCode]]


MarkerCodes = dict[int, dict[Partition, ErrorCode]]
"""An error code for each partition, by producer id."""
_Row = tuple[int, ErrorCode]
_Topic = tuple[str, tuple[_Row, ...]]


def _row(*, partition_index: int, error_code: ErrorCode) -> _Row:
    return partition_index, error_code


def _topic_result(*, name: str, partitions: tuple[_Row, ...]) -> _Topic:
    return name, partitions


def _flat(topics: Iterable[_Topic]) -> dict[Partition, ErrorCode]:
    return {(name, partition): code for name, rows in topics for partition, code in rows}


def _marker_result(*, producer_id: int, topics: tuple[_Topic, ...]) -> tuple[int, dict[Partition, ErrorCode]]:
    return producer_id, _flat(topics)


def _markers(*, markers: tuple[tuple[int, dict[Partition, ErrorCode]], ...]) -> MarkerCodes:
    return dict(markers)


def _transaction_result(*, transactional_id: str, topics: tuple[_Topic, ...]) -> tuple[str, dict[Partition, ErrorCode]]:
    return transactional_id, _flat(topics)


def _verified(
    *, error_code: ErrorCode, transactions: tuple[tuple[str, dict[Partition, ErrorCode]], ...]
) -> VerificationResponse:
    return VerificationResponse(error_code=error_code, codes=dict(transactions))


_TOPIC = struct_of(PartitionsOfTopic, (Field("name", string), Field("partitions", array_of(int32))))
_MARKER = (
    Field("producer_id", int64),
    Field("producer_epoch", int16),
    Field("is_commit", boolean),
    Field("topics", array_of(_TOPIC)),
    Field("coordinator_epoch", int32),
)
_TRANSACTION = (
    Field("transactional_id", string),
    Field("producer_id", int64),
    Field("producer_epoch", int16),
    Field("verify_only", boolean),
    Field("topics", array_of(_TOPIC)),
)
_ROW = struct_of(_row, (Field("partition_index", int32), Field("error_code", error_code)))
_TOPIC_RESULT = struct_of(_topic_result, (Field("name", string), Field("partitions", array_of(_ROW))))
_RESULTS = Field("topics", array_of(_TOPIC_RESULT))

WRITE_TXN_MARKERS_1: Message[WriteTxnMarkersRequest, MarkerCodes] = Message(
    name="WriteTxnMarkers",
    newest=1,
    flexible_from=1,
    request=struct_of(WriteTxnMarkersRequest, (Field("markers", array_of(struct_of(TxnMarker, _MARKER))),)),
    response=struct_of(
        _markers, (Field("markers", array_of(struct_of(_marker_result, (Field("producer_id", int64), _RESULTS)))),)
    ),
)

ADD_PARTITIONS_TO_TXN_4: Message[VerificationRequest, VerificationResponse] = Message(
    name="AddPartitionsToTxn",
    newest=4,
    flexible_from=3,
    request=struct_of(
        VerificationRequest, (Field("transactions", array_of(struct_of(TransactionToVerify, _TRANSACTION))),)
    ),
    response=struct_of(
        _verified,
        (
            constant("throttle_time_ms", int32, 0),
            Field("error_code", error_code),
            Field(
                "transactions",
                array_of(struct_of(_transaction_result, (Field("transactional_id", string), _RESULTS))),
            ),
        ),
    ),
)
