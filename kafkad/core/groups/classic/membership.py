"""The members of a classic group, and what they have in common.

The counters (members with a pending join, members that support a protocol) always agree with the members, so a join
costs the same in a group of ten and of a thousand. `group.py` and `rebalance.py` derive the group's state from the
membership.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.member import ClassicMember, Protocols


class ClassicMembership:
    """Mutable; slotted, as there are thousands."""

    __slots__ = (
        "_members_by_protocol",
        "_static",
        "awaiting_join",
        "leader",
        "members",
        "metadata_bytes",
        "pending_join",
        "pending_sync",
        "protocol_type",
    )

    def __init__(self) -> None:
        self.members: dict[str, ClassicMember] = {}
        self.protocol_type: str | None = None
        """The protocol type of the first member; None for a group that never had members."""
        self.leader: str | None = None
        self.pending_join: set[str] = set()
        """Member ids of new members (KIP-394) that have not joined with them yet."""
        self.pending_sync: set[str] = set()
        """Members of this generation without a SyncGroup so far."""
        self.awaiting_join = 0
        self.metadata_bytes = 0
        """Bytes of all protocols of all members. The leader gets the metadata of one protocol, but all are kept in
        memory."""
        self._static: dict[str, str] = {}
        self._members_by_protocol: Counter[str] = Counter()

    @property
    def have_all_joined(self) -> bool:
        return self.awaiting_join == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: ClassicMember, protocol_type: str, join_token: int | None = None) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self._static
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.pending_join.discard(member.member_id)
        self._set_join_token(member, join_token)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member or a pending id; the caller replies to its pending requests."""
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count(member.protocols, -1)
        self.awaiting_join -= member.join_token is not None
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        join_token: int | None,
    ) -> None:
        """Apply a member's JoinGroup request."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._set_join_token(member, join_token)

    def replace_static(self, old_member_id: str, new_member_id: str) -> ClassicMember:
        """Give a static member that rejoined its new id and all state of the old id, which the caller fences."""
        old = self.members.pop(old_member_id)
        assert old.instance_id is not None and old.join_token is None and old.sync_token is None
        new = self.members[new_member_id] = old.renamed(new_member_id)
        self._static[old.instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.pending_sync:
            self.pending_sync.discard(old_member_id)
            self.pending_sync.add(new_member_id)
        return new

    def take_join_token(self, member: ClassicMember) -> int | None:
        """Remove and return the token of the member's pending join."""
        token = member.join_token
        self._set_join_token(member, None)
        return token

    def static_member_id(self, instance_id: str) -> str | None:
        return self._static.get(instance_id)

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Check that the member id belongs to the instance id; members with an instance id are static (KIP-345)."""
        if instance_id is not None:
            existing = self._static.get(instance_id)
            if existing is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if existing != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def not_rejoined(self) -> Iterator[ClassicMember]:
        return (member for member in self.members.values() if member.join_token is None)

    def elect_joined_leader(self) -> bool:
        """Elect a leader among the members that have joined; False if there is none."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_token is not None:
            return True
        joined = next((member for member in self.members.values() if member.join_token is not None), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    def have_common_protocol(self, protocols: Iterable[str]) -> bool:
        """Whether all members support one of these protocols."""
        count = len(self.members)
        return any(self._members_by_protocol[name] == count for name in protocols)

    def others_support(self, member: ClassicMember, protocols: Protocols) -> bool:
        """Whether all members but this one support one of these protocols."""
        others = len(self.members) - 1
        own = {name for name, _ in member.protocols}
        return any(self._members_by_protocol[name] - (name in own) == others for name, _ in protocols)

    def select_protocol(self) -> str:
        """Each member votes for its preferred protocol of those that all members support."""
        member_count = len(self.members)
        candidates = {name for name, count in self._members_by_protocol.items() if count == member_count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def _count(self, protocols: Protocols, change: int) -> None:
        # Repeated names count once, as each member has one vote.
        for name in {name for name, _ in protocols}:
            self._members_by_protocol[name] += change
            if not self._members_by_protocol[name]:
                del self._members_by_protocol[name]
        self.metadata_bytes += change * sum(len(metadata) for _, metadata in protocols)

    def _set_join_token(self, member: ClassicMember, token: int | None) -> None:
        self.awaiting_join += (token is not None) - (member.join_token is not None)
        member.join_token = token
