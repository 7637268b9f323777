"""The rules for the heartbeat of a KIP-848 member: join, change, reconcile, leave.

Each rule makes records and applies them to a copy of the group (`GroupUpdate`), so that later rules of the same
heartbeat see their effect. Only replay changes the group itself.
"""

from dataclasses import replace

from kafkad.core.coordinator.shard import Moment
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.consumer.assignors import NOTHING, Assignment, IllegalAssignment, assign
from kafkad.core.groups.consumer.config import ConsumerConfig
from kafkad.core.groups.consumer.group import ConsumerGroup, ConsumerRecord
from kafkad.core.groups.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    is_subset,
    to_topic_partitions,
)
from kafkad.core.groups.consumer.messages import ConsumerHeartbeat
from kafkad.core.groups.consumer.reconciliation import Target, reconcile
from kafkad.core.groups.consumer.subscribed_names import check_names_fit
from kafkad.core.groups.consumer.topics import Subscriptions
from kafkad.core.groups.records import (
    ConsumerGroupCurrentMemberAssignmentRemoved,
    ConsumerGroupMemberMetadataRemoved,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupRegularExpressionRemoved,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMemberRemoved,
    ConsumerGroupTargetAssignmentMetadata,
)
from kafkad.core.quoting import logged, quoted


class AssignmentFailed(KafkaError):
    """The group's assignor has failed, which no member has caused. `line` is for the log, as the update is lost."""

    def __init__(self, text: str, line: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, text)
        self.line = line


class GroupUpdate:
    """The updated group, and the records of the update. The first record makes the copy."""

    def __init__(
        self, group: ConsumerGroup, config: ConsumerConfig, subscriptions: Subscriptions, moment: Moment
    ) -> None:
        self.group = group
        self.records: list[ConsumerRecord] = []
        self.log_lines: list[str] = []
        self.config = config
        self.subscriptions = subscriptions
        self.moment = moment

    def add(self, *records: ConsumerRecord) -> None:
        if not self.records:
            self.group = self.group.copy()
        self.records += records
        self.group.replay(records)

    def log(self, text: str) -> None:
        self.log_lines.append(self.line(text))

    def line(self, text: str) -> str:
        """A log line of the group. Unprintable characters, which clients may send, are replaced."""
        line = f"group {logged(self.group.group_id)}: {text}"
        return (
            line if line.isprintable() else "".join(character if character.isprintable() else "?" for character in line)
        )


def check_epoch(member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> None:
    """A member one epoch behind may have lost the response with the new epoch; any other mismatch fences the member.

    A fenced member may rejoin with the epoch of a joining member.
    """
    received, expected = heartbeat.member_epoch, member.epoch
    if received in (expected, JOIN_EPOCH):
        return
    relation = "greater" if received > expected else "smaller"
    lost_response = (
        received < expected
        and received == member.previous_epoch
        and heartbeat.owned is not None
        and is_subset(heartbeat.owned, member.assigned)
    )
    if not lost_response:
        text = (
            f"The consumer group member has a {relation} member epoch ({received}) than the one known by the group "
            f"coordinator ({expected}). The member must abandon all its partitions and rejoin."
        )
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)


def find_or_subscribe(update: GroupUpdate, heartbeat: ConsumerHeartbeat, member_id: str) -> ConsumerMember:
    """The member of the heartbeat: an existing one, a new one, or the replacement of a static member."""
    if heartbeat.instance_id is None:
        return _find_dynamic(update, heartbeat, member_id)
    existing_id = update.group.static.get(heartbeat.instance_id)
    existing = update.group.members.get(existing_id) if existing_id is not None else None
    if heartbeat.member_epoch == JOIN_EPOCH:
        if existing is None:
            update.log(f"static member {logged(member_id)} ({logged(heartbeat.instance_id)}) joins")
            return ConsumerMember(member_id=member_id)
        return _replace_static(update, heartbeat, existing, member_id)
    check_static(existing, heartbeat)
    assert existing is not None
    check_epoch(existing, heartbeat)
    return existing


def check_static(existing: ConsumerMember | None, heartbeat: ConsumerHeartbeat) -> None:
    instance_id = quoted(heartbeat.instance_id or "")
    if existing is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if existing.member_id != heartbeat.member_id:
        text = (
            f"Static member {quoted(heartbeat.member_id)} with instance id {instance_id} "
            f"was fenced by member {quoted(existing.member_id)}."
        )
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, text)


def _find_dynamic(update: GroupUpdate, heartbeat: ConsumerHeartbeat, member_id: str) -> ConsumerMember:
    member = update.group.members.get(member_id)
    if member is None:
        if heartbeat.member_epoch != JOIN_EPOCH:
            update.group.find_member(member_id)
        update.log(f"member {logged(member_id)} joins")
        return ConsumerMember(member_id=member_id)
    check_epoch(member, heartbeat)
    return member


def _replace_static(
    update: GroupUpdate, heartbeat: ConsumerHeartbeat, existing: ConsumerMember, member_id: str
) -> ConsumerMember:
    """A static member rejoins with another id: it gets the state of the old one, if that has left."""
    if existing.epoch != STATIC_LEAVE_EPOCH and existing.classic is None:
        text = (
            f"Static member {quoted(member_id)} with instance id {quoted(heartbeat.instance_id or '')} cannot join the "
            f"group because the instance id is owned by {quoted(existing.member_id)} member."
        )
        raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
    return replace_static_member(update, existing, member_id)


def replace_static_member(update: GroupUpdate, existing: ConsumerMember, member_id: str) -> ConsumerMember:
    """Move the state of a static member to its new id."""
    group_id = update.group.group_id
    target = update.group.target.get(existing.member_id, NOTHING)
    replacement = replace(existing, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    remove_member(update, existing.member_id)
    update.add(
        replacement.subscription_record(group_id),
        ConsumerGroupTargetAssignmentMember(
            group_id=group_id, member_id=member_id, topic_partitions=to_topic_partitions(target)
        ),
        replacement.assignment_record(group_id),
    )
    instance_id = logged(existing.instance_id or "")
    update.log(f"static member {logged(existing.member_id)} ({instance_id}) is replaced by {logged(member_id)}")
    return replacement


def update_member(update: GroupUpdate, member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
    """Apply the member's fields of the heartbeat; add its records, and those of its pattern."""
    timeout_ms = heartbeat.rebalance_timeout_ms
    updated = replace(
        member,
        instance_id=heartbeat.instance_id if heartbeat.instance_id is not None else member.instance_id,
        rack_id=heartbeat.rack_id if heartbeat.rack_id is not None else member.rack_id,
        rebalance_timeout_ms=timeout_ms if timeout_ms != -1 else member.rebalance_timeout_ms,
        assignor=heartbeat.assignor if heartbeat.assignor is not None else member.assignor,
        topics=tuple(sorted(set(heartbeat.topics))) if heartbeat.topics is not None else member.topics,
        # An empty pattern ends the subscription by pattern.
        regex=(heartbeat.regex or None) if heartbeat.regex is not None else member.regex,
        client_id=heartbeat.client_id,
        client_host=heartbeat.client_host,
        classic=None,
    )
    group_id = update.group.group_id
    existing = update.group.members.get(updated.member_id)
    record = updated.subscription_record(group_id)
    if existing is None or existing.subscription_record(group_id) != record:
        check_names_fit(update.group.subscribed, updated.topics)
        if updated.regex is not None and updated.regex not in update.group.patterns:
            resolved = _resolve(update, updated.regex)
            update.add(record, resolved)
        else:
            update.add(record)
        drop_unused_patterns(update)
    return updated


def _resolve(update: GroupUpdate, pattern: str) -> ConsumerGroupRegularExpression:
    return ConsumerGroupRegularExpression(
        group_id=update.group.group_id,
        regular_expression=pattern,
        topics=update.subscriptions.matching(pattern),
        version=max(0, update.subscriptions.version()),
        timestamp=update.moment.wall_ms,
    )


def drop_unused_patterns(update: GroupUpdate) -> None:
    used = {member.regex for member in update.group.members.values()}
    for pattern in [pattern for pattern in update.group.patterns if pattern not in used]:
        update.add(ConsumerGroupRegularExpressionRemoved(group_id=update.group.group_id, regular_expression=pattern))


def _resolve_again(update: GroupUpdate, pattern: ConsumerGroupRegularExpression) -> None:
    """Resolve a pattern again; after a failure it keeps its previous matches."""
    try:
        resolved = _resolve(update, pattern.regular_expression)
    except KafkaError:
        return
    if resolved.topics != pattern.topics:
        update.add(resolved)


def refresh_topics(update: GroupUpdate, *, subscriptions_changed: bool) -> bool:
    """Resolve the topics again if they may have changed; returns whether this made a new epoch."""
    group, version = update.group, update.subscriptions.version()
    if not subscriptions_changed and group.resolved_version == version:
        return False
    if group.resolved_version != version:
        for pattern in list(group.patterns.values()):
            _resolve_again(update, pattern)
    metadata_hash = update.subscriptions.hash_of(update.group.subscribed_names())
    is_new = subscriptions_changed or metadata_hash != update.group.metadata_hash
    if is_new:
        bump_epoch(update, metadata_hash)
    return is_new


def bump_epoch(update: GroupUpdate, metadata_hash: int) -> None:
    group = update.group
    update.add(ConsumerGroupMetadata(group_id=group.group_id, epoch=group.epoch + 1, metadata_hash=metadata_hash))


def update_target(update: GroupUpdate) -> None:
    """Compute a new target assignment if the group epoch is newer than the assignment epoch.

    Within the assignment interval the group waits: the first heartbeat after it computes one target for all changes
    so far.
    """
    group = update.group
    interval_ms = update.config.assignment_interval_of(group.group_id)
    if group.epoch <= group.assignment_epoch or not group.may_be_assigned(interval_ms, update.moment.wall_ms):
        return
    name = group.preferred_assignor(update.config.assignors)
    members, partitions = update.subscriptions.assignor_input(group)
    try:
        assigned = assign(update.config.assignors[name], members, partitions)
    except IllegalAssignment as error:
        text = f"Failed to compute a new target assignment for epoch {group.epoch}: {error}"
        line = update.line(f"no new assignment for epoch {group.epoch}: {quoted(str(error), 1_000)}")
        raise AssignmentFailed(text, line) from error
    changed = [
        ConsumerGroupTargetAssignmentMember(
            group_id=group.group_id, member_id=member_id, topic_partitions=to_topic_partitions(assignment)
        )
        for member_id, assignment in assigned.items()
        if group.target.get(member_id) != assignment
    ]
    metadata = ConsumerGroupTargetAssignmentMetadata(
        group_id=group.group_id, assignment_epoch=group.epoch, assignment_timestamp=update.moment.wall_ms
    )
    update.add(*changed, metadata)
    update.log(f"epoch {group.epoch}: {len(members)} member(s), {len(changed)} assignment(s) changed by {name!r}")


def reconcile_member(
    update: GroupUpdate, member: ConsumerMember, owned: Assignment | None, *, has_new_subscription: bool
) -> ConsumerMember:
    """One step of the member, which reported `owned`, towards its target; adds a record if it changed."""
    group = update.group
    if not has_new_subscription and member.is_reconciled_to(group.assignment_epoch):
        return member
    target = Target(
        epoch=group.assignment_epoch,
        assignment=group.target.get(member.member_id, NOTHING),
        subscribed=update.subscriptions.ids_of(group.topics_of(member)),
        is_owned=group.is_owned,
    )
    reconciled = reconcile(member, target, owned, has_new_subscription=has_new_subscription)
    existing = group.members.get(member.member_id)
    record = reconciled.assignment_record(group.group_id)
    if existing is None or existing.assignment_record(group.group_id) != record:
        update.add(record)
    return reconciled


def remove_member(update: GroupUpdate, member_id: str) -> None:
    group_id = update.group.group_id
    update.add(
        ConsumerGroupCurrentMemberAssignmentRemoved(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberRemoved(group_id=group_id, member_id=member_id),
        ConsumerGroupMemberMetadataRemoved(group_id=group_id, member_id=member_id),
    )
