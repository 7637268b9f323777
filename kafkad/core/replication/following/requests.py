"""The requests of a follower to a leader and to the owner of its log, with their responses, as plain values.

A partition is identified by topic id and number, because a topic may be deleted and created again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from kafkad.core.types import TopicPartition

PartitionId: TypeAlias = tuple[bytes, int]
"""(topic id, partition)."""
FULL = 0
"""The session epoch of a full request, which names all its partitions and begins a session."""


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
    """A follower's Fetch; `uses_topic_ids`: topics are named by ids (version 13 and later), otherwise by names."""

    uses_topic_ids: bool
    session_id: int
    session_epoch: int
    partitions: Sequence[PartitionToFetch]
    forgotten: Sequence[PartitionToFetch]


class PartitionFetched(NamedTuple):
    """A leader's response for one partition. `topic` is a topic id, or a name before version 13.

    The records are at `records_at` in the memory of the response. `diverging_epoch` is usually NO_LEADER_EPOCH.
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
    """The response to a Fetch."""

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
    """The order to the owner of a log: only report the log end, append, truncate, or truncate fully and restart."""

    DESCRIBE = 0
    APPEND = 1
    TRUNCATE = 2
    TRUNCATE_TO_OFFSET = 3
    RESTART = 4


class FollowOrder(NamedTuple):
    """An order to the owner of the partition's log. The owner ignores an order of another leader epoch.

    APPEND: `offset` is the log end offset that the log must have, `length` bytes of records are at `records_at` in the
    fetcher's arena. TRUNCATE: `diverging_epoch` ends at `offset` in the leader's log. TRUNCATE_TO_OFFSET: truncate to
    `offset`. RESTART: remove all records and start at `offset`.
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
    """The state of the log after an order; `error` is not 0 if the order failed."""

    kind: int
    slot: int
    short_id: int
    leader_epoch: int
    error: int
    log_end_offset: int
    latest_epoch: int
    log_start_offset: int
