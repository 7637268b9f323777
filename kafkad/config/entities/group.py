"""The configs of groups (entity type groups of kafka-configs) and their validation.

Each option overrides the broker option of the same name with the prefix `group.`, and has its type and default. Other
broker options set its minimum and maximum. Errors have the code INVALID_CONFIG and Kafka's messages.
"""

from collections.abc import Iterator, Mapping

from kafkad.config.describe import ConfigSource, DescribedConfig, broker_synonyms, described
from kafkad.config.entities.broker import BrokerConfig
from kafkad.config.table import BROKER_TABLE
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.quoting import quoted
from kafkad.core.settings.option import InvalidSetting, Setting
from kafkad.core.settings.values import Value, value_text

_PREFIX = "group."
_NAMES = (
    *("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms"),
    *("share.session.timeout.ms", "share.heartbeat.interval.ms", "share.record.lock.duration.ms"),
    *("share.delivery.count.limit", "share.partition.max.record.locks"),
    *("share.assignment.interval.ms", "streams.assignment.interval.ms"),
    *("streams.session.timeout.ms", "streams.heartbeat.interval.ms", "streams.num.standby.replicas"),
    *("streams.initial.rebalance.delay.ms",),
)
GROUP_TABLE: Mapping[str, Setting] = {
    name: BROKER_TABLE[_PREFIX + name] for name in _NAMES if _PREFIX + name in BROKER_TABLE
}
"""The row of the broker option for each option of a group."""


def validate_group_configs(broker: BrokerConfig, configs: Mapping[str, str]) -> None:
    """Raises KafkaError (INVALID_CONFIG)."""
    values = {name: _value(name, text) for name, text in configs.items()}
    for name, value in values.items():
        _check_limits(broker, name, value)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if not (session in GROUP_TABLE and {session, heartbeat}.intersection(values)):
            continue
        both = [values.get(name, broker.values[_PREFIX + name]) for name in (session, heartbeat)]
        assert isinstance(both[0], int) and isinstance(both[1], int), "both are integer options"
        if both[0] <= both[1]:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


def within_limits(broker: BrokerConfig, configs: Mapping[str, str]) -> dict[str, str]:
    """The effective configs: a stored value outside the present limits becomes the limit."""
    limited = dict(configs)
    for name in configs:
        for bound, nearest in (("min", max), ("max", min)):
            limit = broker.values.get(_limit(name, bound))
            if isinstance(limit, int):
                limited[name] = str(nearest(int(limited[name]), limit))
    return limited


def describe_group(broker: BrokerConfig, configs: Mapping[str, str]) -> Iterator[DescribedConfig]:
    """All options of a group with these overrides."""
    for name, setting in GROUP_TABLE.items():
        broker_name = _PREFIX + name
        synonyms = broker_synonyms(broker, broker_name)
        value = value_text(broker.values[broker_name])
        if name in configs:
            value = value_text(_value(name, configs[name]))
            synonyms = ((name, value, ConfigSource.DYNAMIC_GROUP), *synonyms)
        yield described(setting, value, synonyms, read_only=False, name=name)


def _value(name: str, text: str) -> Value:
    setting = GROUP_TABLE.get(name)
    if setting is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {quoted(name)}")
    try:
        return setting.read(text)
    except InvalidSetting as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _limit(name: str, bound: str) -> str:
    kind, _, rest = name.partition(".")
    return f"{_PREFIX}{kind}.{bound}.{rest}"


def _check_limits(broker: BrokerConfig, name: str, value: Value) -> None:
    for bound, word in (("min", "greater"), ("max", "less")):
        option = _limit(name, bound)
        limit = broker.values.get(option)
        if not isinstance(limit, int) or not isinstance(value, int):
            continue
        if value < limit if bound == "min" else value > limit:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be {word} than or equal to {option}")
