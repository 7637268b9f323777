"""The APIs about the replicas of partitions: leader elections, reassignments, moves between log directories."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafkad.core.controller.elections import Elections, ElectionType
from kafkad.core.controller.log_dir_moves import HostedReplicas, alter_replica_log_dirs
from kafkad.core.controller.reassignments import under_way
from kafkad.core.controller.topics.assignment import ReplicaAssignment
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.core.types import TopicPartition
from kafkad.handlers.controller.requests.controller_view import LONGEST_WAIT_MS, ControllerView, Response, ResponseAfter
from kafkad.wire.kio_codec import Codec, codec, milliseconds


def handle_elect_leaders(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """ElectLeaders, versions 0 to 2: preferred and unclean leader elections."""
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
    response = messages.encode(error_code=ErrorCode.NONE, replica_election_results=_elections(messages, results))
    if controller.image.version == before:
        return response
    return ResponseAfter(version=controller.image.version, body=response, timeout_ms=milliseconds(request.timeout))


def _elections(messages: Codec, results: Elections) -> tuple[Any, ...]:
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


def handle_alter_partition_reassignments(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """AlterPartitionReassignments, versions 0 and 1: starts, changes and cancels reassignments."""
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
            partitions=tuple(_reassigned(messages, each.partition_index, next(results)) for each in topic.partitions),
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
    return ResponseAfter(version=version, body=response, timeout_ms=milliseconds(request.timeout))


def _reassigned(messages: Codec, index: int, error: KafkaError | None) -> Any:
    return messages.part(
        "ReassignablePartitionResponse",
        partition_index=index,
        error_code=error.code if error else ErrorCode.NONE,
        error_message=error.message if error else None,
    )


def handle_list_partition_reassignments(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """ListPartitionReassignments, version 0: the ongoing reassignments of all or of the requested partitions."""
    messages = codec("list_partition_reassignments", context.version)
    request = messages.decode(body)
    requested = None
    if request.topics is not None:
        requested = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    ongoing = under_way(view.controller.image, requested)
    return messages.encode(error_code=ErrorCode.NONE, error_message=None, topics=_ongoing(messages, ongoing))


def _ongoing(messages: Codec, ongoing: Mapping[TopicPartition, ReplicaAssignment]) -> tuple[Any, ...]:
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


def handle_alter_replica_log_dirs(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """AlterReplicaLogDirs, versions 1 and 2.

    The response is sent when the owners have received the moves, long before the moves are complete.
    """
    return move_replicas(body, context, view.controller, view.log_dirs, view.offline_dirs())


def move_replicas(
    body: memoryview,
    context: RequestContext,
    replicas: HostedReplicas,
    log_dirs: Sequence[str],
    offline: Collection[int],
) -> Response:
    """Start the moves of this broker's replicas. `offline` are indexes in `log_dirs`. Raises MalformedRequest."""
    messages = codec("alter_replica_log_dirs", context.version)
    request = messages.decode(body)
    moves = [
        (TopicPartition(topic.name, index), each.path)
        for each in request.dirs
        for topic in each.topics
        for index in topic.partitions
    ]
    before = replicas.image.version
    codes = alter_replica_log_dirs(replicas, moves, log_dirs, offline)
    by_topic: dict[str, list[tuple[int, ErrorCode]]] = {}
    for at, code in codes.items():
        by_topic.setdefault(at.topic, []).append((at.partition, code))
    response = messages.encode(
        results=tuple(
            messages.part(
                "AlterReplicaLogDirTopicResult",
                topic_name=name,
                partitions=tuple(
                    messages.part("AlterReplicaLogDirPartitionResult", partition_index=index, error_code=code)
                    for index, code in rows
                ),
            )
            for name, rows in by_topic.items()
        )
    )
    version = replicas.image.version
    return response if version == before else ResponseAfter(version=version, body=response, timeout_ms=LONGEST_WAIT_MS)
