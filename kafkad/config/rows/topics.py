"""Options of topics: creation, deletion and defaults."""

from kafkad.config.rows.reasons import JVM, KRAFT
from kafkad.core.settings.limits import Between, GzipLevel, OneOf
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
    row,
)

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    row("auto.create.topics.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Creates a missing topic when a client requests its metadata."),
    row("num.partitions", INT, 1, Between(1), MEDIUM, READ_ONLY,
        "Default number of partitions of a topic."),
    row("default.replication.factor", INT, 1, None, MEDIUM, READ_ONLY,
        "Default replication factor of a topic."),
    row("delete.topic.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Allows topics to be deleted."),
    row("create.topic.policy.class.name", CLASS, None, None, LOW, READ_ONLY,
        "JVM class that may veto the creation of a topic.", status=JVM),
    row("alter.config.policy.class.name", CLASS, None, None, LOW, READ_ONLY,
        "JVM class that may veto a change of configuration.", status=JVM),
    row("auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Regularly elects the preferred replicas as leaders, in a cluster."),
    row("leader.imbalance.check.interval.seconds", LONG, 300, Between(1), HIGH, READ_ONLY,
        "Interval of checks for preferred leaders."),
    row("leader.imbalance.per.broker.percentage", INT, 10, None, HIGH, READ_ONLY,
        "Tolerated share of partitions of a broker without their preferred leader."),
    row("unclean.leader.election.enable", BOOLEAN, False, None, HIGH, CLUSTER_WIDE,
        "Allows out-of-sync replicas to lead, which may lose records."),
    row("unclean.leader.election.interval.ms", LONG, 300_000, Between(1), MEDIUM, READ_ONLY,
        "Interval of checks for partitions without a leader.", status=KRAFT, internal=True),
    row("min.insync.replicas", INT, 1, Between(1), HIGH, CLUSTER_WIDE,
        "Minimum number of in-sync replicas for acks=all."),
    row("compression.type", STRING, "producer",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")), HIGH, CLUSTER_WIDE,
        "Compression of stored batches; producer keeps the producer's codec."),
    row("compression.gzip.level", INT, -1, GzipLevel(), MEDIUM, CLUSTER_WIDE,
        "Level for gzip when the broker compresses."),
    row("compression.lz4.level", INT, 9, Between(1, 17), MEDIUM, CLUSTER_WIDE,
        "Level for lz4 when the broker compresses."),
    row("compression.zstd.level", INT, 3, Between(-131072, 22), MEDIUM, CLUSTER_WIDE,
        "Level for zstd when the broker compresses."),
    row("message.max.bytes", INT, 1_048_588, Between(0), HIGH, CLUSTER_WIDE,
        "Maximum size of a batch, after compression."),
)
# fmt: on
