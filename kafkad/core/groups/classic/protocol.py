"""The classic group protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) for all groups of one internal partition.

It finds or creates the group of a request, runs the rules on it, and turns rejections into responses. Classic requests
of members of KIP-848 groups go to `ModernGroups`.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.messages import (
    NO_MEMBER_ID,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Left,
    LeftMember,
    Synced,
    SyncGroup,
)
from kafkad.core.groups.classic.rebalance import (
    check_capacity_after_loading,
    join_timer_expired,
    session_timer_expired,
    sync_timer_expired,
)
from kafkad.core.groups.classic.records import new_group_record
from kafkad.core.groups.classic.requests import heartbeat, join, leave, sync
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.classic.step import Step
from kafkad.core.groups.classic.timers import ClassicTimer, ClassicTimerKey
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.group import Group, GroupType
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.registry import Groups
from kafkad.core.quoting import quoted

MAX_ID_BYTES = 2**15 - 1
"""Records, and responses of old versions, have strings with a length of 16 bits."""
GroupOutcome = Outcome[GroupRecord]


class ModernGroups(Protocol):
    """Handles classic requests to KIP-848 groups with members. The replies are those of this module."""

    def classic_join(self, group: Group, request: JoinGroup, token: int, moment: Moment) -> GroupOutcome: ...

    def classic_sync(self, group: Group, request: SyncGroup, token: int, moment: Moment) -> GroupOutcome:
        """Raises `KafkaError` for a rejection, like the two methods below."""

    def classic_heartbeat(self, group: Group, request: Heartbeat, token: int, moment: Moment) -> GroupOutcome: ...

    def classic_leave(self, group: Group, request: LeaveGroup, token: int, moment: Moment) -> GroupOutcome: ...


class ClassicProtocol:
    """`new_id` returns a new unique text at each call; `modern` is set if KIP-848 is supported."""

    def __init__(
        self, groups: Groups, config: GroupConfig, new_id: Callable[[], str], modern: ModernGroups | None = None
    ) -> None:
        self._groups = groups
        self._config = config
        self._new_id = new_id
        self._modern = modern

    # Requests.

    def join(self, request: JoinGroup, token: int, moment: Moment) -> GroupOutcome:
        group = self._groups.get(request.group_id)
        if group is not None and not isinstance(group, ClassicGroup) and not group.is_empty:
            if group.type is GroupType.CONSUMER and self._modern is not None:
                return self._modern.classic_join(group, request, token, moment)
            return _reply(token, Joined(code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if isinstance(group, ClassicGroup):
            return self._join_group(group, request, token, moment)
        if request.member_id != NO_MEMBER_ID:
            return _reply(token, Joined(code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))
        return self._join_new_group(group, request, token, moment)

    def sync(self, request: SyncGroup, token: int, moment: Moment) -> GroupOutcome:
        try:
            group = self._group_with_members(request.group_id)
            if isinstance(group, ClassicGroup):
                step = Step(self._config, moment)
                sync(group, request, token, step)
                return step.outcome
            return self._modern_groups_for(group).classic_sync(group, request, token, moment)
        except KafkaError as error:
            return _reply(token, Synced(code=error.code))

    def heartbeat(self, request: Heartbeat, token: int, moment: Moment) -> GroupOutcome:
        """Replies with an `ErrorCode`."""
        try:
            group = self._group_with_members(request.group_id)
            if isinstance(group, ClassicGroup):
                step = Step(self._config, moment)
                heartbeat(group, request, token, step)
                return step.outcome
            return self._modern_groups_for(group).classic_heartbeat(group, request, token, moment)
        except KafkaError as error:
            return _reply(token, error.code)

    def leave(self, request: LeaveGroup, token: int, moment: Moment) -> GroupOutcome:
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            step = Step(self._config, moment)
            leave(group, request, token, step)
            return step.outcome
        if group is not None and group.type is GroupType.CONSUMER and self._modern is not None:
            return self._modern.classic_leave(group, request, token, moment)
        unknown = tuple(
            LeftMember(member_id=member.member_id, instance_id=member.instance_id, code=ErrorCode.UNKNOWN_MEMBER_ID)
            for member in request.members
        )
        return _reply(token, Left(members=unknown))

    # Events.

    def expired(self, key: ClassicTimerKey, moment: Moment) -> GroupOutcome:
        group = self._groups.get(key.group_id)
        step = Step(self._config, moment)
        if isinstance(group, ClassicGroup):
            step.outcome.host = _host(group, key.member_id)
            match key.kind:
                case ClassicTimer.SESSION:
                    session_timer_expired(group, key.member_id, step)
                case ClassicTimer.JOIN:
                    join_timer_expired(group, step)
                case ClassicTimer.SYNC:
                    sync_timer_expired(group, step)
        return step.outcome

    def loaded(self, moment: Moment) -> Iterator[GroupOutcome]:
        """After loading, start a full session timeout for every member."""
        for groups in self._groups.in_steps():
            step = Step(self._config, moment)
            for group in groups:
                if isinstance(group, ClassicGroup):
                    for member in group.members.values():
                        step.restart_session(group, member)
                    check_capacity_after_loading(group, step)
            yield step.outcome

    def unloaded(self) -> GroupOutcome:
        """Reply NOT_COORDINATOR to pending requests: clients must find the new coordinator."""
        # The time does not matter: the group is dropped.
        step = Step(self._config, Moment(0, 0))
        for group in self._groups:
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                step.respond_to_join(group, member, Joined(code=ErrorCode.NOT_COORDINATOR, member_id=member.member_id))
                step.respond_to_sync(member, Synced(code=ErrorCode.NOT_COORDINATOR))
            group.move_to(ClassicState.DEAD, 0)
        return Outcome(replies=step.outcome.replies)

    # Helpers.

    def _join_group(self, group: ClassicGroup, request: JoinGroup, token: int, moment: Moment) -> GroupOutcome:
        step = Step(self._config, moment)
        try:
            join(group, request, token, self._member_id_for(request), step)
        except KafkaError as error:
            return _reply(token, Joined(code=error.code))
        return step.outcome

    def _join_new_group(self, replaced: Group | None, request: JoinGroup, token: int, moment: Moment) -> GroupOutcome:
        """Create a group and its record. `replaced` is an empty group of another type, removed in the same batch."""
        group = ClassicGroup(request.group_id, moment.wall_ms)
        self._groups.add(group)
        outcome = self._join_group(group, request, token, moment)
        assert not outcome.records and outcome.after is None
        if replaced is not None:
            outcome.records += replaced.tombstones()
        outcome.records.append(new_group_record(group))

        def written(code: ErrorCode, later: Moment) -> GroupOutcome:
            if code is ErrorCode.NONE or group.is_logged:
                return Outcome()
            return self._remove_unwritten(group, replaced, code, later)

        outcome.after = written
        return outcome

    def _remove_unwritten(
        self, group: ClassicGroup, replaced: Group | None, code: ErrorCode, moment: Moment
    ) -> GroupOutcome:
        """Remove a new group whose record could not be written; its joins get the error."""
        self._groups.remove(group.group_id)
        if replaced is not None:
            self._groups.add(replaced)
        step = Step(self._config, moment)
        for member in group.members.values():
            step.respond_to_join(group, member, Joined(code=code))
        return step.outcome

    def _group_with_members(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None or group.is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {quoted(group_id)} not found.")
        return group

    def _modern_groups_for(self, group: Group) -> ModernGroups:
        if group.type is not GroupType.CONSUMER or self._modern is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {quoted(group.group_id)} not found.")
        return self._modern

    def _member_id_for(self, request: JoinGroup) -> str:
        if request.member_id != NO_MEMBER_ID:
            return request.member_id
        return new_member_id(request.client_id if request.instance_id is None else request.instance_id, self._new_id())


def new_member_id(owner: str, unique: str) -> str:
    """`owner`, a client or instance id of any length, is truncated so that the id fits into any string field."""
    max_owner_bytes = MAX_ID_BYTES - len(unique) - 1
    raw = owner.encode()
    if len(raw) > max_owner_bytes:
        owner = raw[:max_owner_bytes].decode(errors="ignore")
    return f"{owner}-{unique}"


def _host(group: ClassicGroup, member_id: str) -> str:
    """The address of this member, or of the first member for a timer of the whole group."""
    member = group.members.get(member_id) or next(iter(group.members.values()), None)
    return "" if member is None else member.client_host.removeprefix("/")


def _reply(token: int, reply: object) -> GroupOutcome:
    return Outcome(replies=[(token, reply)])
