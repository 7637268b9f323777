"""What is every group, whatever protocol its members speak?

What offsets, lists and deletions need to know of a group, and no more: classic groups and those of KIP-848 each
implement it. A group never changes here; what is to be written about it comes as records.
"""

from collections.abc import Callable, Hashable
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from kafkad.core.coordinator.shard import Moment
from kafkad.core.groups.records import GroupRecord


class GroupType(Enum):
    """The types that a ListGroups filter may name; UNKNOWN is every other word, which no group is of."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"

    @classmethod
    def parse(cls, name: str) -> "GroupType":
        try:
            return cls(name.lower())
        except ValueError:
            return cls.UNKNOWN


class Expiration(NamedTuple):
    """Since when the retention time of a group's offsets runs (KIP-211).

    `since_ms` is one wall time for all of them; None: for each since it was committed.
    """

    since_ms: int | None


PartitionCheck = Callable[[UUID, int], None]
"""Of a topic and a partition: raises `KafkaError` when the member may not commit there."""


class Group(Protocol):
    """One group of any type. The checks raise `KafkaError` with the code that Apache Kafka gives."""

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """As ListGroups and DescribeGroups show it."""

    @property
    def protocol_type(self) -> str | None:
        """What the members use the group for (`consumer`, `connect`, …); None: only offsets are kept in it."""

    @property
    def is_empty(self) -> bool:
        """Nobody is in it: it may be deleted."""

    def has_member(self, member_id: str) -> bool: ...

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> PartitionCheck | None:
        """`generation` is the member epoch in a group of KIP-848. With a check, each partition is to pass it, too."""

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member wants the topic: its offsets stay as long."""

    def expiration(self) -> Expiration | None:
        """From when its offsets age; None: they don't now."""

    def session_timer(self, member_id: str, moment: Moment) -> tuple[Hashable, int] | None:
        """The timer that a commit by this member sets, as (key, deadline): in some states a commit is a heartbeat."""

    def tombstones(self) -> list[GroupRecord]:
        """What removes the group itself; its offsets are somebody else's."""
