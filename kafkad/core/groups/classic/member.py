"""A member of a classic group: its JoinGroup fields, its assignment, and its pending requests.

Mutable and slotted: only the group changes it, to keep its counters correct.
"""

from kafkad.core.groups.records import GroupMember

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) of each protocol that a member supports, in its order of preference."""

NO_ASSIGNMENT = b""


class ClassicMember:
    """`join_token` and `sync_token` identify the pending request of each kind."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = NO_ASSIGNMENT,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.join_token: int | None = None
        self.sync_token: int | None = None

    @classmethod
    def restored(cls, record: GroupMember, protocol: str | None) -> "ClassicMember":
        """The member of a record, which has only the selected protocol."""
        return cls(
            member_id=record.member_id,
            instance_id=record.group_instance_id,
            client_id=record.client_id,
            client_host=record.client_host,
            rebalance_timeout_ms=(
                record.session_timeout if record.rebalance_timeout == -1 else record.rebalance_timeout
            ),
            session_timeout_ms=record.session_timeout,
            protocols=((protocol or "", record.subscription),),
            assignment=record.assignment,
        )

    def renamed(self, member_id: str) -> "ClassicMember":
        """The same static member with a new member id, without pending requests."""
        return ClassicMember(
            member_id=member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocols=self.protocols,
            assignment=self.assignment,
        )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def keeps_session(self) -> bool:
        """Whether it counts as alive without heartbeats because a request of it is pending. New members have a timeout
        of their own."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """The metadata for a supported protocol."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: set[str]) -> str:
        """The member's preferred protocol among `candidates`."""
        return next(name for name, _ in self.protocols if name in candidates)
