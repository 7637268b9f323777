"""A classic group: its membership, its state, and its answers to questions about its offsets.

It counts its generations; `rebalance.py` decides when the next one begins.
"""

from collections.abc import Collection, Hashable
from typing import ClassVar

from kafkad.core.coordinator.shard import Moment
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.membership import ClassicMembership
from kafkad.core.groups.classic.state import CAN_REBALANCE, MAY_FOLLOW, ClassicState
from kafkad.core.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from kafkad.core.groups.classic.timers import session_key
from kafkad.core.groups.group import Expiration, GroupType
from kafkad.core.groups.records import GroupMetadataRemoved, GroupRecord
from kafkad.core.quoting import quoted

_LAST_GENERATION = 2**31 - 1


class ClassicGroup(ClassicMembership):
    """A `Group`. Slotted and mutable like its membership."""

    __slots__ = (
        "delay_ms",
        "generation",
        "group_id",
        "is_logged",
        "more_delay_ms",
        "new_member_added",
        "previous_state",
        "protocol",
        "rebalance_since_ms",
        "state",
        "state_since_ms",
        "subscription",
    )

    type: ClassVar = GroupType.CLASSIC

    def __init__(self, group_id: str, now_ms: int | None) -> None:
        super().__init__()
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.DEAD
        self.state_since_ms: int | None = now_ms
        """Wall time; None when the log was written by a Kafka version that did not store it."""
        self.generation = 0
        self.protocol: str | None = None
        self.subscription: frozenset[str] | None = None
        """The topics of all members; None when they are not consumers, or their metadata can't be read."""
        self.new_member_added = False
        self.delay_ms = 0
        self.more_delay_ms = 0
        """For the initial rebalance: the present delay, and how much more it may be extended."""
        self.rebalance_since_ms = 0
        """Wall time at which the present or the last rebalance began."""
        self.is_logged = False
        """Whether the log has a record of the group."""

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        assert self.state in MAY_FOLLOW[state], f"group {self.group_id} can't go from {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in CAN_REBALANCE

    @property
    def is_initial_rebalance(self) -> bool:
        """The group was empty before: the rebalance waits for new members, even when all known ones have joined."""
        return self.state is ClassicState.PREPARING_REBALANCE and self.previous_state is ClassicState.EMPTY

    def next_generation(self, now_ms: int) -> None:
        """All members of the next generation have joined."""
        # After the largest number Kafka's counter turns negative, and clients read a negative generation as none.
        self.generation = 0 if self.generation == _LAST_GENERATION else self.generation + 1
        self.protocol = self.select_protocol() if self.members else None
        self.refresh_subscription()
        self.pending_sync.clear()
        self.move_to(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms)

    def supports(self, protocol_type: str, protocols: Collection[str]) -> bool:
        """Whether a member that supports these protocols can join the group."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and self.have_common_protocol(protocols)

    def refresh_subscription(self) -> None:
        self.subscription = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            if not self.members:
                self.subscription = frozenset()
            elif self.protocol is not None:
                self.subscription = subscribed_topics(each.metadata(self.protocol) for each in self.members.values())

    # The methods of `Group`.

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def size(self) -> int:
        return len(self.members)

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> None:
        """A member of this generation may commit. While the group is empty a client without a member id may (tools,
        `assign`)."""
        if self.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and self.is_empty:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not is_transactional and not self.is_empty:
            # Old transactional producers send no member id.
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not is_transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        if self.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {quoted(self.group_id)} is in dead state.")

    def check_offset_delete(self) -> None:
        """In a consumer group, offsets of topics that no member subscribes to can be deleted; in any other group,
        none."""
        if self.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {quoted(self.group_id)} is in dead state.")
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        if self.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {quoted(self.group_id)} is in dead state.")
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed(self, topic: str) -> bool:
        if self.subscription is None:
            # These consumers may be subscribed to any topic.
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscription

    def expiration(self) -> Expiration | None:
        """KIP-211: in an empty group offsets age from when it became empty, else unsubscribed ones from their
        commit."""
        if self.protocol_type is None:
            return Expiration(None)
        if self.is_empty:
            return Expiration(self.state_since_ms)
        if self.state is ClassicState.STABLE and self.subscription is not None:
            return Expiration(None)
        return None

    def session_timer(self, member_id: str, moment: Moment) -> tuple[Hashable, int] | None:
        """A commit counts as a heartbeat."""
        member = self.members.get(member_id)
        if member is None or self.state not in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            return None
        return session_key(self.group_id, member_id), moment.monotonic_ms + member.session_timeout_ms

    def tombstones(self) -> list[GroupRecord]:
        return [GroupMetadataRemoved(group_id=self.group_id)]
