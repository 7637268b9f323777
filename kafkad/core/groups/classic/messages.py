"""Requests and replies of the classic protocol as plain values, independent of API versions.

For fields that a version lacks, the handler sets Kafka's default.
"""

from dataclasses import dataclass, field

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.member import NO_ASSIGNMENT, Protocols
from kafkad.core.quoting import logged
from kafkad.core.types import NO_GENERATION

NO_MEMBER_ID = ""
_NO_REASON = "not provided"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    """`requires_known_member_id`: the client must join again with the member id of the reply (KIP-394)."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    reason: str | None = None
    requires_known_member_id: bool = True
    can_skip_assignment: bool = True
    """Whether the client can skip the assignment when it rejoins as leader (KIP-814)."""

    @property
    def protocol_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.protocols)

    @property
    def logged_reason(self) -> str:
        return logged(self.reason) if self.reason else _NO_REASON


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member in the leader's reply, for the assignment."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The reply to a join."""

    code: ErrorCode = ErrorCode.NONE
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER_ID
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    """Only the leader sends `assignments`, by member id."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = NO_ASSIGNMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """Without `member_id`: the current member with the instance id (for tools that remove static members)."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None

    @property
    def logged_reason(self) -> str:
        return logged(self.reason) if self.reason else _NO_REASON


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    member_id: str
    instance_id: str | None
    code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    code: ErrorCode = ErrorCode.NONE
    members: tuple[LeftMember, ...] = ()
