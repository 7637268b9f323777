"""What classic members ask and are answered, as plain values: nothing of a wire version is left in them.

Where a version lacks a field the handler says what Kafka takes for it.
"""

from dataclasses import dataclass, field

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.member import NO_ASSIGNMENT, Protocols

NO_MEMBER_ID = ""
NO_GENERATION = -1
_NO_REASON = "not provided"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    """`requires_known_member_id`: the client comes again with the id that it is given (KIP-394)."""

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
    """The client understands that a returning leader need not assign again (KIP-814)."""

    @property
    def protocol_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.protocols)

    @property
    def shown_reason(self) -> str:
        return self.reason or _NO_REASON


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """What the leader is told of a member, for it to assign."""

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
    """Without `member_id` it is whoever holds the instance id (tools remove static members so)."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None

    @property
    def shown_reason(self) -> str:
        return self.reason or _NO_REASON


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
