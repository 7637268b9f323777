"""What a look at the partitions of a fetch session has found."""

from typing import NamedTuple

from kafkad.core.errors import ErrorCode
from kafkad.core.partition_slot import PartitionSlot
from kafkad.core.sessions.fetch_session import NO_REPLICA, CachedPartition, PartitionKey
from kafkad.core.types import LOG_END

NOT_THERE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Place(NamedTuple):
    """`length` bytes from byte `position` of the segment that begins at `segment_base`."""

    segment_base: int
    position: int
    length: int


class Finding(NamedTuple):
    """The state of one partition at this moment; a consumer should read it from the replica `preferred`, if any."""

    row: CachedPartition
    error: int
    published: PartitionSlot | None
    place: Place | None
    diverging: tuple[int, int] | None
    awaits_manifest: bool = False
    """Whether the logs diverge is not known yet: no watch tells of this partition, so it is looked at again."""
    preferred: int = NO_REPLICA

    @property
    def turns_away(self) -> bool:
        """Whether the reader has to go on at another offset, or elsewhere."""
        return self.diverging is not None or self.preferred != NO_REPLICA


class Followed(NamedTuple):
    """A follower has all records of this partition below `fetch_offset`."""

    owner: int
    slot: int
    generation: int
    leader_epoch: int
    fetch_offset: int
    log_start_offset: int


class Measure:
    """The findings for one session. `is_urgent`: an error or a divergence is answered at once. What did not exist when
    the fetch came is `absent`, and no news: as in Apache Kafka it is told with the rest.
    """

    __slots__ = (
        "absent",
        "absent_before",
        "bytes_found",
        "findings",
        "followed",
        "is_urgent",
        "isolation",
        "needs_manifest",
        "quiet_slots",
        "readable_slots",
    )

    def __init__(self, isolation: int, absent_before: frozenset[PartitionKey] | None) -> None:
        """`absent_before`: at the first look of this fetch; None: this is it."""
        self.absent_before = absent_before
        self.absent: set[PartitionKey] = set()
        self.isolation = isolation
        self.findings: list[Finding] = []
        self.bytes_found = 0
        self.is_urgent = False
        self.needs_manifest = False
        self.followed: list[Followed] = []
        """What the follower that reads has by now, for the owners."""
        self.quiet_slots: list[tuple[int, int]] = []
        """(slot, upper bound) of partitions without records from the fetch offset on."""
        self.readable_slots: list[tuple[int, int]] = []
        """The same for partitions with records."""

    def turned_away(self, finding: Finding) -> None:
        """It has an error, or the reader has to go on elsewhere.

        A follower may have heard of a new topic before its leader: it is told at once, and comes again.
        """
        key, before = finding.row.key, self.absent_before
        if finding.error in NOT_THERE and self.isolation != LOG_END and (before is None or key in before):
            self.absent.add(key)
        else:
            self.is_urgent = True

    @property
    def has_something_to_say(self) -> bool:
        """Whether the answer would not be empty: then it does not wait for manifests of other partitions."""
        return self.is_urgent or self.bytes_found > 0
