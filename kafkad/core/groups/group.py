"""What all groups have in common, whatever protocol their members use.

Offsets, listings and deletions need this of a group, and no more; classic and KIP-848 groups each implement it. A group
never changes here: changes are returned as records.
"""

from collections.abc import Callable, Hashable
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from kafkad.core.coordinator.shard import Moment
from kafkad.core.groups.records import GroupRecord


class GroupType(Enum):
    """The types that a ListGroups filter may name; UNKNOWN stands for any other word, and matches no group."""

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
    """When the retention time of a group's offsets begins (KIP-211).

    `since_ms` is one wall time for all of them; None: for each offset the time of its commit.
    """

    since_ms: int | None


PartitionCheck = Callable[[UUID, int], None]
"""Takes a topic id and a partition: raises `KafkaError` when the member may not commit there."""


class Group(Protocol):
    """One group of any type. The checks raise `KafkaError` with Apache Kafka's code."""

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """As ListGroups and DescribeGroups show it."""

    @property
    def protocol_type(self) -> str | None:
        """The protocol type of the members (`consumer`, `connect`, …); None: the group only keeps offsets."""

    @property
    def is_empty(self) -> bool:
        """The group has no members: it can be deleted."""

    @property
    def size(self) -> int:
        """The number of its members."""

    def has_member(self, member_id: str) -> bool: ...

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> PartitionCheck | None:
        """`generation` is the member epoch in a KIP-848 group. A returned check has to pass for each partition, too."""

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic: its offsets do not expire meanwhile."""

    def expiration(self) -> Expiration | None:
        """When its offsets begin to age; None: they do not at present."""

    def session_timer(self, member_id: str, moment: Moment) -> tuple[Hashable, int] | None:
        """The timer that a commit by this member sets, as (key, deadline): in some states a commit is a heartbeat."""

    def tombstones(self) -> list[GroupRecord]:
        """The records that remove the group itself; `GroupOffsets` removes its offsets."""
