"""DescribeProducers, version 0: the active producers of partitions, from the owners of the partitions.

A partition that the request names several times has one row in the response: its producers may be megabytes.
"""

from typing import Any

from kafkad.core.controller.topics.names import check_topic_name
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.leadership import find_leader
from kafkad.handlers.partitions.rows_by_worker import WORKER_LOST, RowsByWorker
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.kio_codec import codec
from kafkad.wire.messages.describe_producers import pack_partition, pack_response
from kafkad.wire.processes.descriptors import ControlMessage, Producers, ProducersRequest


class _Row:
    """One partition of the response. Mutable: the owner's result completes it."""

    __slots__ = ("count", "error", "index", "message", "producers")

    def __init__(self, index: int) -> None:
        self.index = index
        self.error: int = ErrorCode.NONE
        self.message: str | None = None
        self.count = 0
        self.producers = b""


class PendingDescribeProducers:
    """See `OwnerRequest`."""

    def __init__(self) -> None:
        self.timeout_ms: int | None = None
        self._by_worker: RowsByWorker[_Row] = RowsByWorker()
        self._topics: list[tuple[str, list[_Row]]] = []

    def add_request(self, request: Any, view: BrokerView) -> None:
        named: dict[str, set[int]] = {}
        for topic in request.topics:
            seen = named.setdefault(topic.name, set())
            rows = [_Row(index) for index in dict.fromkeys(topic.partition_indexes) if index not in seen]
            seen.update(topic.partition_indexes)
            self._topics.append((topic.name, rows))
            for row in rows:
                self._place(topic.name, row, view)

    def _place(self, name: str, row: _Row, view: BrokerView) -> None:
        try:
            _check_topic(name, view)
            slot, published = find_leader(view, name, row.index)
        except KafkaError as error:
            row.error, row.message = error.code, error.message
        else:
            self._by_worker.add(published.owner, slot, published.topic_id, row)

    def workers(self) -> list[int]:
        return self._by_worker.workers()

    def message(self, worker: int, part_id: int, deadline_ms: int) -> ControlMessage:
        return ProducersRequest(part_id, [(slot, short_id) for slot, short_id, _row in self._by_worker.entries(worker)])

    def complete(self, worker: int, message: ControlMessage) -> None:
        assert isinstance(message, Producers)
        for row, (error, count, producers) in zip(self._by_worker.rows(worker), message.results, strict=True):
            row.error, row.count, row.producers = error, count, producers

    def fail(self, worker: int) -> None:
        for row in self._by_worker.rows(worker):
            row.error = WORKER_LOST

    def body(self) -> bytes:
        return pack_response(
            [
                (name, [pack_partition(row.index, row.error, row.message, row.count, row.producers) for row in rows])
                for name, rows in self._topics
            ]
        )


def pending_request(body: memoryview, context: RequestContext, view: BrokerView) -> PendingDescribeProducers:
    """Raises MalformedRequest."""
    request = codec("describe_producers", context.version).decode(body)
    pending = PendingDescribeProducers()
    pending.add_request(request, view)
    return pending


def _check_topic(name: str, view: BrokerView) -> None:
    """Errors of a topic have a message, errors of a partition have none (as in Apache Kafka)."""
    check_topic_name(name)
    if name not in view.image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
