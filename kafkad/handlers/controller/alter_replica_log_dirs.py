"""AlterReplicaLogDirs, versions 1 and 2.

The response is sent when the owners have received the moves, long before the moves are complete.
"""

from collections.abc import Collection, Sequence

from kafkad.core.controller.log_dir_moves import HostedReplicas, alter_replica_log_dirs
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.core.types import TopicPartition
from kafkad.handlers.controller.requests.controller_view import LONGEST_WAIT_MS, Response, ResponseAfter
from kafkad.wire.kio_codec import codec


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
    if replicas.image.version == before:
        return response
    return ResponseAfter(body=response, timeout_ms=LONGEST_WAIT_MS)
