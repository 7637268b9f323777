"""ElectLeaders, versions 0 to 2: preferred and unclean leader elections."""

from typing import Any

from kafkad.core.controller.elections import Elections, ElectionType
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.core.types import TopicPartition
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response, ResponseAfter
from kafkad.wire.kio_codec import Codec, codec, milliseconds


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    messages = codec("elect_leaders", context.version)
    request = messages.decode(body)
    election_type = getattr(request, "election_type", ElectionType.PREFERRED)
    if election_type not in tuple(ElectionType):
        return messages.encode(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=())
    requested = request.topic_partitions
    partitions = [TopicPartition(each.topic, index) for each in requested or () for index in each.partitions]
    controller = view.controller
    before = controller.image.version
    results = controller.elect_leaders(None if requested is None else partitions, ElectionType(election_type))
    response = messages.encode(error_code=ErrorCode.NONE, replica_election_results=_rows(messages, results))
    if controller.image.version == before:
        return response
    return ResponseAfter(body=response, timeout_ms=milliseconds(request.timeout))


def _rows(messages: Codec, results: Elections) -> tuple[Any, ...]:
    by_topic: dict[str, list[Any]] = {}
    for at, result in results.items():
        error = result if isinstance(result, KafkaError) else None
        by_topic.setdefault(at.topic, []).append(
            messages.part(
                "PartitionResult",
                partition_id=at.partition,
                error_code=error.code if error else ErrorCode.NONE,
                error_message=error.message if error else None,
            )
        )
    return tuple(
        messages.part("ReplicaElectionResult", topic=topic, partition_result=tuple(rows))
        for topic, rows in by_topic.items()
    )
