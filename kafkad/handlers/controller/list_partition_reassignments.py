"""ListPartitionReassignments, version 0: the ongoing reassignments of all or of the requested partitions."""

from collections.abc import Mapping
from typing import Any

from kafkad.core.controller.reassignments import under_way
from kafkad.core.controller.topics.assignment import ReplicaAssignment
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.core.types import TopicPartition
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response
from kafkad.wire.kio_codec import Codec, codec


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    messages = codec("list_partition_reassignments", context.version)
    request = messages.decode(body)
    requested = None
    if request.topics is not None:
        requested = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    ongoing = under_way(view.controller.image, requested)
    return messages.encode(error_code=ErrorCode.NONE, error_message=None, topics=_topics(messages, ongoing))


def _topics(messages: Codec, ongoing: Mapping[TopicPartition, ReplicaAssignment]) -> tuple[Any, ...]:
    by_topic: dict[str, list[Any]] = {}
    for at, assignment in ongoing.items():
        by_topic.setdefault(at.topic, []).append(
            messages.part(
                "OngoingPartitionReassignment",
                partition_index=at.partition,
                replicas=assignment.replicas,
                adding_replicas=assignment.adding,
                removing_replicas=assignment.removing,
            )
        )
    return tuple(
        messages.part("OngoingTopicReassignment", name=topic, partitions=tuple(rows))
        for topic, rows in by_topic.items()
    )
