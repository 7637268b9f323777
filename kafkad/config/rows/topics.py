"""Options of topics as a broker creates and deletes them."""

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
        "Creates a topic when a client asks for the metadata of one that is missing."),
    row("num.partitions", INT, 1, Between(1), MEDIUM, READ_ONLY,
        "Partitions of a topic whose creator names no number."),
    row("default.replication.factor", INT, 1, None, MEDIUM, READ_ONLY,
        "Replicas of a topic whose creator names no number."),
    row("delete.topic.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Allows topics to be deleted."),
    row("create.topic.policy.class.name", CLASS, None, None, LOW, READ_ONLY,
        "JVM class that may veto the creation of a topic.", status=JVM),
    row("alter.config.policy.class.name", CLASS, None, None, LOW, READ_ONLY,
        "JVM class that may veto a change of configuration.", status=JVM),
    row("auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Gives leadership back to the preferred replicas now and then; in a cluster."),
    row("leader.imbalance.check.interval.seconds", LONG, 300, Between(1), HIGH, READ_ONLY,
        "How often preferred leadership is checked."),
    row("leader.imbalance.per.broker.percentage", INT, 10, None, HIGH, READ_ONLY,
        "Share of partitions led elsewhere that is tolerated per broker."),
    row("unclean.leader.election.enable", BOOLEAN, False, None, HIGH, CLUSTER_WIDE,
        "Lets a replica that is not in sync lead, which may lose records."),
    row("unclean.leader.election.interval.ms", LONG, 300_000, Between(1), MEDIUM, READ_ONLY,
        "How often partitions without a leader are looked at again.", status=KRAFT, internal=True),
    row("min.insync.replicas", INT, 1, Between(1), HIGH, CLUSTER_WIDE,
        "Replicas that must have a record before acks=all is answered."),
    row("compression.type", STRING, "producer",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")), HIGH, CLUSTER_WIDE,
        "Compression of stored batches; producer keeps what came in."),
    row("compression.gzip.level", INT, -1, GzipLevel(), MEDIUM, CLUSTER_WIDE,
        "Level when batches are compressed with gzip here."),
    row("compression.lz4.level", INT, 9, Between(1, 17), MEDIUM, CLUSTER_WIDE,
        "Level when batches are compressed with lz4 here."),
    row("compression.zstd.level", INT, 3, Between(-131072, 22), MEDIUM, CLUSTER_WIDE,
        "Level when batches are compressed with zstd here."),
    row("message.max.bytes", INT, 1_048_588, Between(0), HIGH, CLUSTER_WIDE,
        "Largest batch that is accepted, after compression."),
)
# fmt: on
