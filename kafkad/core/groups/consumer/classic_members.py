"""Members of a KIP-848 group with the classic protocol, while other members use the new one.

A join is one step towards the target assignment, as a heartbeat is for other members. The heartbeat reply tells a
member to rejoin, and SyncGroup returns its assignment, encoded in the embedded protocol.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.messages import (
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    Left,
    LeftMember,
    Synced,
    SyncGroup,
)
from kafkad.core.groups.classic.step import first_of
from kafkad.core.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from kafkad.core.groups.consumer.assignors import NOTHING
from kafkad.core.groups.consumer.config import ConsumerConfig
from kafkad.core.groups.consumer.fencing import Fencing
from kafkad.core.groups.consumer.group import ConsumerGroup
from kafkad.core.groups.consumer.heartbeat import (
    AssignmentFailed,
    GroupUpdate,
    drop_unused_patterns,
    reconcile_member,
    refresh_topics,
    replace_static_member,
    update_target,
)
from kafkad.core.groups.consumer.member import ConsumerMember, MemberState, difference
from kafkad.core.groups.consumer.subscribed_names import check_names_fit
from kafkad.core.groups.consumer.timers import ConsumerTimer, ConsumerTimerKey
from kafkad.core.groups.consumer.topics import Subscriptions
from kafkad.core.groups.embedded_protocol import MalformedProtocol, Subscription, read_subscription
from kafkad.core.groups.group import Group
from kafkad.core.groups.migration import by_id, classic_metadata, embedded_assignment, supported_protocols
from kafkad.core.groups.records import GroupRecord
from kafkad.core.quoting import logged, quoted

GroupOutcome = Outcome[GroupRecord]


class ClassicInConsumer:
    """Implements `ModernGroups`. Rejected joins are replies; other rejections are raised, as required there."""

    def __init__(
        self,
        config: ConsumerConfig,
        subscriptions: Subscriptions,
        fencing: Fencing,
        new_id: Callable[[], str],
        rebalanced: Callable[[], None],
    ) -> None:
        self.config = config
        self._subscriptions = subscriptions
        self._fencing = fencing
        self._new_id = new_id
        self._rebalanced = rebalanced

    def classic_join(self, group: Group, request: JoinGroup, token: int, moment: Moment) -> GroupOutcome:
        assert isinstance(group, ConsumerGroup)
        try:
            return self._join(group, request, token, moment)
        except KafkaError as error:
            lines = [error.line] if isinstance(error, AssignmentFailed) else []
            return Outcome(replies=[(token, Joined(code=error.code))], log_lines=lines)

    def _join(self, group: ConsumerGroup, request: JoinGroup, token: int, moment: Moment) -> GroupOutcome:
        if len(group.members) >= self.config.max_size and request.member_id not in group.members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        _check_protocols(group, request)
        member_id = request.member_id or self._new_id()
        if request.requires_known_member_id and not request.member_id and request.instance_id is None:
            return Outcome(replies=[(token, Joined(code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))])
        update = GroupUpdate(group, self.config, self._subscriptions, moment)
        previous = _find(update, request, member_id)
        replaced = group.members.get(group.static.get(request.instance_id or "", ""))
        subscription = _subscription(request)
        updated = _update(update, previous, request, subscription)
        changed = (previous.topics, previous.regex) != (updated.topics, updated.regex)
        if refresh_topics(update, subscriptions_changed=changed):
            self._rebalanced()
        downgrades = replaced is not None and self._fencing.downgrades_without(group, replaced)
        if not downgrades:
            update_target(update)
        owned = by_id(subscription.owned, self._subscriptions.topics)
        member = updated
        if not downgrades or update.group.assignment_epoch >= update.group.epoch:
            member = reconcile_member(update, updated, owned, has_new_subscription=changed)
        # Even if the write fails: the member joined in time. The next request to rejoin starts a new timeout.
        group.pending_rejoins.discard(member.member_id)
        if downgrades:
            outcome = self._fencing.replace(update, group)
        else:
            outcome = Outcome(records=list(update.records), timers=_joined_timers(group, member, request, moment))
            outcome.log_lines += update.log_lines
            outcome.after = self._after_write(group, member.member_id)
        joined = Joined(
            member_id=member.member_id,
            generation=member.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol=request.protocols[0][0],
        )
        outcome.replies.append((token, joined))
        return outcome

    def _after_write(self, group: ConsumerGroup, member_id: str) -> Callable[[ErrorCode, Moment], GroupOutcome]:
        """The callback for the result of writing a join's records."""
        version = self._subscriptions.version()

        def written(code: ErrorCode, moment: Moment) -> GroupOutcome:
            if code is ErrorCode.NONE:
                group.resolved_version = version
                return Outcome()
            member = group.members.get(member_id)
            return Outcome(timers=[_session(group, member, moment)] if member is not None and member.classic else [])

        return written

    def classic_sync(self, group: Group, request: SyncGroup, token: int, moment: Moment) -> GroupOutcome:
        assert isinstance(group, ConsumerGroup)
        member = _classic_member(group, request.member_id, request.instance_id)
        _check_generation(member, request.generation)
        _check_protocol(member, request)
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            reply = Synced(code=ErrorCode.REBALANCE_IN_PROGRESS)
            return Outcome(replies=[(token, reply)], timers=_request_rejoin(group, member, moment))
        synced = Synced(
            protocol_type=request.protocol_type,
            protocol=request.protocol,
            assignment=embedded_assignment(member.assigned, _metadata(member), self._subscriptions.topics),
        )
        return Outcome(
            replies=[(token, synced)],
            timers=[(_key(ConsumerTimer.SYNC, group, member), None), _session(group, member, moment)],
        )

    def classic_heartbeat(self, group: Group, request: Heartbeat, token: int, moment: Moment) -> GroupOutcome:
        assert isinstance(group, ConsumerGroup)
        member = _classic_member(group, request.member_id, request.instance_id)
        _check_generation(member, request.generation)
        outcome: GroupOutcome = Outcome(timers=[_session(group, member, moment)])
        code = ErrorCode.NONE
        interval_ms = self.config.assignment_interval_of(group.group_id)
        if _must_rejoin(group, member, is_due=group.may_be_assigned(interval_ms, moment.wall_ms)):
            code = ErrorCode.REBALANCE_IN_PROGRESS
            outcome.timers += _request_rejoin(group, member, moment)
        outcome.replies.append((token, code))
        return outcome

    def classic_leave(self, group: Group, request: LeaveGroup, token: int, moment: Moment) -> GroupOutcome:
        assert isinstance(group, ConsumerGroup)
        leaving: dict[str, ConsumerMember] = {}
        left = []
        for leaving_member in request.members:
            code = ErrorCode.NONE
            try:
                member = _leaving_member(group, leaving_member)
                leaving[member.member_id] = member
            except KafkaError as error:
                code = error.code
            left.append(
                LeftMember(member_id=leaving_member.member_id, instance_id=leaving_member.instance_id, code=code)
            )
        reasons = first_of(sorted({member.logged_reason for member in request.members}))
        outcome = self._fencing.fence(group, list(leaving.values()), f"members left: {reasons}", moment)
        outcome.replies.append((token, Left(members=tuple(left))))
        return outcome


def _check_protocols(group: ConsumerGroup, request: JoinGroup) -> None:
    """Raises INCONSISTENT_GROUP_PROTOCOL unless a consumer shares a protocol with all classic members."""
    names = set(request.protocol_names)
    supported = [
        dict(supported_protocols(member.classic)) for member in group.members.values() if member.classic is not None
    ]
    if (
        request.protocol_type != CONSUMER_PROTOCOL_TYPE
        or not names
        or (supported and not names.intersection(*supported))
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(request: JoinGroup) -> Subscription:
    """The subscription in the client's first protocol. Raises UNKNOWN_SERVER_ERROR, as Apache Kafka does."""
    try:
        return read_subscription(request.protocols[0][1])
    except MalformedProtocol as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error


def _joined_timers(
    group: ConsumerGroup, member: ConsumerMember, request: JoinGroup, moment: Moment
) -> list[tuple[Hashable, int | None]]:
    return [
        (_key(ConsumerTimer.JOIN, group, member), None),
        _after(ConsumerTimer.SESSION, group, member, request.session_timeout_ms, moment),
        _after(ConsumerTimer.SYNC, group, member, request.rebalance_timeout_ms, moment),
    ]


def _find(update: GroupUpdate, request: JoinGroup, member_id: str) -> ConsumerMember:
    group = update.group
    if request.instance_id is None:
        if member_id not in group.members:
            update.log(f"member {logged(member_id)} joins with the classic protocol")
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    existing = group.members.get(group.static.get(request.instance_id, ""))
    if not request.member_id:
        return (
            ConsumerMember(member_id=member_id)
            if existing is None
            else replace_static_member(update, existing, member_id)
        )
    if existing is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if existing.member_id != request.member_id:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    return existing


def _update(
    update: GroupUpdate, member: ConsumerMember, request: JoinGroup, subscription: Subscription
) -> ConsumerMember:
    updated = replace(
        member,
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        rack_id=subscription.rack_id if subscription.rack_id is not None else member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=subscription.topics,
        regex=None,
        assignor=None,
        classic=classic_metadata(request.session_timeout_ms, request.protocols),
    )
    group_id = update.group.group_id
    existing = update.group.members.get(updated.member_id)
    record = updated.subscription_record(group_id)
    if existing is None or existing.subscription_record(group_id) != record:
        check_names_fit(update.group.subscribed, updated.topics)
        update.add(record)
        drop_unused_patterns(update)
    return updated


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember, *, is_due: bool) -> bool:
    """Whether the member has a new target, partitions to revoke, or was waiting for partitions that are free now."""
    if member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if group.epoch > group.assignment_epoch and is_due and all(other.classic for other in group.members.values()):
        # Without a member of the new protocol no heartbeat computes a new target (a difference to Apache Kafka).
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_partitions(group, member)


def _request_rejoin(group: ConsumerGroup, member: ConsumerMember, moment: Moment) -> list[tuple[Hashable, int | None]]:
    """Start the timeout for a rejoin, if it is not running yet."""
    if member.member_id in group.pending_rejoins:
        return []
    group.pending_rejoins.add(member.member_id)
    return [_after(ConsumerTimer.JOIN, group, member, member.rebalance_timeout_ms, moment)]


def _waits_for_partitions(group: ConsumerGroup, member: ConsumerMember) -> bool:
    missing = difference(group.target.get(member.member_id, NOTHING), member.assigned)
    return any(group.is_owned(topic, index) for topic, indexes in missing.items() for index in indexes)


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is not None:
        existing_id = group.static.get(instance_id)
        if existing_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if existing_id != member_id:
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    member = group.find_member(member_id)
    if member.classic is None:
        text = f"Member {quoted(member_id)} does not use the classic protocol."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
    return member


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    """A member of either protocol. Tools send only the instance id of a static member."""
    if leaving.instance_id is None:
        return group.find_member(leaving.member_id)
    existing_id = group.static.get(leaving.instance_id)
    if existing_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if leaving.member_id not in ("", existing_id):
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    return group.members[existing_id]


def _metadata(member: ConsumerMember) -> bytes:
    assert member.classic is not None
    return member.classic.supported_protocols[0].metadata


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if member.epoch != generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _check_protocol(member: ConsumerMember, request: SyncGroup) -> None:
    assert member.classic is not None
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.protocol not in (None, member.classic.supported_protocols[0].name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _session(group: ConsumerGroup, member: ConsumerMember, moment: Moment) -> tuple[ConsumerTimerKey, int]:
    assert member.classic is not None
    return _after(ConsumerTimer.SESSION, group, member, member.classic.session_timeout_ms, moment)


def _after(
    kind: ConsumerTimer, group: ConsumerGroup, member: ConsumerMember, timeout_ms: int, moment: Moment
) -> tuple[ConsumerTimerKey, int]:
    return _key(kind, group, member), moment.monotonic_ms + timeout_ms


def _key(kind: ConsumerTimer, group: ConsumerGroup, member: ConsumerMember) -> ConsumerTimerKey:
    return ConsumerTimerKey(kind, group.group_id, member.member_id)
