"""Validation of a heartbeat before its group is looked up, with Apache Kafka's order and messages."""

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.consumer.config import ConsumerConfig
from kafkad.core.groups.consumer.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from kafkad.core.groups.consumer.messages import ConsumerHeartbeat
from kafkad.core.quoting import quoted


def check_request(request: ConsumerHeartbeat, config: ConsumerConfig) -> None:
    """Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""
    problem = _problem(request)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if request.assignor is not None and request.assignor not in config.assignors:
        text = (
            f"ServerAssignor {quoted(request.assignor)} is not supported. "
            f"Supported assignors: {', '.join(config.assignors)}."
        )
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, text)


def _problem(request: ConsumerHeartbeat) -> str | None:
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if request.instance_id is not None and not request.instance_id.strip():
        return "InstanceId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    has_member_id = bool(request.member_id.strip())
    if not has_member_id and (request.version >= 1 or request.member_epoch != JOIN_EPOCH):
        return "MemberId can't be empty."
    if request.member_epoch == JOIN_EPOCH:
        return _joining_problem(request)
    if request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if request.member_epoch < STATIC_LEAVE_EPOCH else None


def _joining_problem(request: ConsumerHeartbeat) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.owned is None or request.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if request.topics is None and request.regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None
