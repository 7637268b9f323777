"""The interface of all groups, with any protocol.

Offsets, listings and deletions use only this interface; classic and KIP-848 groups implement it. None of its methods
changes a group: changes are returned as records.
"""

from collections.abc import Callable, Hashable
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from kafkad.core.coordinator.shard import Moment
from kafkad.core.groups.records import GroupRecord


class GroupType(Enum):
    """The types for ListGroups filters; UNKNOWN is any other text, and matches no group."""

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
    """The start of the retention time of a group's offsets (KIP-211).

    `since_ms` is one wall time for all offsets; None: the commit time of each offset.
    """

    since_ms: int | None


PartitionCheck = Callable[[UUID, int], None]
"""Takes a topic id and a partition: raises `KafkaError` if the member must not commit this partition."""


class Group(Protocol):
    """One group of any type. The checks raise `KafkaError` with Apache Kafka's code."""

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """The state for ListGroups and DescribeGroups."""

    @property
    def protocol_type(self) -> str | None:
        """The protocol type of the members (`consumer`, `connect`, …); None: the group only has offsets."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, and can be deleted."""

    @property
    def size(self) -> int:
        """The number of members."""

    def has_member(self, member_id: str) -> bool: ...

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> PartitionCheck | None:
        """`generation` is the member epoch in a KIP-848 group. The returned check applies to each partition."""

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic; then its offsets do not expire."""

    def expiration(self) -> Expiration | None:
        """The start of the retention time; None: offsets do not expire in this state."""

    def session_timer(self, member_id: str, moment: Moment) -> tuple[Hashable, int] | None:
        """The session timer after a commit of this member, as (key, deadline): a commit may count as a heartbeat."""

    def tombstones(self) -> list[GroupRecord]:
        """The records that remove the group; `GroupOffsets` removes its offsets."""
