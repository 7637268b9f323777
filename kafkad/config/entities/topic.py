"""What does a topic's own configuration mean on this broker, and which values are refused?

Refusals carry INVALID_CONFIG and Kafka's words. Limits are checked when an option is set. Stored values are only
parsed, so that a topic survives a tighter limit and the removal of a plugin with its cleanup policies and topic
configs. Somebody else may have stored options that this version does not know, and values that can't be read: they
count as not set.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from kafkad.config.entities.broker import BrokerConfig
from kafkad.config.entities.log_defaults import log_config, topic_defaults
from kafkad.config.table import TOPIC_TABLE
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.settings import LogConfig
from kafkad.core.quoting import quoted
from kafkad.core.settings.option import InvalidSetting, Setting
from kafkad.core.settings.topic_config import is_of_plugin
from kafkad.core.settings.values import Value

NOTHING_ADDED: Mapping[str, Setting] = MappingProxyType({})
"""The rows of a broker whose plugins bring no topic configs."""

_NO_TIERS = (
    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
)


def validate_topic_config(
    name: str,
    text: str | None,
    cleanup_policies: Collection[str] = (),
    added: Mapping[str, Setting] = NOTHING_ADDED,
) -> Value:
    """The value of one option of a topic; raises KafkaError.

    `cleanup_policies` are the names that plugins add to delete and compact; `added` are their rows.
    """
    setting = _known(name, added)
    if text is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {quoted(name)}")
    value = stored_topic_value(name, text, added)
    ruled = value
    if name == "cleanup.policy" and isinstance(value, tuple):
        ruled = tuple(policy for policy in value if policy not in cleanup_policies)
    try:
        setting.check(ruled)
    except InvalidSetting as refusal:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(refusal)) from None
    if name == "remote.storage.enable" and value is True:
        raise KafkaError(ErrorCode.INVALID_CONFIG, _NO_TIERS)
    return value


def validate_topic_configs(
    broker: BrokerConfig,
    overrides: Mapping[str, str | None],
    cleanup_policies: Collection[str] = (),
    added: Mapping[str, Setting] = NOTHING_ADDED,
) -> dict[str, Value]:
    """The values of all options of a topic; they have to agree with those it inherits."""
    own = {name: validate_topic_config(name, text, cleanup_policies, added) for name, text in overrides.items()}
    values = {**topic_defaults(broker.values), **own}
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(least, int) and isinstance(most, int), "both are integer options"
    if least > most:
        message = f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    return own


def topic_log_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """The settings of a topic's logs, without configs from plugins.

    Without overrides they are the broker's own object.
    """
    own = {
        name: stored_topic_value(name, text)
        for name, text in overrides.items()
        if name in TOPIC_TABLE and _problem(name, text) is None
    }
    if not own:
        return broker.log
    flush_acks = broker.values["kafkad.log.flush.acks"] is True
    return log_config({**topic_defaults(broker.values), **own}, flush_acks=flush_acks)


def unknown_topic_configs(overrides: Mapping[str, str]) -> list[str]:
    """Those that this version does not know."""
    return sorted(name for name in overrides if name not in TOPIC_TABLE and not is_of_plugin(name))


def unreadable_topic_configs(overrides: Mapping[str, str]) -> dict[str, str]:
    """Why the values of some can't be read, by name."""
    problems = {name: _problem(name, text) for name, text in overrides.items() if name in TOPIC_TABLE}
    return {name: problem for name, problem in problems.items() if problem is not None}


def _problem(name: str, text: str) -> str | None:
    try:
        TOPIC_TABLE[name].read(text)
    except InvalidSetting as refusal:
        return str(refusal)
    return None


def with_plugin_configs(config: LogConfig, overrides: Mapping[str, str], added: Mapping[str, Setting]) -> LogConfig:
    """`config` with the values of `added`: from the topic's `overrides` where these are valid, else the default."""
    if not added:
        return config
    values = {name: _value_or_default(setting, overrides.get(name)) for name, setting in added.items()}
    return replace(config, plugin_configs=MappingProxyType(values))


def _value_or_default(setting: Setting, text: str | None) -> Value:
    """This version of the plugin may not accept a value that an earlier version accepted."""
    if text is None:
        return setting.default
    try:
        return setting.read(text)
    except InvalidSetting:
        return setting.default


def stored_topic_value(name: str, text: str, added: Mapping[str, Setting] = NOTHING_ADDED) -> Value:
    """The value of `text`, without today's limits. Raises KafkaError if it is no value of the type."""
    try:
        return _known(name, added).read(text)
    except InvalidSetting as refusal:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(refusal)) from None


def _known(name: str, added: Mapping[str, Setting]) -> Setting:
    setting = TOPIC_TABLE.get(name) or added.get(name)
    if setting is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {quoted(name)}")
    return setting
