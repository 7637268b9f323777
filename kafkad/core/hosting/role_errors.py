"""LeaderAndIsr responses with errors."""

from kafkad.core.cluster.control_requests import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    LeaderAndIsrTopicError,
    PartitionError,
)
from kafkad.core.errors import ErrorCode


def rejected(request: LeaderAndIsrRequest, code: ErrorCode) -> LeaderAndIsrResponse:
    """The error for the request and for every partition, as in Apache Kafka."""
    return LeaderAndIsrResponse(
        error_code=code,
        topics=tuple(topic_error(topic, code) for topic in request.topic_states),
    )


def topic_error(topic: LeaderAndIsrTopic, code: ErrorCode) -> LeaderAndIsrTopicError:
    return LeaderAndIsrTopicError(
        topic_name=topic.topic_name,
        topic_id=topic.topic_id,
        partition_errors=tuple(
            PartitionError(partition_index=state.partition_index, error_code=code) for state in topic.partition_states
        ),
    )
