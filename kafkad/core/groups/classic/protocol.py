"""The classic group protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) for all groups of one internal partition.

It finds or creates the group of a request, runs the rules on it, and turns refusals into answers. Classic requests of
members of KIP-848 groups go to `ModernGroups`.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.join import join
from kafkad.core.groups.classic.leave import heartbeat, leave
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
from kafkad.core.groups.classic.rebalance import join_wait_ended, loaded_over_capacity, session_ended, sync_wait_ended
from kafkad.core.groups.classic.records import new_group_record
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.classic.step import Step
from kafkad.core.groups.classic.sync import sync
from kafkad.core.groups.classic.timers import ClassicTimer, ClassicTimerKey
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.group import Group, GroupType
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.registry import Groups
from kafkad.core.quoting import quoted

LONGEST_ID = 2**15 - 1
"""In bytes: records, and answers of old versions, have strings with a length of 16 bits."""
GroupOutcome = Outcome[GroupRecord]


class ModernGroups(Protocol):
    """Classic requests to KIP-848 groups that have members. The answers are those of this module."""

    def classic_join(self, group: Group, request: JoinGroup, token: int, moment: Moment) -> GroupOutcome: ...

    def classic_sync(self, group: Group, request: SyncGroup, token: int, moment: Moment) -> GroupOutcome:
        """Raises KafkaError to refuse, like the two below."""

    def classic_heartbeat(self, group: Group, request: Heartbeat, token: int, moment: Moment) -> GroupOutcome: ...

    def classic_leave(self, group: Group, request: LeaveGroup, token: int, moment: Moment) -> GroupOutcome: ...


class ClassicProtocol:
    """`new_id` returns a text that was never returned before; `modern` is set when KIP-848 is supported."""

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
            return _answer(token, Joined(code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if isinstance(group, ClassicGroup):
            return self._join_group(group, request, token, moment)
        if request.member_id != NO_MEMBER_ID:
            return _answer(token, Joined(code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))
        return self._join_new_group(group, request, token, moment)

    def sync(self, request: SyncGroup, token: int, moment: Moment) -> GroupOutcome:
        try:
            group = self._group_with_members(request.group_id)
            if isinstance(group, ClassicGroup):
                step = Step(self._config, moment)
                sync(group, request, token, step)
                return step.outcome
            return self._ask_modern(group).classic_sync(group, request, token, moment)
        except KafkaError as error:
            return _answer(token, Synced(code=error.code))

    def heartbeat(self, request: Heartbeat, token: int, moment: Moment) -> GroupOutcome:
        """Answers with an `ErrorCode`."""
        try:
            group = self._group_with_members(request.group_id)
            if isinstance(group, ClassicGroup):
                step = Step(self._config, moment)
                heartbeat(group, request, token, step)
                return step.outcome
            return self._ask_modern(group).classic_heartbeat(group, request, token, moment)
        except KafkaError as error:
            return _answer(token, error.code)

    def leave(self, request: LeaveGroup, token: int, moment: Moment) -> GroupOutcome:
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            step = Step(self._config, moment)
            leave(group, request, token, step)
            return step.outcome
        if group is not None and group.type is GroupType.CONSUMER and self._modern is not None:
            return self._modern.classic_leave(group, request, token, moment)
        unknown = tuple(
            LeftMember(member_id=each.member_id, instance_id=each.instance_id, code=ErrorCode.UNKNOWN_MEMBER_ID)
            for each in request.members
        )
        return _answer(token, Left(members=unknown))

    # Events.

    def expired(self, key: ClassicTimerKey, moment: Moment) -> GroupOutcome:
        group = self._groups.get(key.group_id)
        step = Step(self._config, moment)
        if isinstance(group, ClassicGroup):
            step.outcome.host = _host(group, key.member_id)
            match key.kind:
                case ClassicTimer.SESSION:
                    session_ended(group, key.member_id, step)
                case ClassicTimer.JOIN:
                    join_wait_ended(group, step)
                case ClassicTimer.SYNC:
                    sync_wait_ended(group, step)
        return step.outcome

    def loaded(self, moment: Moment) -> Iterator[GroupOutcome]:
        """After the log has been loaded every member gets a whole session timeout."""
        for groups in self._groups.in_steps():
            step = Step(self._config, moment)
            for group in groups:
                if isinstance(group, ClassicGroup):
                    for member in group.members.values():
                        step.keep_session(group, member)
                    loaded_over_capacity(group, step)
            yield step.outcome

    def unloaded(self) -> GroupOutcome:
        """Clients whose requests wait have to look for the new coordinator."""
        # Any time will do: the group is dropped.
        step = Step(self._config, Moment(0, 0))
        for group in self._groups:
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                step.respond_to_join(group, member, Joined(code=ErrorCode.NOT_COORDINATOR, member_id=member.member_id))
                step.respond_to_sync(member, Synced(code=ErrorCode.NOT_COORDINATOR))
            group.move_to(ClassicState.DEAD, 0)
        return Outcome(replies=step.outcome.replies)

    # Parts.

    def _join_group(self, group: ClassicGroup, request: JoinGroup, token: int, moment: Moment) -> GroupOutcome:
        step = Step(self._config, moment)
        try:
            join(group, request, token, self._member_id_for(request), step)
        except KafkaError as error:
            return _answer(token, Joined(code=error.code))
        return step.outcome

    def _join_new_group(self, replaced: Group | None, request: JoinGroup, token: int, moment: Moment) -> GroupOutcome:
        """The record is written at once. `replaced` is an empty group of another type, which the same batch removes."""
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
            return self._take_back(group, replaced, code, later)

        outcome.after = written
        return outcome

    def _take_back(self, group: ClassicGroup, replaced: Group | None, code: ErrorCode, moment: Moment) -> GroupOutcome:
        """The record of a new group could not be written: no client has learned of it."""
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

    def _ask_modern(self, group: Group) -> ModernGroups:
        if group.type is not GroupType.CONSUMER or self._modern is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {quoted(group.group_id)} not found.")
        return self._modern

    def _member_id_for(self, request: JoinGroup) -> str:
        if request.member_id != NO_MEMBER_ID:
            return request.member_id
        return new_member_id(request.client_id if request.instance_id is None else request.instance_id, self._new_id())


def new_member_id(owner: str, unique: str) -> str:
    """`owner` is cut so that the id fits any string: a client or instance id may be as long as that itself."""
    room = LONGEST_ID - len(unique) - 1
    raw = owner.encode()
    if len(raw) > room:
        owner = raw[:room].decode(errors="ignore")
    return f"{owner}-{unique}"


def _host(group: ClassicGroup, member_id: str) -> str:
    """The address of this member, or of the first one when the timer is for all."""
    member = group.members.get(member_id) or next(iter(group.members.values()), None)
    return "" if member is None else member.client_host.removeprefix("/")


def _answer(token: int, reply: object) -> GroupOutcome:
    return Outcome(replies=[(token, reply)])
