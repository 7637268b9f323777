"""A KIP-848 group, built from its records: members send heartbeats, the broker assigns the partitions.

Its progress has three epochs: of the group, of the target assignment, and of each member. All state is replayed from
records, except the metadata version of the last resolution. `heartbeat.py` decides the effects of a heartbeat.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import ClassVar
from uuid import UUID

from kafkad.core.coordinator.shard import Moment
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.consumer.assignors import NOTHING, Assignment
from kafkad.core.groups.consumer.member import JOIN_EPOCH, ConsumerMember, MemberState, epochs_of, to_assignment
from kafkad.core.groups.consumer.subscribed_names import SubscribedNames
from kafkad.core.groups.group import Expiration, GroupType, PartitionCheck
from kafkad.core.groups.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupCurrentMemberAssignmentRemoved,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMemberMetadataRemoved,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataRemoved,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupPartitionMetadataRemoved,
    ConsumerGroupRegularExpression,
    ConsumerGroupRegularExpressionRemoved,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMemberRemoved,
    ConsumerGroupTargetAssignmentMetadata,
    ConsumerGroupTargetAssignmentMetadataRemoved,
    GroupRecord,
)
from kafkad.core.quoting import quoted

ConsumerRecord = (
    ConsumerGroupMetadata
    | ConsumerGroupMetadataRemoved
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupPartitionMetadataRemoved
    | ConsumerGroupMemberMetadata
    | ConsumerGroupMemberMetadataRemoved
    | ConsumerGroupTargetAssignmentMetadata
    | ConsumerGroupTargetAssignmentMetadataRemoved
    | ConsumerGroupTargetAssignmentMember
    | ConsumerGroupTargetAssignmentMemberRemoved
    | ConsumerGroupCurrentMemberAssignment
    | ConsumerGroupCurrentMemberAssignmentRemoved
    | ConsumerGroupRegularExpression
    | ConsumerGroupRegularExpressionRemoved
)
REMOVALS = (
    ConsumerGroupMetadataRemoved
    | ConsumerGroupPartitionMetadataRemoved
    | ConsumerGroupMemberMetadataRemoved
    | ConsumerGroupTargetAssignmentMetadataRemoved
    | ConsumerGroupTargetAssignmentMemberRemoved
    | ConsumerGroupCurrentMemberAssignmentRemoved
    | ConsumerGroupRegularExpressionRemoved
)
COMMIT_WITH_EPOCHS_FROM = 9
"""The first OffsetCommit version with the error STALE_MEMBER_EPOCH."""


class ConsumerGroup:
    """A `Group`. Slotted and mutable: `replay` changes it; rules apply their new records to a `copy` first."""

    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "owners",
        "patterns",
        "pending_rejoins",
        "resolved_version",
        "static",
        "subscribed",
        "target",
    )

    type: ClassVar = GroupType.CONSUMER
    protocol_type = "consumer"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        # Above the epoch of a joining member, which thus is a member even if its topics do not exist yet.
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp = 0
        """Wall time in ms of the last target assignment; 0: unknown."""
        self.members: dict[str, ConsumerMember] = {}
        self.static: dict[str, str] = {}
        """Member id by instance id."""
        self.subscribed = SubscribedNames()
        self.target: dict[str, Assignment] = {}
        self.owners: dict[tuple[UUID, int], str] = {}
        """The member that owns a partition or is still revoking it."""
        self.patterns: dict[str, ConsumerGroupRegularExpression] = {}
        self.resolved_version = -1
        """The metadata version for which subscriptions were resolved; not in records: resolved again after loading."""
        self.pending_rejoins: set[str] = set()
        """Classic members that must rejoin within a timeout; not in records either."""

    def copy(self) -> "ConsumerGroup":
        other = ConsumerGroup(self.group_id)
        for name in ("epoch", "metadata_hash", "assignment_epoch", "assignment_timestamp", "resolved_version"):
            setattr(other, name, getattr(self, name))
        for name in ("members", "static", "target", "owners", "patterns"):
            setattr(other, name, dict(getattr(self, name)))
        other.subscribed = self.subscribed.copy()
        other.pending_rejoins = set(self.pending_rejoins)
        return other

    # The methods of `Group`.

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def size(self) -> int:
        return len(self.members)

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def find_member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            text = f"Member {quoted(member_id)} is not a member of group {quoted(self.group_id)}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        return member

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> PartitionCheck | None:
        if generation < 0 and not self.members:
            return None
        if is_transactional and generation < 0 and not member_id and instance_id is None:
            return None
        member = self.find_member(member_id)
        if not is_transactional and member.classic is None and version < COMMIT_WITH_EPOCHS_FROM:
            text = f"OffsetCommit version {COMMIT_WITH_EPOCHS_FROM} or above must be used by members of the protocol"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        if generation >= member.epoch:
            _check_epoch(member, generation)
            return None
        return _check_assigned_in(member, generation)

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        _check_epoch(self.find_member(member_id or ""), epoch)

    def check_offset_delete(self) -> None:
        """Always allowed: offsets of subscribed topics are rejected individually."""

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {quoted(self.group_id)} is not empty.")

    def is_subscribed(self, topic: str) -> bool:
        return any(topic in names for names in self.subscribed) or any(
            topic in pattern.topics for pattern in self.patterns.values()
        )

    def expiration(self) -> Expiration | None:
        return Expiration(None)

    def session_timer(self, member_id: str, moment: Moment) -> tuple[Hashable, int] | None:
        return None

    def tombstones(self) -> list[GroupRecord]:
        group_id = self.group_id
        records: list[GroupRecord] = []
        for member_id in self.members:
            records.append(ConsumerGroupCurrentMemberAssignmentRemoved(group_id=group_id, member_id=member_id))
        for member_id in self.target:
            records.append(ConsumerGroupTargetAssignmentMemberRemoved(group_id=group_id, member_id=member_id))
        records.append(ConsumerGroupTargetAssignmentMetadataRemoved(group_id=group_id))
        for member_id in self.members:
            records.append(ConsumerGroupMemberMetadataRemoved(group_id=group_id, member_id=member_id))
        for pattern in self.patterns:
            records.append(ConsumerGroupRegularExpressionRemoved(group_id=group_id, regular_expression=pattern))
        records.append(ConsumerGroupPartitionMetadataRemoved(group_id=group_id))
        records.append(ConsumerGroupMetadataRemoved(group_id=group_id))
        return records

    # Replay.

    def replay(self, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            self._replay(record)

    def _replay(self, record: ConsumerRecord) -> None:
        match record:
            case ConsumerGroupMetadata():
                self.epoch, self.metadata_hash = record.epoch, record.metadata_hash
            case ConsumerGroupMemberMetadata():
                self._put(_described(self.members.get(record.member_id), record))
            case ConsumerGroupMemberMetadataRemoved(member_id=member_id):
                self._drop(member_id)
            case ConsumerGroupTargetAssignmentMetadata():
                self.assignment_epoch = record.assignment_epoch
                self.assignment_timestamp = record.assignment_timestamp
            case ConsumerGroupTargetAssignmentMetadataRemoved():
                self.assignment_epoch, self.assignment_timestamp = -1, 0
            case ConsumerGroupTargetAssignmentMember(member_id=member_id):
                self.target[member_id] = to_assignment(record.topic_partitions)
            case ConsumerGroupTargetAssignmentMemberRemoved(member_id=member_id):
                self.target.pop(member_id, None)
            case ConsumerGroupCurrentMemberAssignment(member_id=member_id):
                previous = self.members.get(member_id) or ConsumerMember(member_id=member_id)
                self._put(_assigned(previous, record))
            case ConsumerGroupCurrentMemberAssignmentRemoved(member_id=member_id):
                member = self.members.get(member_id)
                if member is not None:
                    self._put(replace(member, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH, state=MemberState.STABLE,
                                      assigned=NOTHING, pending_revocation=NOTHING, assigned_epochs={}))  # fmt: skip
            case ConsumerGroupRegularExpression():
                self.patterns[record.regular_expression] = record
            case ConsumerGroupRegularExpressionRemoved(regular_expression=pattern):
                self.patterns.pop(pattern, None)
            case _:
                # The partition metadata of Apache Kafka 3.7 to 4.0. The registry handles the record that removes the
                # group.
                pass

    def _put(self, member: ConsumerMember) -> None:
        previous = self.members.get(member.member_id)
        if previous is not None:
            self._release(previous)
        if previous is None or previous.topics is not member.topics:
            # Add before remove, so that an unchanged list stays the same object.
            member = replace(member, topics=self.subscribed.add(member.topics))
            if previous is not None:
                self.subscribed.remove(previous.topics)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        for assignment in (member.assigned, member.pending_revocation):
            for topic, indexes in assignment.items():
                for index in indexes:
                    self.owners[topic, index] = member.member_id

    def _drop(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        self.subscribed.remove(member.topics)
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for assignment in (member.assigned, member.pending_revocation):
            for topic, indexes in assignment.items():
                for index in indexes:
                    if self.owners.get((topic, index)) == member.member_id:
                        del self.owners[topic, index]

    # Queries.

    def is_owned(self, topic: UUID, partition: int) -> bool:
        return (topic, partition) in self.owners

    def subscribed_names(self) -> frozenset[str]:
        used = {member.regex for member in self.members.values()}
        matched = (pattern.topics for regex, pattern in self.patterns.items() if regex in used)
        return frozenset().union(*self.subscribed, *matched)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        pattern = self.patterns.get(member.regex) if member.regex is not None else None
        return frozenset(member.topics) | frozenset(pattern.topics if pattern is not None else ())

    def may_be_assigned(self, interval_ms: int, wall_ms: int) -> bool:
        """Whether a new target assignment may be computed; always true without an interval."""
        if not self.assignment_timestamp or not interval_ms:
            return True
        return wall_ms >= self.assignment_timestamp + interval_ms

    def preferred_assignor(self, assignors: Iterable[str]) -> str:
        """The assignor that most members prefer, the first one of equals. Members may prefer unknown ones."""
        votes = Counter(member.assignor for member in self.members.values())
        return max(assignors, key=lambda name: votes[name])


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch != member.epoch:
        code = ErrorCode.ILLEGAL_GENERATION if member.classic is not None else ErrorCode.STALE_MEMBER_EPOCH
        raise KafkaError(code, f"The received member epoch {epoch} does not match the expected one {member.epoch}.")


def _check_assigned_in(member: ConsumerMember, epoch: int) -> PartitionCheck:
    """A member without its new epoch may commit partitions that were assigned to it in its last epoch or earlier
    (KIP-1251)."""

    def check(topic: UUID, partition: int) -> None:
        assigned_epoch = member.assigned_epochs.get((topic, partition))
        if assigned_epoch is None or epoch < assigned_epoch:
            code = ErrorCode.ILLEGAL_GENERATION if member.classic is not None else ErrorCode.STALE_MEMBER_EPOCH
            raise KafkaError(code, f"Epoch {epoch} is older than the epoch in which {topic}-{partition} was assigned.")

    return check


def _described(previous: ConsumerMember | None, record: ConsumerGroupMemberMetadata) -> ConsumerMember:
    return replace(
        previous or ConsumerMember(member_id=record.member_id),
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        client_id=record.client_id,
        client_host=record.client_host,
        topics=record.subscribed_topic_names,
        regex=record.subscribed_topic_regex,
        assignor=record.server_assignor,
        classic=record.classic_member_metadata,
    )


def _assigned(previous: ConsumerMember, record: ConsumerGroupCurrentMemberAssignment) -> ConsumerMember:
    is_known = record.state in (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS)
    return replace(
        previous,
        epoch=record.member_epoch,
        previous_epoch=record.previous_member_epoch,
        state=MemberState(record.state) if is_known else MemberState.UNKNOWN,
        assigned=to_assignment(record.assigned_partitions),
        pending_revocation=to_assignment(record.partitions_pending_revocation),
        assigned_epochs=epochs_of(
            (*record.assigned_partitions, *record.partitions_pending_revocation), record.member_epoch
        ),
    )
