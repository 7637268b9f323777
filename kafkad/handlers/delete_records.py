"""DeleteRecords, versions 0 to 2: the owners move the log start of partitions forward.

Unknown partitions, internal topics and topics with compaction only are rejected without a request to an owner: records
of compacted topics must not be deleted.
"""

from datetime import timedelta
from typing import Any

from kafkad.core.controller.image import DEFAULT_BROKER
from kafkad.core.controller.topics.names import is_internal
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.leadership import find_leader
from kafkad.handlers.partitions.rows_by_worker import WORKER_LOST, RowsByWorker
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.kio_codec import codec
from kafkad.wire.processes.descriptors import ControlMessage, DeletedRecords, DeleteRecordsRequest

NO_LOW_WATERMARK = -1
_COMPACT = "compact"
_DELETING = frozenset({"delete", "delete-exported"})


class _Row:
    """One partition of the response. Mutable: the owner's result completes it."""

    __slots__ = ("error", "index", "low_watermark", "offset")

    def __init__(self, index: int, offset: int) -> None:
        self.index = index
        self.offset = offset
        self.error: int = ErrorCode.NONE
        self.low_watermark = NO_LOW_WATERMARK


class PendingDeleteRecords:
    """See `OwnerRequest`."""

    def __init__(self, version: int) -> None:
        self.timeout_ms: int | None = None
        self._version = version
        self._by_worker: RowsByWorker[_Row] = RowsByWorker()
        self._topics: dict[str, dict[int, _Row]] = {}

    def add_request(self, request: Any, view: BrokerView) -> None:
        self.timeout_ms = max(0, request.timeout // timedelta(milliseconds=1))
        for topic in request.topics:
            rows = self._topics.setdefault(topic.name, {})
            for partition in topic.partitions:
                rows[partition.partition_index] = _Row(partition.partition_index, partition.offset)
        for name, rows in self._topics.items():
            for row in rows.values():
                self._place(name, row, view)

    def _place(self, name: str, row: _Row, view: BrokerView) -> None:
        try:
            slot, published = find_leader(view, name, row.index)
            _check_policy(name, view)
        except KafkaError as error:
            row.error = error.code
        else:
            self._by_worker.add(published.owner, slot, published.topic_id, row)

    def workers(self) -> list[int]:
        return self._by_worker.workers()

    def message(self, worker: int, part_id: int, deadline_ms: int) -> ControlMessage:
        partitions = [(slot, short_id, row.offset) for slot, short_id, row in self._by_worker.entries(worker)]
        return DeleteRecordsRequest(part_id, deadline_ms, partitions)

    def complete(self, worker: int, message: ControlMessage) -> None:
        assert isinstance(message, DeletedRecords)
        for row, (error, low_watermark) in zip(self._by_worker.rows(worker), message.results, strict=True):
            row.error, row.low_watermark = error, low_watermark

    def fail(self, worker: int) -> None:
        for row in self._by_worker.rows(worker):
            row.error = WORKER_LOST

    def body(self) -> bytes:
        messages = codec("delete_records", self._version)
        topics = []
        for name, rows in self._topics.items():
            results = (
                messages.part(
                    "DeleteRecordsPartitionResult",
                    partition_index=row.index,
                    low_watermark=row.low_watermark,
                    error_code=row.error,
                )
                for row in rows.values()
            )
            topics.append(messages.part("DeleteRecordsTopicResult", name=name, partitions=tuple(results)))
        return messages.encode(topics=tuple(topics))


def pending_request(body: memoryview, context: RequestContext, view: BrokerView) -> PendingDeleteRecords:
    """Raises MalformedRequest."""
    request = codec("delete_records", context.version).decode(body)
    pending = PendingDeleteRecords(context.version)
    pending.add_request(request, view)
    return pending


def _check_policy(name: str, view: BrokerView) -> None:
    if is_internal(name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    policies = {policy.strip() for policy in _cleanup_policy(name, view).split(",")}
    if _COMPACT in policies and policies.isdisjoint(_DELETING):
        raise KafkaError(ErrorCode.POLICY_VIOLATION)


def _cleanup_policy(name: str, view: BrokerView) -> str:
    """The topic's cleanup.policy, or the default: dynamic of this broker, dynamic of all brokers, or from the file."""
    topic = view.image.topics.get(name)
    own = topic.configs.get("cleanup.policy") if topic is not None else None
    if own is not None:
        return own
    for broker in (str(view.broker_id), DEFAULT_BROKER):
        policy = view.image.broker_configs.get(broker, {}).get("log.cleanup.policy")
        if policy is not None:
            return policy
    return view.cleanup_policy
