"""Options of the log cleaner."""

from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import Setting
from kafkad.core.settings.rows import BOOLEAN, CLUSTER_WIDE, DOUBLE, INT, LONG, LONG_MAX, MEDIUM, READ_ONLY, row

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    row("log.cleaner.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Enables compaction; without it, topics with the policy compact are not compacted."),
    row("log.cleaner.threads", INT, 1, Between(1), MEDIUM, READ_ONLY,
        "Number of cleaner processes, for retention and compaction."),
    row("log.cleaner.backoff.ms", LONG, 15_000, Between(0), MEDIUM, CLUSTER_WIDE,
        "Pause when nothing is left to compact."),
    row("log.cleaner.dedupe.buffer.size", LONG, 134_217_728, None, MEDIUM, CLUSTER_WIDE,
        "Memory for the map of keys while compacting."),
    row("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, None, MEDIUM, CLUSTER_WIDE,
        "How full the map of keys may get."),
    row("log.cleaner.io.buffer.size", INT, 524_288, Between(0), MEDIUM, CLUSTER_WIDE,
        "Memory for reading and writing while compacting."),
    row("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e+308, None, MEDIUM, CLUSTER_WIDE,
        "Bytes per second that compaction may read and write."),
    row("log.cleaner.delete.retention.ms", LONG, 86_400_000, Between(0), MEDIUM, CLUSTER_WIDE,
        "Time that tombstones stay in a compacted log."),
    row("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, Between(1), MEDIUM, CLUSTER_WIDE,
        "Maximum time that a record stays uncompacted."),
    row("log.cleaner.min.compaction.lag.ms", LONG, 0, Between(0), MEDIUM, CLUSTER_WIDE,
        "Minimum time that a record stays uncompacted."),
    row("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, Between(0, 1), MEDIUM, CLUSTER_WIDE,
        "Share of dirty bytes at which a log is compacted."),
)
# fmt: on
