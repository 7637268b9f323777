"""The state of the partitions of one fetch session: readable bytes, errors, divergence."""

from typing import NamedTuple

from kafkad.core.errors import ErrorCode
from kafkad.core.partition_slot import PartitionSlot
from kafkad.core.sessions.fetch_session import NO_REPLICA, CachedPartition, PartitionKey
from kafkad.core.types import LOG_END

UNKNOWN_TOPIC_CODES = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class SegmentRange(NamedTuple):
    """`length` bytes from byte `position` of the segment that begins at `segment_base`."""

    segment_base: int
    position: int
    length: int


class LogReadResult(NamedTuple):
    """The current state of one partition; `preferred` is the preferred read replica of a consumer (KIP-392), if any."""

    row: CachedPartition
    error: int
    published: PartitionSlot | None
    place: SegmentRange | None
    diverging: tuple[int, int] | None
    awaits_manifest: bool = False
    """Without the manifest it is unknown whether the logs diverge. No watch reports this, so the partition is measured
    again."""
    preferred: int = NO_REPLICA

    @property
    def redirects(self) -> bool:
        """Whether the reader has to continue at another offset or at another replica."""
        return self.diverging is not None or self.preferred != NO_REPLICA


class FollowerFetchState(NamedTuple):
    """A follower has all records of this partition below `fetch_offset`."""

    owner: int
    slot: int
    generation: int
    leader_epoch: int
    fetch_offset: int
    log_start_offset: int


class Measure:
    """The results for one session.

    `is_urgent`: errors and divergences are sent at once. Partitions that did not exist when the fetch arrived are
    `absent`: they do not complete the fetch, as in Apache Kafka.
    """

    __slots__ = (
        "absent",
        "absent_before",
        "bytes_found",
        "follower_states",
        "is_urgent",
        "isolation",
        "needs_manifest",
        "quiet_slots",
        "readable_slots",
        "results",
    )

    def __init__(self, isolation: int, absent_before: frozenset[PartitionKey] | None) -> None:
        """`absent_before` are the absent partitions of this fetch's first measure; None: this is the first."""
        self.absent_before = absent_before
        self.absent: set[PartitionKey] = set()
        self.isolation = isolation
        self.results: list[LogReadResult] = []
        self.bytes_found = 0
        self.is_urgent = False
        self.needs_manifest = False
        self.follower_states: list[FollowerFetchState] = []
        """The progress of the follower that fetches, for the owners."""
        self.quiet_slots: list[tuple[int, int]] = []
        """(slot, upper bound) of partitions without records from the fetch offset on."""
        self.readable_slots: list[tuple[int, int]] = []
        """(slot, upper bound) of partitions with such records."""

    def reject(self, result: LogReadResult) -> None:
        """Record a partition with an error or a redirection.

        Metadata about a new topic may reach a follower before its leader: the follower gets the error at once and
        retries.
        """
        key, before = result.row.key, self.absent_before
        if result.error in UNKNOWN_TOPIC_CODES and self.isolation != LOG_END and (before is None or key in before):
            self.absent.add(key)
        else:
            self.is_urgent = True

    @property
    def awaits_manifest(self) -> bool:
        """Whether nothing is located yet: too early to respond without records. A response with content does not wait
        for manifests of other partitions.
        """
        return self.needs_manifest and not (self.is_urgent or self.bytes_found)
