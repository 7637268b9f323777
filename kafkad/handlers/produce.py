"""Produce, versions 3 to 13: splits a request into parts for the owners of its partitions, and joins their answers.

Acks 0 takes the same path; it has no reply, and an error closes the connection instead (as in Apache Kafka). The owner
of a partition verifies that a transactional batch is in its transaction.
"""

from collections.abc import Sequence

from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.partition_routes import Routing, TopicRoute
from kafkad.wire.messages.leader_hints import LeaderHints
from kafkad.wire.messages.produce import TOPIC_IDS_FROM, PartitionResult, ProduceRequest, pack_response
from kafkad.wire.processes.descriptors import AppendResult, AppendSlice

Caller = tuple[str | bytes, list[tuple[int, int, int]]]
"""A topic, and (partition, start, length) of records for it."""
PARTITIONS_OF_A_PART = 2000
"""The most partitions in one part, as its descriptors have to fit into one message."""


class ProducePart:
    """The part of a request that one worker appends, and the results that its answers go to."""

    __slots__ = ("produce", "results", "slices", "worker")

    def __init__(self, produce: "ProduceInFlight", worker: int) -> None:
        self.produce = produce
        self.worker = worker
        self.slices: list[AppendSlice] = []
        self.results: list[PartitionResult] = []

    def answer(self, answers: Sequence[AppendResult]) -> bool:
        """Take the worker's results, in the order of the question; True when the request is complete."""
        for result, answer in zip(self.results, answers, strict=True):
            result.error, result.base_offset, result.log_append_time, result.log_start_offset = answer
            if answer[0]:
                self.produce.has_error = True
        self.produce.shares_open -= 1
        return self.produce.shares_open == 0

    def fail(self, error: ErrorCode) -> bool:
        self.produce.has_error = True
        for result in self.results:
            result.error = error
        self.produce.shares_open -= 1
        return self.produce.shares_open == 0


class ProduceInFlight:
    """One Produce between request and reply."""

    __slots__ = ("acks", "arena_extent", "context", "has_error", "shares_open", "timeout_ms", "topics")

    def __init__(self, request: ProduceRequest, context: RequestContext, arena_extent: int) -> None:
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.context = context
        self.arena_extent = arena_extent
        self.shares_open = 0
        self.has_error = False
        self.topics: list[tuple[str | bytes, list[PartitionResult]]] = []

    def errors(self) -> list[tuple[str | bytes, int, int]]:
        """(topic, partition, error code) of what was not appended."""
        return [
            (topic, result.partition, result.error)
            for topic, results in self.topics
            for result in results
            if result.error
        ]

    def reply(self, throttle_ms: int, hints: LeaderHints | None = None) -> bytes:
        return pack_response(self.context.version, self.topics, throttle_ms, hints)


def plan(request: ProduceRequest, produce: ProduceInFlight, frame_offset: int, routing: Routing) -> list[ProducePart]:
    """The parts of a request, mostly one for each worker. Partitions without an owner have their error already.

    `frame_offset` is where the request begins in the arena. The owner decides whether a partition is online.
    """
    refused = _refusal(request)
    parts: dict[int, ProducePart] = {}
    made: list[ProducePart] = []
    for topic, partitions in _each_once(request.topics):
        route = routing.find(topic)
        results = []
        for index, start, length in partitions:
            result = PartitionResult(index, 0)
            results.append(result)
            if refused is None and route is not None and length > 0 and not route.is_internal:
                slot, owner = route.place(index)
                if owner >= 0:
                    part = parts.get(owner)
                    if part is None or len(part.slices) == PARTITIONS_OF_A_PART:
                        part = parts[owner] = ProducePart(produce, owner)
                        made.append(part)
                    part.slices.append((slot, route.short_id, frame_offset + start, length))
                    part.results.append(result)
                    continue
            produce.has_error = True
            _explain(result, refused, route, length, by_id=produce.context.version >= TOPIC_IDS_FROM)
        produce.topics.append((topic, results))
    produce.shares_open = len(made)
    return made


def _each_once(topics: list[Caller]) -> list[Caller]:
    """If a partition is named twice, its last records are appended and it has one answer, as in Apache Kafka."""
    if len(topics) == 1 and len(topics[0][1]) == 1:
        return topics
    last: dict[str | bytes, dict[int, tuple[int, int, int]]] = {}
    named = 0
    for topic, partitions in topics:
        named += len(partitions)
        rows = last.setdefault(topic, {})
        for row in partitions:
            rows[row[0]] = row
    if sum(map(len, last.values())) == named:
        return topics
    return [(topic, list(rows.values())) for topic, rows in last.items()]


def _refusal(request: ProduceRequest) -> ErrorCode | None:
    if request.acks not in (-1, 0, 1):
        return ErrorCode.INVALID_REQUIRED_ACKS
    return None


def _explain(
    result: PartitionResult, refused: ErrorCode | None, route: TopicRoute | None, length: int, *, by_id: bool
) -> None:
    """The error of a partition that no owner can append to, the first that Apache Kafka finds."""
    if route is None:
        result.error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not 0 <= result.partition < len(route.slots):
        result.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif length <= 0:
        result.error = ErrorCode.INVALID_RECORD
        result.message = f"Record batch for partition {route.name}-{result.partition} is empty"
    elif refused is not None:
        result.error = refused
    elif route.is_internal:
        result.error = ErrorCode.INVALID_TOPIC_EXCEPTION
    else:
        result.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
