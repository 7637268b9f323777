"""Transactions: the requests of `kafkad transactions`, with a `BrokerClient` (KIP-664).

They describe transactional ids from their coordinator and producers from the partition's leader, and abort hanging
transactions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_producers.v0.response import DescribeProducersResponse
from kio.schema.describe_transactions.v0 import response as described
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.schema.write_txn_markers.v1.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v1.response import WriteTxnMarkersResponse
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from kafkad.client.broker_client import BrokerClient, raise_for
from kafkad.client.connection import BrokerConnection

_TRANSACTION_KEY = i8(1)
_NOT_SET = -1
_MILLISECOND = 1_000

Partition = tuple[str, int]


class ListedTransaction(NamedTuple):
    """`coordinator` is a broker id, `state` as in Kafka's protocol."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """`start_ms` is None without a transaction."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[Partition, ...]


class ProducerState(NamedTuple):
    """An active producer of a partition. `start_offset` is None without an open transaction."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp: int
    start_offset: int | None


# kio rejects times before 1970; in this response -1 means no transaction.
@dataclass(frozen=True, slots=True, kw_only=True)
class _TransactionState:
    __type__: ClassVar = described.TransactionState.__type__
    __version__: ClassVar = described.TransactionState.__version__
    __flexible__: ClassVar = described.TransactionState.__flexible__
    __api_key__: ClassVar = described.TransactionState.__api_key__
    __header_schema__: ClassVar = described.TransactionState.__header_schema__
    error_code: KioErrorCode = field(metadata={"kafka_type": "error_code"})
    transactional_id: TransactionalId = field(metadata={"kafka_type": "string"})
    transaction_state: str = field(metadata={"kafka_type": "string"})
    transaction_timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_start_time: i64 = field(metadata={"kafka_type": "int64"})
    producer_id: ProducerId = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})
    topics: tuple[described.TopicData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DescribeTransactionsResponse:
    __type__: ClassVar = described.DescribeTransactionsResponse.__type__
    __version__: ClassVar = described.DescribeTransactionsResponse.__version__
    __flexible__: ClassVar = described.DescribeTransactionsResponse.__flexible__
    __api_key__: ClassVar = described.DescribeTransactionsResponse.__api_key__
    __header_schema__: ClassVar = described.DescribeTransactionsResponse.__header_schema__
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_states: tuple[_TransactionState, ...]


def list_transactions(
    client: BrokerClient, *, duration_ms: int = _NOT_SET, pattern: str | None = None, producer_ids: Sequence[int] = ()
) -> list[ListedTransaction]:
    """The transactional ids of all coordinators that pass the filters, sorted."""
    request = ListTransactionsRequest(
        duration_filter=i64(duration_ms),
        transactional_id_pattern=pattern,
        producer_id_filters=tuple(map(ProducerId, producer_ids)),
    )

    def attempt() -> list[ListedTransaction]:
        found = []
        for broker_id, broker in _brokers(client):
            response = broker.call(request, ListTransactionsResponse)
            raise_for(response.error_code, f"{broker.peer} can't list its transactions", None)
            found += [
                ListedTransaction(str(row.transactional_id), broker_id, int(row.producer_id), row.transaction_state)
                for row in response.transaction_states
            ]
        return sorted(found)

    return client.until_deadline(attempt)


def describe_transaction(client: BrokerClient, transactional_id: str) -> TransactionDescription:
    """Raises TRANSACTIONAL_ID_NOT_FOUND."""

    def attempt() -> TransactionDescription:
        coordinator, broker_id = _coordinator_of(client, transactional_id)
        request = DescribeTransactionsRequest(transactional_ids=(TransactionalId(transactional_id),))
        (row,) = coordinator.call(request, _DescribeTransactionsResponse).transaction_states
        raise_for(row.error_code, f"transactional id {transactional_id!r} can't be described", None)
        return TransactionDescription(
            transactional_id=transactional_id,
            coordinator=broker_id,
            producer_id=int(row.producer_id),
            producer_epoch=int(row.producer_epoch),
            state=row.transaction_state,
            timeout_ms=round(row.transaction_timeout.total_seconds() * _MILLISECOND),
            start_ms=None if row.transaction_start_time < 0 else int(row.transaction_start_time),
            partitions=tuple((str(each.topic), int(index)) for each in row.topics for index in each.partitions),
        )

    return client.until_deadline(attempt)


def producers_of(client: BrokerClient, topic: str, partition: int) -> list[ProducerState]:
    """The active producers of the partition, from its leader."""
    requested = TopicRequest(name=TopicName(topic), partition_indexes=(i32(partition),))

    def attempt() -> list[ProducerState]:
        leader = client.leader_of(topic, partition)
        response = leader.call(DescribeProducersRequest(topics=(requested,)), DescribeProducersResponse)
        found = []
        for row in (row for each in response.topics for row in each.partitions):
            raise_for(row.error_code, f"the producers of {topic}-{partition} can't be described", row.error_message)
            for each in row.active_producers:
                start = int(each.current_txn_start_offset)
                found.append(
                    ProducerState(
                        topic=topic,
                        partition=partition,
                        producer_id=int(each.producer_id),
                        producer_epoch=int(each.producer_epoch),
                        coordinator_epoch=int(each.coordinator_epoch),
                        last_timestamp=int(each.last_timestamp),
                        start_offset=None if start < 0 else start,
                    )
                )
        return found

    return client.until_deadline(attempt)


def abort_transaction(
    client: BrokerClient, partition: Partition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Write an abort marker for a hanging transaction. Raises if the leader rejects the marker."""
    topic, index = partition
    marker = WritableTxnMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(producer_epoch),
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=TopicName(topic), partition_indexes=(i32(index),)),),
        coordinator_epoch=i32(coordinator_epoch),
    )

    def attempt() -> None:
        response = client.leader_of(topic, index).call(
            WriteTxnMarkersRequest(markers=(marker,)), WriteTxnMarkersResponse
        )
        for row in (row for each in response.markers for topic_row in each.topics for row in topic_row.partitions):
            raise_for(row.error_code, f"the transaction on {topic}-{index} was not aborted", None)

    client.until_deadline(attempt)


def _brokers(client: BrokerClient) -> list[tuple[int, BrokerConnection]]:
    request = MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    response = client.any_broker().call(request, MetadataResponse)
    return [(int(each.node_id), client.connection_to(each.host, each.port)) for each in response.brokers]


def _coordinator_of(client: BrokerClient, transactional_id: str) -> tuple[BrokerConnection, int]:
    request = FindCoordinatorRequest(key_type=_TRANSACTION_KEY, coordinator_keys=(transactional_id,))
    (found,) = client.any_broker().call(request, FindCoordinatorResponse).coordinators
    raise_for(found.error_code, f"transactional id {transactional_id!r} has no coordinator", found.error_message)
    return client.connection_to(found.host, found.port), int(found.node_id)
