"""A classic group: its membership, its state, and the checks of requests about its offsets.

The group counts its generations; `rebalance.py` decides when the next one starts.
"""

from collections.abc import Collection, Hashable
from typing import ClassVar

from kafkad.core.coordinator.shard import Moment
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.membership import ClassicMembership
from kafkad.core.groups.classic.state import CAN_REBALANCE, VALID_PREVIOUS_STATES, ClassicState
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
        "new_member_added",
        "previous_state",
        "protocol",
        "rebalance_since_ms",
        "remaining_delay_ms",
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
        """Wall time; None if the record is from a Kafka version that did not store it."""
        self.generation = 0
        self.protocol: str | None = None
        self.subscription: frozenset[str] | None = None
        """The topics of all members; None if they are not consumers, or their metadata can't be read."""
        self.new_member_added = False
        self.delay_ms = 0
        self.remaining_delay_ms = 0
        """For the initial rebalance: the current delay, and its possible extension."""
        self.rebalance_since_ms = 0
        """Wall time of the start of the current or last rebalance."""
        self.is_logged = False
        """Whether the log has a record of the group."""

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        assert self.state in VALID_PREVIOUS_STATES[state], (
            f"group {self.group_id} can't change from {self.state} to {state}"
        )
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in CAN_REBALANCE

    @property
    def is_initial_rebalance(self) -> bool:
        """Whether the group was empty before: then the rebalance waits for more members."""
        return self.state is ClassicState.PREPARING_REBALANCE and self.previous_state is ClassicState.EMPTY

    def next_generation(self, now_ms: int) -> None:
        """Start the next generation with the current members."""
        # Kafka's counter overflows to negative numbers, which clients treat as no generation.
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
                self.subscription = subscribed_topics(
                    member.metadata(self.protocol) for member in self.members.values()
                )

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
        """Members of the current generation may commit. In an empty group clients without a member id may commit too
        (tools, `assign`)."""
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
        """In a consumer group, offsets of topics without a subscriber can be deleted; in other groups none."""
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
            # Unreadable subscriptions may include any topic.
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscription

    def expiration(self) -> Expiration | None:
        """KIP-211: offsets of an empty group expire after it became empty, unsubscribed offsets after their commit."""
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
