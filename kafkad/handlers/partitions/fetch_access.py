"""The reader of a fetch session, and the checks that the reader may read a partition.

Consumers may read from any replica, up to its high watermark. Followers read from the leader, up to its log end. Only
brokers in the replica list may fetch as followers, because the leader takes records before the fetch offset as stored
by the follower. For the same reason no client may fetch as a follower on a listener for clients.
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
from kafkad.core.sessions.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_REPLICA,
    CachedPartition,
    FetchSession,
    PartitionKey,
)
from kafkad.core.types import HIGH_WATERMARK, LOG_END, TXN_COMMITTED
from kafkad.handlers.partitions.partition_routes import TopicRoute
from kafkad.wire.messages.fetch_request import FetchedPartition, FetchRequest
from kafkad.wire.steps import STEP

READ_COMMITTED = 1
ANY_REPLICA_FROM = 11
"""The first version in which consumers may read from followers (KIP-392)."""


def set_reader(session: FetchSession, request: FetchRequest, version: int, *, may_follow: bool = True) -> None:
    """Set the session's reader and isolation. Followers read up to the log end with any isolation level."""
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


def partition_error(row: CachedPartition, published: PartitionSlot, route: TopicRoute | None) -> int:
    """The error of a partition that can't be read, or can't be read in the leader epoch of the request; 0 for none."""
    topic_id = route.topic_id if route is not None else None
    if published.state in (STATE_FREE, STATE_DELETING) or published.topic_id != topic_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if published.state == STATE_OFFLINE:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if published.state == STATE_RECOVERING and not published.segment_count:
        # The first load of the log. When a new incarnation loads the log again, the published offsets remain valid.
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    epoch = row.current_leader_epoch
    if epoch >= 0 and epoch != published.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < published.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
    return 0


def role_error(
    session: FetchSession,
    row: CachedPartition,
    published: PartitionSlot,
    route: TopicRoute | None,
    broker_id: int,
) -> int:
    """The error of a reader that must not read here: this broker is a follower, or the reader is not a replica."""
    if not session.may_follow:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if published.role != ROLE_LEADER and session.leader_only:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica = session.replica_id
    if replica == NO_REPLICA or (route is not None and route.has_follower(row.key[1], replica, broker_id)):
        return 0
    # The metadata of leader and follower may differ for a moment: a follower with a leader epoch retries.
    has_epoch = row.current_leader_epoch >= 0
    return ErrorCode.UNKNOWN_LEADER_EPOCH if has_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER


def updates_of(request: FetchRequest) -> Iterator[tuple[list[CachedPartition], list[PartitionKey], bool]]:
    """The partitions that the request adds to its session or changes, and those that it removes from it; True with the
    last ones. A few hundred at a time. A full request removes none.
    """
    rows: list[CachedPartition] = []
    forgotten: list[PartitionKey] = []
    for topic, partitions in request.topics:
        for partition in partitions:
            if len(rows) == STEP:
                yield rows, forgotten, False
                rows = []
            rows.append(_row(topic, partition))
    if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        for topic, indexes in request.forgotten:
            for index in indexes:
                if len(forgotten) == STEP:
                    yield rows, forgotten, False
                    rows, forgotten = [], []
                forgotten.append((topic, index))
    yield rows, forgotten, True


def _row(topic: str | bytes, partition: FetchedPartition) -> CachedPartition:
    return CachedPartition(
        (topic, partition.partition),
        partition.fetch_offset,
        partition.max_bytes,
        partition.current_leader_epoch,
        partition.last_fetched_epoch,
    )
