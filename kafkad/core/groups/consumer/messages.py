"""Requests and replies of KIP-848 groups, and their descriptions for tools, as plain values."""

from dataclasses import dataclass

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.consumer.assignors import Assignment


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
