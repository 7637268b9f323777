"""The defaults of topic options from broker options.

Each topic option has a corresponding broker option, some in several units; the finest unit that is set wins.
"""

from collections.abc import Mapping
from types import MappingProxyType

from kafkad.core.log.settings import LogConfig
from kafkad.core.settings.values import Value

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS

# Topic option → broker option, as Kafka pairs them.
BROKER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "cleanup.policy": "log.cleanup.policy",
        "compression.gzip.level": "compression.gzip.level",
        "compression.lz4.level": "compression.lz4.level",
        "compression.type": "compression.type",
        "compression.zstd.level": "compression.zstd.level",
        "delete.retention.ms": "log.cleaner.delete.retention.ms",
        "file.delete.delay.ms": "log.segment.delete.delay.ms",
        "flush.messages": "log.flush.interval.messages",
        "flush.ms": "log.flush.interval.ms",
        "index.interval.bytes": "log.index.interval.bytes",
        "local.retention.bytes": "log.local.retention.bytes",
        "local.retention.ms": "log.local.retention.ms",
        "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
        "max.message.bytes": "message.max.bytes",
        "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
        "message.timestamp.type": "log.message.timestamp.type",
        "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
        "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
        "min.insync.replicas": "min.insync.replicas",
        "preallocate": "log.preallocate",
        "retention.bytes": "log.retention.bytes",
        "retention.ms": "log.retention.ms",
        "segment.bytes": "log.segment.bytes",
        "segment.index.bytes": "log.index.size.max.bytes",
        "segment.jitter.ms": "log.roll.jitter.ms",
        "segment.ms": "log.roll.ms",
        "unclean.leader.election.enable": "unclean.leader.election.enable",
    }
)

# If an option is unset, the next option of its row is used, multiplied by its unit.
_UNITS: Mapping[str, tuple[tuple[str, int], ...]] = MappingProxyType(
    {
        "log.retention.ms": (("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)),
        "log.roll.ms": (("log.roll.hours", _HOUR_MS),),
        "log.roll.jitter.ms": (("log.roll.jitter.hours", _HOUR_MS),),
        "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
    }
)
_UNIT_ROWS = tuple((finest, *(name for name, _ in coarser)) for finest, coarser in _UNITS.items())


def unit_synonyms(name: str) -> tuple[str, ...]:
    """The broker options that are synonyms of `name`, the finest unit first."""
    # The scheduler's interval is not a synonym: it is only the default.
    if name == "log.flush.scheduler.interval.ms":
        return (name,)
    return next((names for names in _UNIT_ROWS if name in names), (name,))


def topic_defaults(values: Mapping[str, Value]) -> dict[str, Value]:
    """The defaults of topic options on a broker with these values."""
    return {topic: _in_finest_unit(values, broker) for topic, broker in BROKER_NAMES.items()}


def log_config(topic_values: Mapping[str, Value], *, flush_acks: bool = False) -> LogConfig:
    """A log's settings, from values by topic option. `flush_acks` is kafkad.log.flush.acks of the broker."""
    fields = {}
    for field in LogConfig.__dataclass_fields__:
        name = field.replace("_", ".")
        if name in topic_values:
            fields[field] = topic_values[name]
    for_tests = topic_values.get("internal.segment.bytes")
    if for_tests is not None:
        fields["segment_bytes"] = for_tests
    if flush_acks:
        fields["flush_messages"] = 1
    policy = fields["cleanup_policy"]
    assert isinstance(policy, tuple), "cleanup.policy is a list option"
    fields["cleanup_policy"] = frozenset(policy)  # type: ignore[assignment]
    return LogConfig(**fields)  # type: ignore[arg-type]


def _in_finest_unit(values: Mapping[str, Value], name: str) -> Value:
    candidates = ((name, 1), *_UNITS.get(name, ()))
    for candidate, unit in candidates:
        value = values[candidate]
        if isinstance(value, int) and name in _UNITS:
            # In Kafka any negative retention time is unlimited.
            return -1 if name == "log.retention.ms" and value < 0 else value * unit
        if value is not None:
            return value
    return None
