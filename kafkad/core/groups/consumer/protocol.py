"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848) for all groups of one internal partition.

It finds or creates the group, runs the rules of `heartbeat.py`, sets the timers, and turns rejections into replies.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.messages import Joined, Synced
from kafkad.core.groups.classic.step import Step
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.consumer.assignors import NOTHING
from kafkad.core.groups.consumer.config import ConsumerConfig
from kafkad.core.groups.consumer.fencing import Fencing
from kafkad.core.groups.consumer.group import ConsumerGroup
from kafkad.core.groups.consumer.heartbeat import (
    AssignmentFailed,
    GroupUpdate,
    check_static,
    find_or_subscribe,
    reconcile_member,
    refresh_topics,
    update_member,
    update_target,
)
from kafkad.core.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
    partitions_of,
)
from kafkad.core.groups.consumer.messages import (
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    DescribedConsumer,
    DescribedConsumerGroup,
    check_request,
)
from kafkad.core.groups.consumer.timers import ConsumerTimer, ConsumerTimerKey
from kafkad.core.groups.consumer.topics import Subscriptions
from kafkad.core.groups.migration import check_upgrade, upgraded
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.registry import Groups
from kafkad.core.quoting import logged, quoted

GroupOutcome = Outcome[GroupRecord]
After = Callable[[ErrorCode, Moment], GroupOutcome]


class ConsumerProtocol:
    """`new_id` returns a new unique text at each call, for clients without a member id."""

    def __init__(
        self,
        groups: Groups,
        classic_config: GroupConfig,
        config: ConsumerConfig,
        subscriptions: Subscriptions,
        fencing: Fencing,
        new_id: Callable[[], str],
        rebalanced: Callable[[], None],
    ) -> None:
        self._groups = groups
        self._classic_config = classic_config
        self.config = config
        self._subscriptions = subscriptions
        self._fencing = fencing
        self._new_id = new_id
        self._rebalanced = rebalanced

    @property
    def topics(self) -> Topics:
        return self._subscriptions.topics

    # Requests.

    def heartbeat(self, request: ConsumerHeartbeat, token: int, moment: Moment) -> GroupOutcome:
        try:
            check_request(request, self.config)
            if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                return self._leave(request, token, moment)
            return self._heartbeat(request, token, moment)
        except KafkaError as error:
            reply = ConsumerHeartbeatReply(code=error.code, message=error.message)
            lines = [error.line] if isinstance(error, AssignmentFailed) else []
            return Outcome(replies=[(token, reply)], log_lines=lines)

    def _heartbeat(self, request: ConsumerHeartbeat, token: int, moment: Moment) -> GroupOutcome:
        group, outcome = self._group_for(request, moment)
        if len(group.members) >= self.config.max_size and request.member_id not in group.members:
            text = f"The consumer group has reached its maximum capacity of {self.config.max_size} members."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
        existing = group.members.get(request.member_id)
        if existing is not None and self._is_unchanged(group, existing, request):
            return self._reply_unchanged(group, existing, token, moment)
        update = GroupUpdate(group, self.config, self._subscriptions, moment)
        previous = find_or_subscribe(update, request, request.member_id or self._new_id())
        updated = update_member(update, previous, request)
        changed = (previous.topics, previous.regex) != (updated.topics, updated.regex)
        if refresh_topics(update, subscriptions_changed=changed):
            self._rebalanced()
        update_target(update)
        member = reconcile_member(update, updated, request.owned, has_new_subscription=changed)
        outcome.records += update.records
        outcome.log_lines += update.log_lines
        outcome.timers.append(self._session(group, member, moment))
        if member != updated:
            outcome.timers.append(_revocation(group.group_id, member, moment))
        outcome.after = self._after_write(group.group_id, member.member_id, outcome.after)
        has_new_assignment = member.assigned != previous.assigned
        reply = ConsumerHeartbeatReply(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.config.heartbeat_interval_of(group.group_id),
            assignment=member.assigned if request.is_full or has_new_assignment else None,
        )
        outcome.replies.append((token, reply))
        return outcome

    def _after_write(self, group_id: str, member_id: str, after: After | None) -> After:
        """The callback for the result of writing a heartbeat's records."""
        version = self._subscriptions.version()

        def written(code: ErrorCode, moment: Moment) -> GroupOutcome:
            outcome = after(code, moment) if after is not None else Outcome()
            group = self._groups.get(group_id)
            member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
            if member is None:
                return outcome
            assert isinstance(group, ConsumerGroup)
            if code is ErrorCode.NONE:
                group.resolved_version = version
            else:
                # The member is alive, although the write failed.
                outcome.timers.append(self._session(group, member, moment))
            return outcome

        return written

    def _is_unchanged(self, group: ConsumerGroup, member: ConsumerMember, request: ConsumerHeartbeat) -> bool:
        """Whether the heartbeat neither requests nor finds a change: the usual case, with a shortcut past the other
        rules."""
        return (
            request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
            and member.state is MemberState.STABLE
            and request.is_unchanged
            and request.instance_id in (None, member.instance_id)
            and (request.client_id, request.client_host) == (member.client_id, member.client_host)
            and member.classic is None
            and (request.instance_id is not None or member.instance_id is None)
            and group.resolved_version == self._subscriptions.version()
        )

    def _reply_unchanged(
        self, group: ConsumerGroup, member: ConsumerMember, token: int, moment: Moment
    ) -> GroupOutcome:
        reply = ConsumerHeartbeatReply(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.config.heartbeat_interval_of(group.group_id),
        )
        return Outcome(replies=[(token, reply)], timers=[self._session(group, member, moment)])

    def _group_for(self, request: ConsumerHeartbeat, moment: Moment) -> tuple[ConsumerGroup, GroupOutcome]:
        """The group. A joining member creates a missing group, and upgrades a classic group if allowed."""
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group, Outcome()
        if request.member_epoch != JOIN_EPOCH:
            self._groups.find(request.group_id)
        elif group is None or group.is_empty:
            return ConsumerGroup(request.group_id), Outcome(records=group.tombstones() if group is not None else [])
        elif isinstance(group, ClassicGroup):
            return self._upgrade(group, moment)
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {quoted(request.group_id)} is not a consumer group.")

    def _upgrade(self, group: ClassicGroup, moment: Moment) -> tuple[ConsumerGroup, GroupOutcome]:
        check_upgrade(group, self.config)
        records = upgraded(group, self._subscriptions)
        converted = ConsumerGroup(group.group_id)
        converted.replay(records)
        step = Step(self._classic_config, moment)
        step.cancel_join_timer(group)
        step.cancel_sync_timer(group)
        for member in group.members.values():
            step.cancel_session(group, member.member_id)
        outcome = step.outcome
        outcome.records += [*group.tombstones(), *records]
        outcome.timers += [self._session(converted, member, moment) for member in converted.members.values()]
        members = len(group.members)
        step.log(f"group {logged(group.group_id)}: upgraded with {members} member(s) to the consumer protocol")
        outcome.after = self._upgraded(group)
        return converted, outcome

    def _upgraded(self, group: ClassicGroup) -> After:
        """Pending requests of the classic group get REBALANCE_IN_PROGRESS, unless the write failed."""

        def written(_code: ErrorCode, moment: Moment) -> GroupOutcome:
            step = Step(self._classic_config, moment)
            if self._groups.get(group.group_id) is not group:
                for member in group.members.values():
                    reply = Joined(code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
                    step.respond_to_join(group, member, reply)
                    step.respond_to_sync(member, Synced(code=ErrorCode.REBALANCE_IN_PROGRESS))
            return step.outcome

        return written

    def _leave(self, request: ConsumerHeartbeat, token: int, moment: Moment) -> GroupOutcome:
        group = self.find(request.group_id)
        if request.instance_id is None:
            member = group.find_member(request.member_id)
        else:
            existing = group.members.get(group.static.get(request.instance_id, ""))
            check_static(existing, request)
            assert existing is not None
            member = existing
        reply = ConsumerHeartbeatReply(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            # Its replacement may commit its partitions in any epoch (KIP-1251).
            assigned_epochs = dict.fromkeys(partitions_of(member.assigned), 0)
            away = replace(
                member, epoch=STATIC_LEAVE_EPOCH, pending_revocation=NOTHING, assigned_epochs=assigned_epochs
            )
            return Outcome(
                records=[away.assignment_record(group.group_id)],
                replies=[(token, reply)],
                timers=[(_key(ConsumerTimer.REBALANCE, group.group_id, member.member_id), None)],
                log_lines=[_static_member_left(group.group_id, member.member_id)],
            )
        outcome = self._fencing.fence(group, [member], "the member left", moment)
        outcome.replies.append((token, reply))
        return outcome

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        """Errors are in the result, not raised."""
        if not group_id:
            return DescribedConsumerGroup(group_id=group_id, code=ErrorCode.INVALID_GROUP_ID)
        try:
            group = self.find(group_id)
        except KafkaError as error:
            return DescribedConsumerGroup(group_id=group_id, code=error.code, message=error.message)
        return DescribedConsumerGroup(
            group_id=group_id,
            state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor=group.preferred_assignor(self.config.assignors),
            members=tuple(_describe(group, member) for member in group.members.values()),
        )

    def find(self, group_id: str) -> ConsumerGroup:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self._groups.find(group_id)
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {quoted(group_id)} is not a consumer group.")
        return group

    # Events.

    def expired(self, key: ConsumerTimerKey, moment: Moment) -> GroupOutcome:
        group = self._groups.get(key.group_id)
        member = group.members.get(key.member_id) if isinstance(group, ConsumerGroup) else None
        if member is None:
            return Outcome()
        assert isinstance(group, ConsumerGroup)
        match key.kind:
            case ConsumerTimer.SESSION:
                reason = "the session expired"
            case ConsumerTimer.REBALANCE if member.state is not MemberState.UNREVOKED_PARTITIONS:
                return Outcome()
            case ConsumerTimer.REBALANCE:
                reason = f"the member did not revoke partitions within {member.rebalance_timeout_ms} ms"
            case ConsumerTimer.JOIN:
                reason = f"the member did not rejoin within {member.rebalance_timeout_ms} ms"
            case ConsumerTimer.SYNC:
                reason = f"the member sent no SyncGroup within {member.rebalance_timeout_ms} ms"
        outcome = self._fencing.fence(group, [member], reason, moment)
        outcome.host = member.client_host.removeprefix("/")
        return outcome

    def loaded(self, moment: Moment) -> Iterator[GroupOutcome]:
        """Start a full session timeout for every member."""
        for groups in self._groups.in_steps():
            outcome: GroupOutcome = Outcome()
            for group in groups:
                if isinstance(group, ConsumerGroup):
                    for member in group.members.values():
                        outcome.timers.append(self._session(group, member, moment))
                        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                            outcome.timers.append(_revocation(group.group_id, member, moment))
            yield outcome

    def _session(self, group: ConsumerGroup, member: ConsumerMember, moment: Moment) -> tuple[ConsumerTimerKey, int]:
        timeout_ms = self.config.session_timeout_of(group.group_id)
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        return _key(ConsumerTimer.SESSION, group.group_id, member.member_id), moment.monotonic_ms + timeout_ms


def _key(kind: ConsumerTimer, group_id: str, member_id: str) -> ConsumerTimerKey:
    return ConsumerTimerKey(kind, group_id, member_id)


def _revocation(group_id: str, member: ConsumerMember, moment: Moment) -> tuple[ConsumerTimerKey, int | None]:
    key = _key(ConsumerTimer.REBALANCE, group_id, member.member_id)
    if member.state is not MemberState.UNREVOKED_PARTITIONS:
        return key, None
    return key, moment.monotonic_ms + member.rebalance_timeout_ms


def _describe(group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumer:
    return DescribedConsumer(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=member.topics,
        regex=member.regex,
        assignment=member.assigned,
        target=group.target.get(member.member_id, NOTHING),
        is_classic=member.classic is not None,
    )


def _static_member_left(group_id: str, member_id: str) -> str:
    return f"group {logged(group_id)}: static member {logged(member_id)} left temporarily, its partitions stay assigned"
