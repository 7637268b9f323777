"""The settings of one log, resolved from topic and broker configuration.

Field names are the topic-level config keys with `.` as `_`; units are in the names or in Kafka's documentation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkad.core.settings.limits import Between, EachOneOf, GzipLevel, OneOf, ThrottledReplicas
from kafkad.core.settings.option import Setting, no_effect, refused
from kafkad.core.settings.rows import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    STRING,
    row,
)
from kafkad.core.settings.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The topic configuration for a `PartitionLog` and the cleanup policies."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = 9_223_372_036_854_775_807
    flush_ms: int = 9_223_372_036_854_775_807
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = 9_223_372_036_854_775_807
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = 9_223_372_036_854_775_807
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    plugin_configs: Mapping[str, Value] = field(default_factory=dict, hash=False)
    """Configs added by plugins, by name; only cleanup policies get them."""

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """Compacted logs roll early enough for `max.compaction.lag.ms`: active segments are not compacted."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms


TIERED = no_effect("there is no remote storage")
NO_TIERS = refused("there is no remote storage")
DROPPED = no_effect("Kafka 4 has removed it")
GROWS = no_effect("a segment grows as it is written")

# A formatter would give each row nine lines, which makes the table unreadable.
# fmt: off
TOPIC_SETTINGS: tuple[Setting, ...] = (
    row("cleanup.policy", LIST, ("delete",), EachOneOf(("compact", "delete")), MEDIUM, CLUSTER_WIDE,
        "What happens to old records: delete, compact, or both."),
    row("compression.gzip.level", INT, -1, GzipLevel(), MEDIUM, CLUSTER_WIDE,
        "Level for gzip when the broker compresses."),
    row("compression.lz4.level", INT, 9, Between(1, 17), MEDIUM, CLUSTER_WIDE,
        "Level for lz4 when the broker compresses."),
    row("compression.type", STRING, "producer",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")), MEDIUM, CLUSTER_WIDE,
        "Compression of stored batches; producer keeps the producer's codec."),
    row("compression.zstd.level", INT, 3, Between(-131072, 22), MEDIUM, CLUSTER_WIDE,
        "Level for zstd when the broker compresses."),
    row("delete.retention.ms", LONG, 86_400_000, Between(0), MEDIUM, CLUSTER_WIDE,
        "Time that tombstones stay in a compacted log."),
    row("file.delete.delay.ms", LONG, 60_000, Between(0), MEDIUM, CLUSTER_WIDE,
        "Delay before the files of a deleted segment are unlinked."),
    row("flush.messages", LONG, LONG_MAX, Between(1), MEDIUM, CLUSTER_WIDE,
        "Records after which the log is synced."),
    row("flush.ms", LONG, LONG_MAX, Between(0), MEDIUM, CLUSTER_WIDE,
        "Age of unsynced records at which the log is synced."),
    row("follower.replication.throttled.replicas", LIST, (),
        ThrottledReplicas("follower.replication.throttled.replicas"), MEDIUM, CLUSTER_WIDE,
        "Replicas that are throttled as followers."),
    row("index.interval.bytes", INT, 4096, Between(0), MEDIUM, CLUSTER_WIDE,
        "Bytes of records between two entries of the offset index."),
    row("internal.segment.bytes", INT, None, None, MEDIUM, CLUSTER_WIDE,
        "Segment size without the lower limit, for tests.", internal=True),
    row("leader.replication.throttled.replicas", LIST, (),
        ThrottledReplicas("leader.replication.throttled.replicas"), MEDIUM, CLUSTER_WIDE,
        "Replicas that are throttled at their leaders."),
    row("local.retention.bytes", LONG, -2, Between(-2), MEDIUM, CLUSTER_WIDE,
        "Size of the local part of a tiered partition.", status=TIERED),
    row("local.retention.ms", LONG, -2, Between(-2), MEDIUM, CLUSTER_WIDE,
        "Age at which the local part of a tiered partition is deleted.", status=TIERED),
    row("max.compaction.lag.ms", LONG, LONG_MAX, Between(1), MEDIUM, CLUSTER_WIDE,
        "Maximum time that a record stays uncompacted."),
    row("max.message.bytes", INT, 1_048_588, Between(0), MEDIUM, CLUSTER_WIDE,
        "Maximum size of a batch, after compression."),
    row("message.timestamp.after.max.ms", LONG, 3_600_000, Between(0), MEDIUM, CLUSTER_WIDE,
        "Maximum time of a record's timestamp ahead of the clock."),
    row("message.timestamp.before.max.ms", LONG, LONG_MAX, Between(0), MEDIUM, CLUSTER_WIDE,
        "Maximum age of a record's timestamp."),
    row("message.timestamp.type", STRING, "CreateTime",
        OneOf(("CreateTime", "LogAppendTime")), MEDIUM, CLUSTER_WIDE,
        "Whether record timestamps are set by the producer or by the broker."),
    row("message.downconversion.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE,
        "Converts batches for clients before 0.11.", status=DROPPED, internal=True),
    row("message.format.version", STRING, "3.0-IV1", None, MEDIUM, CLUSTER_WIDE,
        "Batch format of stored records.", status=DROPPED, internal=True),
    row("message.timestamp.difference.max.ms", LONG, LONG_MAX, Between(0), MEDIUM, CLUSTER_WIDE,
        "Limit of the difference between a record's timestamp and the broker's time.", status=DROPPED, internal=True),
    row("min.cleanable.dirty.ratio", DOUBLE, 0.5, Between(0, 1), MEDIUM, CLUSTER_WIDE,
        "Share of dirty bytes at which the log is compacted."),
    row("min.compaction.lag.ms", LONG, 0, Between(0), MEDIUM, CLUSTER_WIDE,
        "Minimum time that a record stays uncompacted."),
    row("min.insync.replicas", INT, 1, Between(1), MEDIUM, CLUSTER_WIDE,
        "Minimum number of in-sync replicas for acks=all."),
    row("preallocate", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Preallocates the file of a new segment.", status=GROWS),
    row("remote.log.copy.disable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Stops copying to remote storage and keeps what is there.", status=TIERED),
    row("remote.log.delete.on.disable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Deletes the remote part when tiering is turned off.", status=TIERED),
    row("remote.storage.enable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Keeps old segments in remote storage.", status=NO_TIERS),
    row("retention.bytes", LONG, -1, None, MEDIUM, CLUSTER_WIDE,
        "Size of a partition above which its oldest segments are deleted; -1 is unlimited."),
    row("retention.ms", LONG, 604_800_000, Between(-1), MEDIUM, CLUSTER_WIDE,
        "Age at which records may be deleted; -1 is never."),
    row("segment.bytes", INT, 1_073_741_824, Between(1048576), MEDIUM, CLUSTER_WIDE,
        "Size at which a new segment is begun."),
    row("segment.index.bytes", INT, 10_485_760, Between(4), MEDIUM, CLUSTER_WIDE,
        "Size of an offset index at which a new segment is begun."),
    row("segment.jitter.ms", LONG, 0, Between(0), MEDIUM, CLUSTER_WIDE,
        "Maximum random time subtracted from the age, so that not all logs roll at once."),
    row("segment.ms", LONG, 604_800_000, Between(1), MEDIUM, CLUSTER_WIDE,
        "Age at which a new segment is begun."),
    row("unclean.leader.election.enable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Allows out-of-sync replicas to lead, which may lose records."),
)
# fmt: on
