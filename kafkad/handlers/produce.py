"""Produce, versions 3 to 13: splits a request into parts for the owners of its partitions, and joins their results.

A request with acks=0 has no response; an error closes the connection instead (as in Apache Kafka). The owner of a
partition verifies transactional batches.
"""

from collections.abc import Sequence

from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.partition_routes import Routing, TopicRoute
from kafkad.wire.messages.leader_hints import LeaderHints
from kafkad.wire.messages.produce import TOPIC_IDS_FROM, PartitionResult, ProduceRequest, pack_response
from kafkad.wire.processes.descriptors import AppendResult, AppendSlice

TopicSlices = tuple[str | bytes, list[tuple[int, int, int]]]
"""A topic, and (partition, start, length) of records for it."""
MAX_PARTITIONS_PER_PART = 2000
"""The descriptors of a part must fit into one message."""


class ProducePart:
    """The part of a request that one worker appends, with the results of its partitions."""

    __slots__ = ("produce", "results", "slices", "worker")

    def __init__(self, produce: "ProduceInFlight", worker: int) -> None:
        self.produce = produce
        self.worker = worker
        self.slices: list[AppendSlice] = []
        self.results: list[PartitionResult] = []

    def complete(self, appended: Sequence[AppendResult]) -> bool:
        """Take the worker's results, in the order of `slices`; True when the whole request is complete."""
        for result, values in zip(self.results, appended, strict=True):
            result.error, result.base_offset, result.log_append_time, result.log_start_offset = values
            if values[0]:
                self.produce.has_error = True
        self.produce.pending_parts -= 1
        return self.produce.pending_parts == 0

    def fail(self, error: ErrorCode) -> bool:
        """Set `error` for all partitions of the part; True when the whole request is complete."""
        self.produce.has_error = True
        for result in self.results:
            result.error = error
        self.produce.pending_parts -= 1
        return self.produce.pending_parts == 0


class ProduceInFlight:
    """One pending Produce request."""

    __slots__ = ("acks", "arena_extent", "context", "has_error", "pending_parts", "timeout_ms", "topics")

    def __init__(self, request: ProduceRequest, context: RequestContext, arena_extent: int) -> None:
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.context = context
        self.arena_extent = arena_extent
        self.pending_parts = 0
        self.has_error = False
        self.topics: list[tuple[str | bytes, list[PartitionResult]]] = []

    def errors(self) -> list[tuple[str | bytes, int, int]]:
        """(topic, partition, error code) of partitions without an append."""
        return [
            (topic, result.partition, result.error)
            for topic, results in self.topics
            for result in results
            if result.error
        ]

    def reply(self, throttle_ms: int, hints: LeaderHints | None = None) -> bytes:
        return pack_response(self.context.version, self.topics, throttle_ms, hints)


def plan(request: ProduceRequest, produce: ProduceInFlight, frame_offset: int, routing: Routing) -> list[ProducePart]:
    """The parts of a request, usually one per worker. Partitions without an owner get their errors here.

    `frame_offset` is the request's position in the arena. The owner checks that a partition is online.
    """
    request_error = _request_error(request)
    open_parts: dict[int, ProducePart] = {}
    parts: list[ProducePart] = []
    for topic, partitions in _each_once(request.topics):
        route = routing.find(topic)
        results = []
        for index, start, length in partitions:
            result = PartitionResult(index, 0)
            results.append(result)
            if request_error is None and route is not None and length > 0 and not route.is_internal:
                slot, owner = route.place(index)
                if owner >= 0:
                    part = open_parts.get(owner)
                    if part is None or len(part.slices) == MAX_PARTITIONS_PER_PART:
                        part = open_parts[owner] = ProducePart(produce, owner)
                        parts.append(part)
                    part.slices.append((slot, route.short_id, frame_offset + start, length))
                    part.results.append(result)
                    continue
            produce.has_error = True
            _set_error(result, request_error, route, length, by_id=produce.context.version >= TOPIC_IDS_FROM)
        produce.topics.append((topic, results))
    produce.pending_parts = len(parts)
    return parts


def _each_once(topics: list[TopicSlices]) -> list[TopicSlices]:
    """As in Apache Kafka, only the last records of a partition count if the request names the partition twice."""
    if len(topics) == 1 and len(topics[0][1]) == 1:
        return topics
    last: dict[str | bytes, dict[int, tuple[int, int, int]]] = {}
    count = 0
    for topic, partitions in topics:
        count += len(partitions)
        rows = last.setdefault(topic, {})
        for row in partitions:
            rows[row[0]] = row
    if sum(map(len, last.values())) == count:
        return topics
    return [(topic, list(rows.values())) for topic, rows in last.items()]


def _request_error(request: ProduceRequest) -> ErrorCode | None:
    if request.acks not in (-1, 0, 1):
        return ErrorCode.INVALID_REQUIRED_ACKS
    return None


def _set_error(
    result: PartitionResult, request_error: ErrorCode | None, route: TopicRoute | None, length: int, *, by_id: bool
) -> None:
    """Set the error of a partition that no owner can append to; the first check of Apache Kafka wins."""
    if route is None:
        result.error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not 0 <= result.partition < len(route.slots):
        result.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif length <= 0:
        result.error = ErrorCode.INVALID_RECORD
        result.message = f"Record batch for partition {route.name}-{result.partition} is empty"
    elif request_error is not None:
        result.error = request_error
    elif route.is_internal:
        result.error = ErrorCode.INVALID_TOPIC_EXCEPTION
    else:
        result.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
