"""One member of a KIP-848 group: its subscription, its assignment, and the partitions that it must revoke.

An immutable value: each change makes a new one. It is stored in two records, one for the subscription and one for the
assignment.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from kafkad.core.groups.consumer.assignors import NOTHING, Assignment
from kafkad.core.groups.records import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    TopicPartitions,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The epoch of a static member that left temporarily (KIP-848) and keeps its partitions."""


class MemberState(IntEnum):
    """Numbers as in the records."""

    STABLE = 0
    """The member has its whole target assignment, although it may not have received it yet."""
    UNREVOKED_PARTITIONS = 1
    """The member must revoke partitions, and has not confirmed it."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members have not revoked."""
    UNKNOWN = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """`classic` is set while the member uses the classic protocol."""

    member_id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Sorted names; `regex` is the subscription by pattern."""
    regex: str | None = None
    assignor: str | None = None
    assigned: Assignment = field(default_factory=lambda: NOTHING)
    pending_revocation: Assignment = field(default_factory=lambda: NOTHING)
    assigned_epochs: Mapping[tuple[UUID, int], int] = field(default_factory=dict)
    """The member epoch in which each assigned or revoked partition was assigned (KIP-1251)."""
    classic: ClassicMemberMetadata | None = None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def subscription_record(self, group_id: str) -> ConsumerGroupMemberMetadata:
        return ConsumerGroupMemberMetadata(
            group_id=group_id,
            member_id=self.member_id,
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=self.topics,
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=self.classic,
        )

    def assignment_record(self, group_id: str) -> ConsumerGroupCurrentMemberAssignment:
        return ConsumerGroupCurrentMemberAssignment(
            group_id=group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=self._with_epochs(self.assigned),
            partitions_pending_revocation=self._with_epochs(self.pending_revocation),
        )

    def _with_epochs(self, assignment: Assignment) -> tuple[AssignedPartitions, ...]:
        return tuple(
            AssignedPartitions(
                topic_id=topic,
                partitions=tuple(sorted(indexes)),
                assignment_epochs=tuple(
                    self.assigned_epochs.get((topic, index), self.epoch) for index in sorted(indexes)
                ),
            )
            for topic, indexes in in_order(assignment)
        )


def in_order(assignment: Assignment) -> list[tuple[UUID, frozenset[int]]]:
    """Sorted by topic id, as in records."""
    return sorted(assignment.items(), key=lambda row: row[0].int)


def to_topic_partitions(assignment: Assignment) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic_id=topic, partitions=tuple(sorted(indexes))) for topic, indexes in in_order(assignment)
    )


def to_assignment(rows: Iterable[TopicPartitions | AssignedPartitions]) -> Assignment:
    return {row.topic_id: frozenset(row.partitions) for row in rows}


def difference(assignment: Assignment, removed: Assignment) -> Assignment:
    remaining = {topic: indexes - removed.get(topic, frozenset()) for topic, indexes in assignment.items()}
    return {topic: indexes for topic, indexes in remaining.items() if indexes}


def intersection(first: Assignment, second: Assignment) -> Assignment:
    both = {topic: indexes & second.get(topic, frozenset()) for topic, indexes in first.items()}
    return {topic: indexes for topic, indexes in both.items() if indexes}


def union(first: Assignment, second: Assignment) -> Assignment:
    topics = {**first, **second}
    return {topic: first.get(topic, frozenset()) | second.get(topic, frozenset()) for topic in topics}


def is_subset(inner: Assignment, outer: Assignment) -> bool:
    return all(indexes <= outer.get(topic, frozenset()) for topic, indexes in inner.items())


def partitions_of(*assignments: Assignment) -> Iterator[tuple[UUID, int]]:
    return ((topic, index) for assignment in assignments for topic, indexes in assignment.items() for index in indexes)


def epochs_of(rows: Iterable[AssignedPartitions], member_epoch: int) -> dict[tuple[UUID, int], int]:
    """The epoch of each partition; the member epoch for records without assignment epochs."""
    return {
        (row.topic_id, index): epoch
        for row in rows
        for index, epoch in zip(
            row.partitions, row.assignment_epochs or (member_epoch,) * len(row.partitions), strict=True
        )
    }
