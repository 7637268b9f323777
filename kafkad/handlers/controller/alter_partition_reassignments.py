"""AlterPartitionReassignments, versions 0 and 1: a partition keeps the replicas that it has, or it is refused."""

from typing import Any

from kafkad.core.controller.image import MetadataImage
from kafkad.core.controller.reassignments import check_reassignment
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.controller_view import Answer, ControllerView
from kafkad.wire.kio_codec import Codec, codec


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Answer:
    messages = codec("alter_partition_reassignments", context.version)
    request = messages.decode(body)
    image = view.controller.image
    responses = tuple(
        messages.part(
            "ReassignableTopicResponse",
            name=topic.name,
            partitions=tuple(_answer(messages, image, topic.name, partition) for partition in topic.partitions),
        )
        for topic in request.topics
    )
    return messages.encode(
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=responses,
        allow_replication_factor_change=getattr(request, "allow_replication_factor_change", True),
    )


def _answer(messages: Codec, image: MetadataImage, topic: str, partition: Any) -> Any:
    code, message = ErrorCode.NONE, None
    try:
        check_reassignment(image, topic, partition.partition_index, partition.replicas)
    except KafkaError as refusal:
        code, message = refusal.code, refusal.message
    return messages.part(
        "ReassignablePartitionResponse",
        partition_index=partition.partition_index,
        error_code=code,
        error_message=message,
    )
