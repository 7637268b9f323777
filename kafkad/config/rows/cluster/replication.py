"""Options of replication between brokers."""

from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import CLUSTER_WIDE, HIGH, INT, LONG, LONG_MAX, MEDIUM, READ_ONLY, STRING, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    row("num.replica.fetchers", INT, 1, Between(1), HIGH, CLUSTER_WIDE,
        "Processes that fetch from each other broker."),
    row("num.replica.alter.log.dirs.threads", INT, None, None, HIGH, READ_ONLY,
        "Number of replicas moved between directories at a time, at least one by each worker; unset: the number "
        "of directories."),
    row("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, Between(0), MEDIUM, CLUSTER_WIDE,
        "Bytes per second for moving replicas between directories; divided among the workers."),
    row("leader.replication.throttled.rate", LONG, LONG_MAX, Between(0), MEDIUM, CLUSTER_WIDE,
        "Bytes per second that throttled leaders send to followers; divided among the network processes."),
    row("follower.replication.throttled.rate", LONG, LONG_MAX, Between(0), MEDIUM, CLUSTER_WIDE,
        "Bytes per second that throttled followers read; divided among the fetchers."),
    row("replica.fetch.backoff.ms", INT, 1000, Between(0), MEDIUM, READ_ONLY,
        "Maximum pause after a failed fetch from a leader; the first pause is 25 ms."),
    row("replica.fetch.max.bytes", INT, 1_048_576, Between(0), MEDIUM, READ_ONLY,
        "Maximum bytes of a partition in a follower's fetch."),
    row("replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
        "Minimum bytes of a response to a follower's fetch."),
    row("replica.fetch.response.max.bytes", INT, 10_485_760, Between(0), MEDIUM, READ_ONLY,
        "Maximum bytes of a response to a follower's fetch."),
    row("replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
        "Maximum wait of a follower's fetch."),
    row("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, HIGH, READ_ONLY,
        "Interval of high watermark checkpoints."),
    row("replica.lag.time.max.ms", LONG, 30_000, None, HIGH, READ_ONLY,
        "Time without catching up after which a follower leaves the ISR."),
    row("replica.selector.class", STRING, None, None, MEDIUM, READ_ONLY,
        "Name of the replica selector for consumers: Kafka's LeaderSelector and RackAwareReplicaSelector (a "
        "replica in the consumer's client.rack) of org.apache.kafka.common.replica, or a plugin's; unset: the "
        "leader."),
    row("replica.socket.receive.buffer.bytes", INT, 65_536, None, HIGH, READ_ONLY,
        "Receive buffer of a follower's sockets; -1 or unset: the kernel's default."),
    row("replica.socket.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "Timeout of a follower's requests to its leader."),
)
# fmt: on
