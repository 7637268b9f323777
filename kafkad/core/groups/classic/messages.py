"""Requests and answers of the classic protocol as plain values, independent of API versions.

Where a version lacks a field the handler fills in Kafka's default.
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
    """`requires_known_member_id`: the client has to join again with the member id that it is given (KIP-394)."""

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
    """Whether the client can skip the assignment when it returns as leader (KIP-814)."""

    @property
    def protocol_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.protocols)

    @property
    def shown_reason(self) -> str:
        return logged(self.reason) if self.reason else _NO_REASON


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """What the leader learns of a member, to compute its assignment."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a join."""

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
    """Without `member_id`, the present holder of the instance id (tools remove static members so)."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None

    @property
    def shown_reason(self) -> str:
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
