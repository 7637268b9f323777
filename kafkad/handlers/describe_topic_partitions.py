"""DescribeTopicPartitions, version 0: topics in order of their names, a limited number of partitions per response.

The next response begins at the cursor. The topic of a cursor may have been deleted meanwhile; its entry has an error.
There are no eligible leader replicas (KIP-966); Apache Kafka also returns empty lists without them.
"""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from kafkad.core.controller.image import Topic
from kafkad.core.controller.topics.names import is_internal
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.topic_errors import unknown_topic_error
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.metadata_cache import describe_partition, without_listener
from kafkad.handlers.requests.operations import NOT_REQUESTED, TOPIC_OPERATIONS
from kafkad.wire.kio_codec import Codec, codec


class Cursor(NamedTuple):
    topic: str
    partition: int


_START = Cursor("", 0)


def handle(body: memoryview, context: RequestContext, view: BrokerView) -> bytes:
    """The response body. Raises MalformedRequest."""
    messages = codec("describe_topic_partitions", context.version)
    request = messages.decode(body)
    start = _START if request.cursor is None else Cursor(request.cursor.topic_name, request.cursor.partition_index)
    requested_topics = {topic.name for topic in request.topics}
    if start.partition < 0 or (request.cursor is not None and requested_topics and start.topic not in requested_topics):
        return _error_response(messages, [topic.name for topic in request.topics])
    names = sorted(name for name in requested_topics or view.image.topics if name >= start.topic)
    limit = max(1, min(request.response_partition_limit, view.max_partitions_described))
    unreachable = without_listener(view.image.brokers, context.connection.listener)
    topics, cursor = _describe(messages, names, start, limit, view, set(unreachable) - {view.broker_id})
    following = None
    if cursor is not None:
        following = messages.part("Cursor", topic_name=cursor.topic, partition_index=cursor.partition)
    return messages.encode(topics=tuple(topics), next_cursor=following)


def _describe(
    messages: Codec, names: Iterable[str], start: Cursor, remaining: int, view: BrokerView, unreachable: Collection[int]
) -> tuple[list[Any], Cursor | None]:
    """At most `remaining` partitions, and the cursor for the next response if there are more."""
    topics: list[Any] = []
    for name in names:
        if remaining == 0:
            return topics, Cursor(name, 0)
        first = start.partition if name == start.topic else 0
        topic = view.image.topics.get(name)
        rows = _partitions(messages, topic, first, first + remaining, view, unreachable) if topic is not None else ()
        error = ErrorCode.NONE if topic is not None else unknown_topic_error(name)
        topics.append(_topic(messages, name, error, topic=topic, partitions=rows, operations=TOPIC_OPERATIONS))
        if topic is not None and first + remaining < len(topic.partitions):
            return topics, Cursor(name, first + remaining)
        remaining -= len(rows)
    return topics, None


def _partitions(
    messages: Codec, topic: Topic, first: int, end: int, view: BrokerView, unreachable: Collection[int]
) -> tuple[Any, ...]:
    live = frozenset(view.image.brokers) | {view.broker_id}
    rows = []
    for partition in topic.partitions[first:end]:
        described = describe_partition(partition, live, view.broker_id, unreachable)
        _, index, leader, leader_epoch, replicas, isr, offline = described
        row = messages.part(
            "DescribeTopicPartitionsResponsePartition",
            error_code=ErrorCode.NONE,
            partition_index=index,
            leader_id=leader,
            leader_epoch=leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            eligible_leader_replicas=(),
            last_known_elr=(),
            offline_replicas=offline,
        )
        rows.append(row)
    return tuple(rows)


def _topic(
    messages: Codec, name: str, error: ErrorCode, *, topic: Topic | None, partitions: tuple[Any, ...], operations: int
) -> Any:
    return messages.part(
        "DescribeTopicPartitionsResponseTopic",
        error_code=error,
        name=name,
        topic_id=None if topic is None else topic.id,
        is_internal=error != ErrorCode.INVALID_REQUEST and is_internal(name),
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _error_response(messages: Codec, names: Iterable[str]) -> bytes:
    """The response to an invalid cursor: INVALID_REQUEST for each topic of the request."""
    error = ErrorCode.INVALID_REQUEST
    topics = (_topic(messages, name, error, topic=None, partitions=(), operations=NOT_REQUESTED) for name in names)
    return messages.encode(topics=tuple(topics), next_cursor=None)
