"""WriteTxnMarkers, versions 1 and 2: the owners of partitions write the markers of transactions.

Coordinators send this request to other brokers; `kafka-transactions abort` sends it for hanging transactions.
"""

from typing import Any

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.leadership import find_leader
from kafkad.handlers.partitions.rows_by_worker import WORKER_LOST
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.kio_codec import codec
from kafkad.wire.processes.descriptors import (
    ControlMessage,
    TxnMarkerEntry,
    TxnMarkersWritten,
    WriteTxnMarkersOrder,
    short_topic_id,
)


class _Row:
    """One partition of one marker. Mutable: the owner's result completes it."""

    __slots__ = ("error", "index", "marker", "topic")

    def __init__(self, marker: int, topic: str, index: int) -> None:
        self.marker = marker
        self.topic = topic
        self.index = index
        self.error: int = ErrorCode.NONE


class PendingWriteTxnMarkers:
    """See `OwnerRequest`."""

    def __init__(self, version: int) -> None:
        self.timeout_ms: int | None = None
        self._version = version
        self._markers: list[Any] = []
        self._rows: list[_Row] = []
        self._by_worker: dict[int, dict[int, list[tuple[int, int, _Row]]]] = {}
        """By worker and index of the marker: (slot, short_id, row) of its partitions."""

    def add_request(self, request: Any, view: BrokerView) -> None:
        self._markers = list(request.markers)
        for number, marker in enumerate(self._markers):
            for topic in marker.topics:
                for index in topic.partition_indexes:
                    row = _Row(number, topic.name, index)
                    self._rows.append(row)
                    self._place(row, view)

    def _place(self, row: _Row, view: BrokerView) -> None:
        try:
            slot, published = find_leader(view, row.topic, row.index)
        except KafkaError as error:
            # As in Apache Kafka, a partition that can't be written gets the error of an unknown one.
            is_offline = error.code == ErrorCode.KAFKA_STORAGE_ERROR
            row.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_offline else error.code
            return
        markers = self._by_worker.setdefault(published.owner, {})
        markers.setdefault(row.marker, []).append((slot, short_topic_id(published.topic_id), row))

    def workers(self) -> list[int]:
        return list(self._by_worker)

    def message(self, worker: int, part_id: int, deadline_ms: int) -> ControlMessage:
        markers = self._by_worker[worker]
        rows = [self._marker_row(number, [place[:2] for place in places]) for number, places in markers.items()]
        return WriteTxnMarkersOrder(part_id, rows)

    def _marker_row(self, number: int, partitions: list[tuple[int, int]]) -> TxnMarkerEntry:
        marker = self._markers[number]
        return TxnMarkerEntry(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            getattr(marker, "transaction_version", 0),
            partitions,
        )

    def complete(self, worker: int, message: ControlMessage) -> None:
        assert isinstance(message, TxnMarkersWritten)
        for places, codes in zip(self._by_worker[worker].values(), message.results, strict=True):
            for (_slot, _short_id, row), code in zip(places, codes, strict=True):
                row.error = code

    def fail(self, worker: int) -> None:
        for places in self._by_worker[worker].values():
            for _slot, _short_id, row in places:
                row.error = WORKER_LOST

    def body(self) -> bytes:
        """One entry for each producer id, also if several markers have the same producer id."""
        errors: dict[int, dict[str, dict[int, int]]] = {}
        for row in self._rows:
            topics = errors.setdefault(self._markers[row.marker].producer_id, {})
            topics.setdefault(row.topic, {})[row.index] = row.error
        messages = codec("write_txn_markers", self._version)
        markers = tuple(
            messages.part(
                "WritableTxnMarkerResult",
                producer_id=producer_id,
                topics=tuple(_packed(messages, topic, codes) for topic, codes in topics.items()),
            )
            for producer_id, topics in errors.items()
        )
        return messages.encode(markers=markers)


def pending_request(body: memoryview, context: RequestContext, view: BrokerView) -> PendingWriteTxnMarkers:
    """Raises MalformedRequest."""
    request = codec("write_txn_markers", context.version).decode(body)
    pending = PendingWriteTxnMarkers(context.version)
    pending.add_request(request, view)
    return pending


def _packed(messages: Any, topic: str, codes: dict[int, int]) -> Any:
    return messages.part(
        "WritableTxnMarkerTopicResult",
        name=topic,
        partitions=tuple(
            messages.part("WritableTxnMarkerPartitionResult", partition_index=index, error_code=code)
            for index, code in codes.items()
        ),
    )
