"""How does a group with members change its protocol?

A classic group becomes a consumer group when the first member with the consumer protocol joins, and a classic group
again when the last one leaves (KIP-848, online migration). One batch removes the old group and writes the new one.
Members of a consumer group that still use the classic protocol are handled in `consumer/classic_members.py`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.member import ClassicMember
from kafkad.core.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from kafkad.core.groups.consumer.assignors import NOTHING, Assignment
from kafkad.core.groups.consumer.config import ConsumerConfig
from kafkad.core.groups.consumer.group import ConsumerGroup, ConsumerRecord
from kafkad.core.groups.consumer.member import ConsumerMember, to_topic_partitions
from kafkad.core.groups.consumer.subscribed_names import SubscribedNames, check_names_fit
from kafkad.core.groups.consumer.topics import Subscriptions
from kafkad.core.groups.embedded_protocol import (
    MalformedProtocol,
    Named,
    TopicLists,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from kafkad.core.groups.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupMember,
    GroupMetadata,
)
from kafkad.core.quoting import quoted


def check_upgrade(group: ClassicGroup, config: ConsumerConfig) -> None:
    """Raises GROUP_ID_NOT_FOUND: for consumer-protocol clients a group that can't be upgraded does not exist."""
    if not config.migration_policy.may_upgrade:
        raise _not_upgraded(group.group_id, "online upgrade is disabled")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _not_upgraded(group.group_id, "the group does not use the consumer embedded protocol")
    if len(group.members) > config.max_size:
        raise _not_upgraded(group.group_id, "the group size exceeds the consumer group maximum size")


def _not_upgraded(group_id: str, reason: str) -> KafkaError:
    text = f"Cannot upgrade classic group {quoted(group_id)} to consumer group because {reason}."
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def upgraded(group: ClassicGroup, subscriptions: Subscriptions) -> list[ConsumerRecord]:
    """The classic group as a consumer group: same generation, same assignments. Raises GROUP_ID_NOT_FOUND."""
    group_id, epoch = group.group_id, group.generation
    try:
        members = _as_consumers(group, subscriptions.topics)
    except MalformedProtocol as error:
        raise _not_upgraded(group_id, "the embedded consumer protocol is malformed") from error
    records: list[ConsumerRecord] = [member.subscription_record(group_id) for member in members]
    metadata_hash = subscriptions.hash_of(frozenset(topic for member in members for topic in member.topics))
    records.append(ConsumerGroupMetadata(group_id=group_id, epoch=epoch, metadata_hash=metadata_hash))
    for member in members:
        assigned = to_topic_partitions(member.assigned)
        records.append(
            ConsumerGroupTargetAssignmentMember(
                group_id=group_id, member_id=member.member_id, topic_partitions=assigned
            )
        )
    # No assignment timestamp: it is unknown, so the next assignment may be computed at once.
    records.append(ConsumerGroupTargetAssignmentMetadata(group_id=group_id, assignment_epoch=epoch))
    return [*records, *(member.assignment_record(group_id) for member in members)]


def _as_consumers(group: ClassicGroup, topics: Topics) -> list[ConsumerMember]:
    """Raises GROUP_MAX_SIZE_REACHED if the members subscribe to too many different topics."""
    lists, subscribed = TopicLists(), SubscribedNames()
    members = []
    for member in group.members.values():
        converted = _as_consumer(member, group, topics, lists)
        check_names_fit(subscribed, converted.topics)
        members.append(replace(converted, topics=subscribed.add(converted.topics)))
    return members


def _as_consumer(member: ClassicMember, group: ClassicGroup, topics: Topics, lists: TopicLists) -> ConsumerMember:
    subscription = read_subscription(_metadata(member, group.protocol), lists)
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        reason = (
            "an unsupported custom assignor is in use. "
            "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade"
        )
        raise _not_upgraded(group.group_id, reason)
    return ConsumerMember(
        member_id=member.member_id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=subscription.topics,
        assigned=by_id(assignment.partitions, topics),
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
    )


def _metadata(member: ClassicMember, protocol: str | None) -> bytes:
    """The metadata for the group's protocol; before it is selected, for the member's preferred protocol."""
    return next((metadata for name, metadata in member.protocols if name == protocol), member.protocols[0][1])


def classic_metadata(session_timeout_ms: int, protocols: Iterable[tuple[str, bytes]]) -> ClassicMemberMetadata:
    supported = tuple(ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols)
    return ClassicMemberMetadata(session_timeout_ms=session_timeout_ms, supported_protocols=supported)


def supported_protocols(classic: ClassicMemberMetadata) -> tuple[tuple[str, bytes], ...]:
    return tuple((row.name, row.metadata) for row in classic.supported_protocols)


def downgraded(
    group: ConsumerGroup, remaining: Sequence[ConsumerMember], generation: int, topics: Topics, wall_ms: int
) -> GroupMetadata:
    """The remaining members, which all use the classic protocol, as a classic group with the target assignment."""
    protocol = _select_protocol(remaining)
    return GroupMetadata(
        group_id=group.group_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=generation,
        protocol=protocol,
        leader=remaining[0].member_id,
        current_state_timestamp=wall_ms,
        members=tuple(
            _as_classic(member, group.target.get(member.member_id, NOTHING), protocol, topics) for member in remaining
        ),
    )


def _as_classic(member: ConsumerMember, target: Assignment, protocol: str, topics: Topics) -> GroupMember:
    assert member.classic is not None
    metadata = dict(supported_protocols(member.classic))[protocol]
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.classic.session_timeout_ms,
        subscription=metadata,
        assignment=embedded_assignment(target, metadata, topics),
    )


def _select_protocol(members: Sequence[ConsumerMember]) -> str:
    """The most preferred protocol of all that are supported by every member."""
    supported = [[row.name for row in member.classic.supported_protocols] for member in members if member.classic]
    common = set(supported[0]).intersection(*supported)
    votes = Counter(next(name for name in names if name in common) for names in supported)
    return max(sorted(votes), key=votes.__getitem__)


def embedded_assignment(assignment: Assignment, metadata: bytes, topics: Topics) -> bytes:
    """The assignment of a classic member, encoded in the version of its `metadata`."""
    try:
        version = read_version(metadata)
    except MalformedProtocol:
        version = 0
    return write_assignment(by_name(assignment, topics), version)


def by_id(named: Named, topics: Topics) -> Assignment:
    """Deleted topics are omitted."""
    ids = {name: topics.id_of(name) for name in named}
    return {topic_id: named[name] for name, topic_id in ids.items() if topic_id is not None and named[name]}


def by_name(assignment: Assignment, topics: Topics) -> Named:
    names: dict[UUID, str | None] = {topic_id: topics.name_of(topic_id) for topic_id in assignment}
    return {name: assignment[topic_id] for topic_id, name in names.items() if name is not None}
