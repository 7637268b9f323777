"""Splits a controller's request about thousands of partitions, so that handling it does not block the broker.

Each partition is handled by itself; only the epochs apply to all, and each part of the request has them. A topic is
split only if it is larger than a part; then its last partition comes first, so that partition counts are complete.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from kafkad.core.cluster.control_requests import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    LeaderAndIsrTopicError,
    PartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from kafkad.core.errors import ErrorCode

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse
AnyTopic = TypeVar("AnyTopic", LeaderAndIsrTopic, UpdateMetadataTopic, StopReplicaTopic)

MOST = 128
"""Partitions of a part: one partition takes one or two milliseconds."""


def split_request(request: ControlRequest, most: int = MOST) -> Iterator[ControlRequest]:
    """Requests that together are equivalent to this one."""
    if sum(len(topic.partition_states) for topic in request.topic_states) <= most:
        yield request
        return
    match request:
        case LeaderAndIsrRequest():
            yield from (replace(request, topic_states=topics) for topics in _cut(request.topic_states, most))
        case UpdateMetadataRequest():
            yield from (replace(request, topic_states=topics) for topics in _cut(request.topic_states, most))
        case StopReplicaRequest():
            yield from (replace(request, topic_states=topics) for topics in _cut(request.topic_states, most))


def _cut(topics: Sequence[AnyTopic], most: int) -> Iterator[tuple[AnyTopic, ...]]:
    part: list[AnyTopic] = []
    size = 0
    for topic in topics:
        for piece in _pieces(topic, most):
            count = len(piece.partition_states)
            if part and size + count > most:
                yield tuple(part)
                part, size = [], 0
            part.append(piece)
            size += count
    yield tuple(part)


def _pieces(topic: AnyTopic, most: int) -> Iterator[AnyTopic]:
    if len(topic.partition_states) <= most:
        yield topic
        return
    indexes: list[int] = [each.partition_index for each in topic.partition_states]
    last: int = indexes.index(max(indexes))
    order: list[int] = [last, *range(last), *range(last + 1, len(indexes))]
    for at in range(0, len(order), most):
        yield replace(topic, partition_states=tuple(topic.partition_states[each] for each in order[at : at + most]))


def merged_response(responses: Sequence[ControlResponse]) -> ControlResponse:
    """The response to a request from those to its parts. If one part is rejected, as its epoch is over, all are."""
    first = responses[0]
    rejected = next((each for each in responses if each.error_code is not ErrorCode.NONE), None)
    if rejected is not None or len(responses) == 1:
        return first if rejected is None else rejected
    match first:
        case LeaderAndIsrResponse():
            return replace(first, topics=_joined(responses))
        case StopReplicaResponse():
            parts = [each.partition_errors for each in responses if isinstance(each, StopReplicaResponse)]
            return replace(first, partition_errors=tuple(error for part in parts for error in part))
        case UpdateMetadataResponse():
            return first


def _joined(responses: Sequence[ControlResponse]) -> tuple[LeaderAndIsrTopicError, ...]:
    errors: dict[tuple[str, UUID], list[PartitionError]] = {}
    for response in responses:
        for topic in response.topics if isinstance(response, LeaderAndIsrResponse) else ():
            errors.setdefault((topic.topic_name, topic.topic_id), []).extend(topic.partition_errors)
    return tuple(
        LeaderAndIsrTopicError(topic_name=name, topic_id=topic_id, partition_errors=tuple(each))
        for (name, topic_id), each in errors.items()
    )
