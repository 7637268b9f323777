"""A controller's request about thousands of partitions is carried out in parts: its broker does not stand still.

Each partition is a matter of its own: nothing but the epochs holds for all, and each part has them. A topic is cut only
if it is larger than a part, and then its last partition comes first: who counts partitions in between counts all.
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
Topic = TypeVar("Topic", LeaderAndIsrTopic, UpdateMetadataTopic, StopReplicaTopic)

MOST = 128
"""Partitions of a part: one takes a millisecond or two."""


def parts_of(request: ControlRequest, most: int = MOST) -> Iterator[ControlRequest]:
    """Requests that together are this one."""
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


def _cut(topics: Sequence[Topic], most: int) -> Iterator[tuple[Topic, ...]]:
    part: list[Topic] = []
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


def _pieces(topic: Topic, most: int) -> Iterator[Topic]:
    if len(topic.partition_states) <= most:
        yield topic
        return
    indexes: list[int] = [each.partition_index for each in topic.partition_states]
    last: int = indexes.index(max(indexes))
    order: list[int] = [last, *range(last), *range(last + 1, len(indexes))]
    for at in range(0, len(order), most):
        yield replace(topic, partition_states=tuple(topic.partition_states[each] for each in order[at : at + most]))


def answer_of(responses: Sequence[ControlResponse]) -> ControlResponse:
    """The answer to a request from those to its parts. A refusal of one, whose epoch is over by then, is one of all."""
    first = responses[0]
    refused = next((each for each in responses if each.error_code is not ErrorCode.NONE), None)
    if refused is not None or len(responses) == 1:
        return first if refused is None else refused
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
