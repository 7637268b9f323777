"""Requests and replies of KIP-848 groups, and their descriptions for tools, as plain values.

A heartbeat is checked before its group is looked up, with Apache Kafka's order and messages.
"""

from dataclasses import dataclass

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.consumer.assignors import Assignment
from kafkad.core.groups.consumer.config import ConsumerConfig
from kafkad.core.groups.consumer.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from kafkad.core.quoting import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat. Unchanged fields are None, the timeout -1. Version 0 has no pattern, and the broker may
    generate member ids."""

    group_id: str
    member_id: str
    member_epoch: int
    version: int = 1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Whether all fields are set, as in joins and after errors: then the reply has the assignment."""
        has_topics = self.topics is not None or self.regex is not None
        return self.member_epoch == 0 or (self.rebalance_timeout_ms != -1 and has_topics and self.owned is not None)

    @property
    def is_unchanged(self) -> bool:
        return (
            self.member_epoch > 0
            and self.rebalance_timeout_ms == -1
            and self.topics is None
            and self.regex is None
            and self.assignor is None
            and self.rack_id is None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatReply:
    """The heartbeat reply. `assignment` is None if unchanged."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumer:
    """A member for ConsumerGroupDescribe; the handler adds topic ids."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    assignment: Assignment
    target: Assignment
    is_classic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    group_id: str
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


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
