"""What a follower asks of a leader and of the owner of its log, and what they answer; plain values.

A partition is known by its topic id and number: a topic that was deleted and made again is another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from kafkad.core.types import TopicPartition

PartitionId: TypeAlias = tuple[bytes, int]
"""(topic id, partition)."""
FULL = 0
"""The session epoch of a request that names all its partitions and begins a session."""


class PartitionToFetch(NamedTuple):
    """One row of a Fetch. Compared as a whole: an incremental session repeats only rows that changed."""

    id: PartitionId
    name: TopicPartition
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetch:
    """A Fetch as a follower; `uses_topic_ids` says whether topics are named by ids (version 13 on) or by names."""

    uses_topic_ids: bool
    session_id: int
    session_epoch: int
    partitions: Sequence[PartitionToFetch]
    forgotten: Sequence[PartitionToFetch]


class PartitionFetched(NamedTuple):
    """What a leader answered for one partition. `topic` is a topic id, or a name before version 13.

    The records lie at `records_at` in the memory of the answer. `diverging_epoch` is NO_LEADER_EPOCH as a rule.
    """

    topic: bytes | str
    partition: int
    error: int
    high_watermark: int
    log_start_offset: int
    diverging_epoch: int
    diverging_end_offset: int
    records_at: int
    records_length: int


class Fetched(NamedTuple):
    """The answer to a Fetch."""

    error: int
    session_id: int
    partitions: list[PartitionFetched]


class OffsetQuery(NamedTuple):
    """One row of ListOffsets: the latest (-1) or earliest (-2) offset of the leader's log."""

    id: PartitionId
    name: TopicPartition
    current_leader_epoch: int
    timestamp: int


class OffsetListed(NamedTuple):
    topic: str
    partition: int
    error: int
    offset: int


class FollowKind(IntEnum):
    """What the owner of a log is asked to do: nothing but say where the log ends, append, truncate, or begin anew."""

    DESCRIBE = 0
    APPEND = 1
    TRUNCATE = 2
    TRUNCATE_TO_OFFSET = 3
    RESTART = 4


class FollowOrder(NamedTuple):
    """For the owner of the partition's log. It is void when the owner knows another leader epoch.

    APPEND: `offset` is the end that the log must have, `length` bytes of records at `records_at` in the fetcher's
    arena. TRUNCATE: `diverging_epoch` ends at `offset` in the leader's log. TRUNCATE_TO_OFFSET and RESTART: the log
    ends, or begins anew, at `offset`.
    """

    kind: FollowKind
    slot: int
    short_id: int
    leader_epoch: int
    offset: int
    records_at: int
    length: int
    high_watermark: int
    log_start_offset: int
    diverging_epoch: int


class FollowResult(NamedTuple):
    """The state of the log after an order; `error` is why the order was not performed."""

    kind: int
    slot: int
    short_id: int
    leader_epoch: int
    error: int
    log_end_offset: int
    latest_epoch: int
    log_start_offset: int
