"""The effects of one request or timer of a classic group, collected in one outcome.

Each pending request of a member is completed once: the reply removes the token from the member.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.member import ClassicMember
from kafkad.core.groups.classic.messages import NO_MEMBER_ID, Joined, JoinedMember, Synced
from kafkad.core.groups.classic.timers import join_key, session_key, sync_key
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.records import GroupRecord
from kafkad.core.quoting import logged

_MAX_LISTED = 5


@dataclass(slots=True)
class Step:
    """The shared state of the rules of one step; rules add to the outcome."""

    config: GroupConfig
    moment: Moment
    outcome: Outcome[GroupRecord] = field(default_factory=Outcome)

    # Timers.

    def restart_session(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Restart the session timeout: the member sent a request or gets a response."""
        self.start_session(group, member.member_id, member.session_timeout_ms)

    def start_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        self.outcome.timers.append((session_key(group.group_id, member_id), self.moment.monotonic_ms + timeout_ms))

    def cancel_session(self, group: ClassicGroup, member_id: str) -> None:
        self.outcome.timers.append((session_key(group.group_id, member_id), None))

    def start_join_timer(self, group: ClassicGroup, timeout_ms: int) -> None:
        self.outcome.timers.append((join_key(group.group_id), self.moment.monotonic_ms + timeout_ms))

    def cancel_join_timer(self, group: ClassicGroup) -> None:
        self.outcome.timers.append((join_key(group.group_id), None))

    def start_sync_timer(self, group: ClassicGroup) -> None:
        deadline_ms = self.moment.monotonic_ms + group.rebalance_timeout_ms
        self.outcome.timers.append((sync_key(group.group_id), deadline_ms))

    def cancel_sync_timer(self, group: ClassicGroup) -> None:
        self.outcome.timers.append((sync_key(group.group_id), None))

    # Replies.

    def reply(self, token: int, reply: object) -> None:
        self.outcome.replies.append((token, reply))

    def respond_to_join(self, group: ClassicGroup, member: ClassicMember, reply: Joined) -> None:
        """Complete the member's pending join, if any."""
        token = group.take_join_token(member)
        if token is not None:
            self.outcome.replies.append((token, reply))

    def respond_to_sync(self, member: ClassicMember, reply: Synced) -> bool:
        """Complete the member's pending sync; False if there is none."""
        token, member.sync_token = member.sync_token, None
        if token is None:
            return False
        self.outcome.replies.append((token, reply))
        return True

    def supersede_join(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Complete a pending join with a retriable error: the client has sent it again on another connection."""
        self.respond_to_join(group, member, Joined(code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))

    def remove(self, group: ClassicGroup, member_id: str) -> ClassicMember | None:
        """Remove a member or a pending id; its pending requests get UNKNOWN_MEMBER_ID."""
        self.cancel_session(group, member_id)
        member = group.members.get(member_id)
        if member is not None:
            self.respond_to_join(group, member, Joined(code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=NO_MEMBER_ID))
            self.respond_to_sync(member, Synced(code=ErrorCode.UNKNOWN_MEMBER_ID))
        return group.remove(member_id)

    def log(self, line: str) -> None:
        """Add a log line. Unprintable characters, which clients may send in ids and reasons, are replaced."""
        if not line.isprintable():
            line = "".join(character if character.isprintable() else "?" for character in line)
        self.outcome.log_lines.append(line)


def first_names(names: Sequence[str]) -> str:
    """The first names, for a log line: a group may lose a thousand members at once."""
    return first_of([*map(logged, names[:_MAX_LISTED]), *names[_MAX_LISTED:]])


def first_of(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:_MAX_LISTED])
    return shown if len(texts) <= _MAX_LISTED else f"{shown} and {len(texts) - _MAX_LISTED} more"


def joined(group: ClassicGroup, member_id: str, *, with_members: bool, skip_assignment: bool = False) -> Joined:
    """The group's generation as a JoinGroup reply; only the leader gets the list of members."""
    return Joined(
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or NO_MEMBER_ID,
        skip_assignment=skip_assignment,
        members=_all_members(group) if with_members else (),
    )


def _all_members(group: ClassicGroup) -> tuple[JoinedMember, ...]:
    return tuple(
        JoinedMember(
            member_id=member.member_id, instance_id=member.instance_id, metadata=member.metadata(group.protocol)
        )
        for member in group.members.values()
    )
