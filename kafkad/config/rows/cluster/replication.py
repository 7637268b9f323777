"""Options of replication between brokers."""

from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import CLUSTER_WIDE, HIGH, INT, LONG, LONG_MAX, MEDIUM, READ_ONLY, STRING, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    row("num.replica.fetchers", INT, 1, Between(1), HIGH, CLUSTER_WIDE,
        "Processes that fetch from each other broker."),
    row("num.replica.alter.log.dirs.threads", INT, None, None, HIGH, READ_ONLY,
        "Replicas that are moved between directories at a time, at least one by each worker; unset: as many as "
        "there are directories."),
    row("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, Between(0), MEDIUM, CLUSTER_WIDE,
        "Bytes per second for moving replicas between directories; each worker has its share."),
    row("leader.replication.throttled.rate", LONG, LONG_MAX, Between(0), MEDIUM, CLUSTER_WIDE,
        "Bytes per second that throttled leaders send to followers; each network process has its share."),
    row("follower.replication.throttled.rate", LONG, LONG_MAX, Between(0), MEDIUM, CLUSTER_WIDE,
        "Bytes per second that throttled followers read; each fetcher has its share."),
    row("replica.fetch.backoff.ms", INT, 1000, Between(0), MEDIUM, READ_ONLY,
        "Longest pause after a failed fetch from a leader; the first in a row is 25 ms."),
    row("replica.fetch.max.bytes", INT, 1_048_576, Between(0), MEDIUM, READ_ONLY,
        "Bytes per partition that a follower asks for."),
    row("replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
        "Bytes that a follower waits for."),
    row("replica.fetch.response.max.bytes", INT, 10_485_760, Between(0), MEDIUM, READ_ONLY,
        "Bytes that a follower asks for in one request."),
    row("replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
        "How long a leader may hold a follower's fetch."),
    row("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, HIGH, READ_ONLY,
        "How often the high watermarks are written to disk."),
    row("replica.lag.time.max.ms", LONG, 30_000, None, HIGH, READ_ONLY,
        "How long a follower may lag before it is out of sync."),
    row("replica.selector.class", STRING, None, None, MEDIUM, READ_ONLY,
        "Name of the replica selector, which says from which replica a consumer reads: Kafka's LeaderSelector and "
        "RackAwareReplicaSelector (one in the rack of its client.rack) of org.apache.kafka.common.replica, or a "
        "plugin's; unset: the leader."),
    row("replica.socket.receive.buffer.bytes", INT, 65_536, None, HIGH, READ_ONLY,
        "Receive buffer of a follower's sockets, where it is set; -1, or where it is not: the kernel sizes it."),
    row("replica.socket.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "How long a follower waits for its leader."),
)
# fmt: on
