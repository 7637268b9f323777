"""The configs of topics and their validation.

Errors have the code INVALID_CONFIG and Kafka's messages. Limits are checked when an option is set. Stored values are
only parsed, so that a topic remains usable after a limit was tightened or a plugin was removed. Another version may
have stored unknown options and unreadable values: they count as unset.
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

NO_PLUGIN_CONFIGS: Mapping[str, Setting] = MappingProxyType({})
"""Without topic configs of plugins."""

_NO_TIERS = (
    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
)


def validate_topic_config(
    name: str,
    text: str | None,
    cleanup_policies: Collection[str] = (),
    added: Mapping[str, Setting] = NO_PLUGIN_CONFIGS,
) -> Value:
    """The value of one option of a topic. Raises KafkaError.

    `cleanup_policies` and `added` are the policies and the rows of plugins.
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
    except InvalidSetting as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if name == "remote.storage.enable" and value is True:
        raise KafkaError(ErrorCode.INVALID_CONFIG, _NO_TIERS)
    return value


def validate_topic_configs(
    broker: BrokerConfig,
    overrides: Mapping[str, str | None],
    cleanup_policies: Collection[str] = (),
    added: Mapping[str, Setting] = NO_PLUGIN_CONFIGS,
) -> dict[str, Value]:
    """The values of the overrides of a topic, which must not contradict inherited values."""
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
    """The names of unknown options."""
    return sorted(name for name in overrides if name not in TOPIC_TABLE and not is_of_plugin(name))


def unreadable_topic_configs(overrides: Mapping[str, str]) -> dict[str, str]:
    """The errors of unreadable values, by name."""
    problems = {name: _problem(name, text) for name, text in overrides.items() if name in TOPIC_TABLE}
    return {name: problem for name, problem in problems.items() if problem is not None}


def _problem(name: str, text: str) -> str | None:
    try:
        TOPIC_TABLE[name].read(text)
    except InvalidSetting as error:
        return str(error)
    return None


def with_plugin_configs(config: LogConfig, overrides: Mapping[str, str], added: Mapping[str, Setting]) -> LogConfig:
    """`config` with the values of `added`: from the topic's `overrides` if they are valid, else the defaults."""
    if not added:
        return config
    values = {name: _value_or_default(setting, overrides.get(name)) for name, setting in added.items()}
    return replace(config, plugin_configs=MappingProxyType(values))


def _value_or_default(setting: Setting, text: str | None) -> Value:
    """The value; the default for a text that only an earlier version of the plugin accepted."""
    if text is None:
        return setting.default
    try:
        return setting.read(text)
    except InvalidSetting:
        return setting.default


def stored_topic_value(name: str, text: str, added: Mapping[str, Setting] = NO_PLUGIN_CONFIGS) -> Value:
    """The value of `text`, without a check of limits. Raises KafkaError for a text of the wrong type."""
    try:
        return _known(name, added).read(text)
    except InvalidSetting as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _known(name: str, added: Mapping[str, Setting]) -> Setting:
    setting = TOPIC_TABLE.get(name) or added.get(name)
    if setting is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {quoted(name)}")
    return setting
