"""ElectLeaders, versions 0 to 2: preferred replicas lead again, or any replica that is alive leads at all."""

from typing import Any

from kafkad.core.controller.elections import Elections, ElectionType
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.core.types import TopicPartition
from kafkad.handlers.controller.requests.controller_view import Answer, ControllerView, ReplyAfter
from kafkad.wire.kio_codec import Codec, codec, milliseconds


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Answer:
    messages = codec("elect_leaders", context.version)
    request = messages.decode(body)
    kind = getattr(request, "election_type", ElectionType.PREFERRED)
    if kind not in tuple(ElectionType):
        return messages.encode(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=())
    wanted = request.topic_partitions
    named = [TopicPartition(each.topic, index) for each in wanted or () for index in each.partitions]
    controller = view.controller
    before = controller.image.version
    results = controller.elect_leaders(None if wanted is None else named, ElectionType(kind))
    answer = messages.encode(error_code=ErrorCode.NONE, replica_election_results=_rows(messages, results))
    if controller.image.version == before:
        return answer
    return ReplyAfter(version=controller.image.version, body=answer, timeout_ms=milliseconds(request.timeout))


def _rows(messages: Codec, results: Elections) -> tuple[Any, ...]:
    by_topic: dict[str, list[Any]] = {}
    for at, result in results.items():
        refusal = result if isinstance(result, KafkaError) else None
        by_topic.setdefault(at.topic, []).append(
            messages.part(
                "PartitionResult",
                partition_id=at.partition,
                error_code=refusal.code if refusal else ErrorCode.NONE,
                error_message=refusal.message if refusal else None,
            )
        )
    return tuple(
        messages.part("ReplicaElectionResult", topic=topic, partition_result=tuple(rows))
        for topic, rows in by_topic.items()
    )
