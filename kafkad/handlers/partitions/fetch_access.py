"""Who reads what in a fetch session, and may it read this partition?

Consumers may read from any replica, up to its high watermark. Followers read from the leader, up to its log end, and
only those that the partition has: what a follower asks for counts as on its disk. So nobody is one on a listener for
clients.
"""

from collections.abc import Iterator

from kafkad.core.errors import ErrorCode
from kafkad.core.partition_slot import (
    ROLE_LEADER,
    STATE_DELETING,
    STATE_FREE,
    STATE_OFFLINE,
    STATE_RECOVERING,
    PartitionSlot,
)
from kafkad.core.sessions.fetch_session import NO_REPLICA, CachedPartition, FetchSession
from kafkad.core.types import HIGH_WATERMARK, LOG_END, TXN_COMMITTED
from kafkad.handlers.partitions.partition_routes import TopicRoute
from kafkad.wire.messages.fetch_request import FetchedPartition, FetchRequest

READ_COMMITTED = 1
ANY_REPLICA_FROM = 11
"""Since this version consumers may read from followers (KIP-392)."""


def set_reader(session: FetchSession, request: FetchRequest, version: int, *, may_follow: bool = True) -> None:
    """Who reads in this session, and so up to where. Followers read up to the log end, whatever isolation they say."""
    if request.replica_id >= 0:
        session.may_follow = may_follow
        session.leader_only = True
        session.set_isolation(LOG_END)
        session.read_by_follower(
            request.replica_id,
            request.replica_epoch,
            [((topic, row.partition), row.log_start_offset) for topic, rows in request.topics for row in rows],
        )
        return
    session.leader_only = version < ANY_REPLICA_FROM
    session.rack_id = request.rack_id
    session.set_isolation(TXN_COMMITTED if request.isolation_level == READ_COMMITTED else HIGH_WATERMARK)


def refusal(row: CachedPartition, published: PartitionSlot, route: TopicRoute | None) -> int:
    """The error of a partition that can't be read, or not in the epoch that the fetcher names."""
    topic_id = route.topic_id if route is not None else None
    if published.state in (STATE_FREE, STATE_DELETING) or published.topic_id != topic_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if published.state == STATE_OFFLINE:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if published.state == STATE_RECOVERING and not published.segment_count:
        # The log is not loaded yet. If its worker died and the log is loaded again, the published offsets still hold.
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    epoch = row.current_leader_epoch
    if epoch >= 0 and epoch != published.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < published.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
    return 0


def role_refusal(
    session: FetchSession,
    row: CachedPartition,
    published: PartitionSlot,
    route: TopicRoute | None,
    broker_id: int,
) -> int:
    """The error of who must read elsewhere, or not at all: this broker follows, or the reader is no such follower."""
    if not session.may_follow:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if published.role != ROLE_LEADER and session.leader_only:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica = session.replica_id
    if replica == NO_REPLICA or (route is not None and route.has_follower(row.key[1], replica, broker_id)):
        return 0
    # The metadata of the two may differ for a moment: a follower that says its epoch comes again.
    has_epoch = row.current_leader_epoch >= 0
    return ErrorCode.UNKNOWN_LEADER_EPOCH if has_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER


def rows_of(request: FetchRequest) -> list[CachedPartition]:
    return [_row(topic, asked) for topic, partitions in request.topics for asked in partitions]


def each_row_of(request: FetchRequest) -> Iterator[CachedPartition]:
    """The same, partition by partition, for a request with very many."""
    return (_row(topic, asked) for topic, partitions in request.topics for asked in partitions)


def _row(topic: str | bytes, asked: FetchedPartition) -> CachedPartition:
    return CachedPartition(
        (topic, asked.partition),
        asked.fetch_offset,
        asked.max_bytes,
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
    )
