"""LeaderAndIsr, answered with an error."""

from kafkad.core.cluster.control_requests import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    LeaderAndIsrTopicError,
    PartitionError,
)
from kafkad.core.errors import ErrorCode


def refused(request: LeaderAndIsrRequest, code: ErrorCode) -> LeaderAndIsrResponse:
    """As Apache Kafka, every partition has the error too."""
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
