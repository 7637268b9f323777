"""AlterReplicaLogDirs, versions 1 and 2: the answer comes when the owners know of the moves, long before their end."""

from collections.abc import Collection, Sequence

from kafkad.core.controller.log_dir_moves import HostedReplicas, alter_replica_log_dirs
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.core.types import TopicPartition
from kafkad.handlers.controller.requests.controller_view import LONGEST_WAIT_MS, Answer, ControllerView, ReplyAfter
from kafkad.wire.kio_codec import codec


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Answer:
    return move_replicas(body, context, view.controller, view.log_dirs, view.offline_dirs())


def move_replicas(
    body: memoryview,
    context: RequestContext,
    replicas: HostedReplicas,
    log_dirs: Sequence[str],
    offline: Collection[int],
) -> Answer:
    """Of this broker, `offline` directories by number. Raises MalformedRequest."""
    messages = codec("alter_replica_log_dirs", context.version)
    request = messages.decode(body)
    wanted = [
        (TopicPartition(topic.name, index), each.path)
        for each in request.dirs
        for topic in each.topics
        for index in topic.partitions
    ]
    before = replicas.image.version
    codes = alter_replica_log_dirs(replicas, wanted, log_dirs, offline)
    by_topic: dict[str, list[tuple[int, ErrorCode]]] = {}
    for at, code in codes.items():
        by_topic.setdefault(at.topic, []).append((at.partition, code))
    answer = messages.encode(
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
    return answer if version == before else ReplyAfter(version=version, body=answer, timeout_ms=LONGEST_WAIT_MS)
