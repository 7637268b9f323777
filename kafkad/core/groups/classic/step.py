"""The rules for one request or timer of a classic group: their effects are collected in one outcome.

Waiting requests of a member are answered here, each once: answering takes the token from the member.
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

_SHOWN = 5


@dataclass(slots=True)
class Step:
    """What the rules of one step share. Mutable: its outcome grows."""

    config: GroupConfig
    moment: Moment
    outcome: Outcome[GroupRecord] = field(default_factory=Outcome)

    # Timers.

    def keep_session(self, group: ClassicGroup, member: ClassicMember) -> None:
        """The member sent something or gets an answer: its session begins anew."""
        self.start_session(group, member.member_id, member.session_timeout_ms)

    def start_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        self.outcome.timers.append((session_key(group.group_id, member_id), self.moment.monotonic_ms + timeout_ms))

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        self.outcome.timers.append((session_key(group.group_id, member_id), None))

    def wait_for_joins(self, group: ClassicGroup, timeout_ms: int) -> None:
        self.outcome.timers.append((join_key(group.group_id), self.moment.monotonic_ms + timeout_ms))

    def end_wait_for_joins(self, group: ClassicGroup) -> None:
        self.outcome.timers.append((join_key(group.group_id), None))

    def wait_for_syncs(self, group: ClassicGroup) -> None:
        deadline_ms = self.moment.monotonic_ms + group.rebalance_timeout_ms
        self.outcome.timers.append((sync_key(group.group_id), deadline_ms))

    def end_wait_for_syncs(self, group: ClassicGroup) -> None:
        self.outcome.timers.append((sync_key(group.group_id), None))

    # Answers.

    def reply(self, token: int, reply: object) -> None:
        self.outcome.replies.append((token, reply))

    def respond_to_join(self, group: ClassicGroup, member: ClassicMember, reply: Joined) -> None:
        """Answer the member's join, if one waits."""
        token = group.take_join_token(member)
        if token is not None:
            self.outcome.replies.append((token, reply))

    def respond_to_sync(self, member: ClassicMember, reply: Synced) -> bool:
        """False when no sync of this member waits."""
        token, member.sync_token = member.sync_token, None
        if token is None:
            return False
        self.outcome.replies.append((token, reply))
        return True

    def supersede_join(self, group: ClassicGroup, member: ClassicMember) -> None:
        """The client asks again on another connection: the request that waits on the old one is answered with a
        retry."""
        self.respond_to_join(group, member, Joined(code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))

    def remove(self, group: ClassicGroup, member_id: str) -> ClassicMember | None:
        """Remove a member or a pending id; its waiting requests are answered with UNKNOWN_MEMBER_ID."""
        self.end_session(group, member_id)
        member = group.members.get(member_id)
        if member is not None:
            self.respond_to_join(group, member, Joined(code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=NO_MEMBER_ID))
            self.respond_to_sync(member, Synced(code=ErrorCode.UNKNOWN_MEMBER_ID))
        return group.remove(member_id)

    def tell(self, line: str) -> None:
        """Clients choose ids and reasons: unprintable characters are replaced, so that a log line stays one line."""
        if not line.isprintable():
            line = "".join(character if character.isprintable() else "?" for character in line)
        self.outcome.log_lines.append(line)


def first_names(names: Sequence[str]) -> str:
    """The first names, for a log line: a group may lose a thousand members at once."""
    return first_of([*map(logged, names[:_SHOWN]), *names[_SHOWN:]])


def first_of(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:_SHOWN])
    return shown if len(texts) <= _SHOWN else f"{shown} and {len(texts) - _SHOWN} more"


def joined(group: ClassicGroup, member_id: str, *, with_members: bool, skip_assignment: bool = False) -> Joined:
    """The group's generation as a member learns of it; only the leader is told of all members."""
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
