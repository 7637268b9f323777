"""AlterPartitionReassignments, versions 0 and 1: starts, changes and cancels reassignments."""

from typing import Any

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.core.types import TopicPartition
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response, ResponseAfter
from kafkad.wire.kio_codec import Codec, codec, milliseconds


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    messages = codec("alter_partition_reassignments", context.version)
    request = messages.decode(body)
    may_change = getattr(request, "allow_replication_factor_change", True)
    targets = [
        (TopicPartition(topic.name, each.partition_index), None if each.replicas is None else tuple(each.replicas))
        for topic in request.topics
        for each in topic.partitions
    ]
    before = view.controller.image.version
    results = iter(view.controller.reassign(targets, replication_factor_may_change=may_change))
    responses = tuple(
        messages.part(
            "ReassignableTopicResponse",
            name=topic.name,
            partitions=tuple(_row(messages, each.partition_index, next(results)) for each in topic.partitions),
        )
        for topic in request.topics
    )
    response = messages.encode(
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=responses,
        allow_replication_factor_change=may_change,
    )
    version = view.controller.image.version
    if version == before:
        return response
    return ResponseAfter(body=response, timeout_ms=milliseconds(request.timeout))


def _row(messages: Codec, index: int, error: KafkaError | None) -> Any:
    return messages.part(
        "ReassignablePartitionResponse",
        partition_index=index,
        error_code=error.code if error else ErrorCode.NONE,
        error_message=error.message if error else None,
    )
