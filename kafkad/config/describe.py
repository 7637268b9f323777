"""The content of DescribeConfigs responses for a topic and for this broker.

Each option has its value, the source of the value, and all other sources with a value, in Kafka's order: the topic,
changes of this broker, cluster-wide changes, the file, the default. Passwords are never returned.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from kafkad.config.entities.broker import BrokerConfig
from kafkad.config.entities.log_defaults import BROKER_NAMES, topic_defaults, unit_synonyms
from kafkad.config.entities.topic import (
    NO_PLUGIN_CONFIGS,
    stored_topic_value,
    unknown_topic_configs,
    unreadable_topic_configs,
)
from kafkad.config.table import BROKER_TABLE, LISTENER_OVERRIDE, TOPIC_TABLE, base_name, find
from kafkad.core.settings.option import Setting, UpdateMode
from kafkad.core.settings.topic_config import is_of_plugin, of_another_version, of_unloaded_plugin
from kafkad.core.settings.values import value_text


class ConfigSource(IntEnum):
    """The protocol's numbers."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_GROUP = 8


Synonym = tuple[str, str | None, ConfigSource]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    """One option of the response; `synonyms` are (name, value, source)."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    config_type: int
    documentation: str
    synonyms: tuple[Synonym, ...]


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], added: Mapping[str, Setting] = NO_PLUGIN_CONFIGS
) -> Iterator[DescribedConfig]:
    """All options of a topic with these overrides; `added` are the rows of plugins."""
    yield from _describe_kafka_options(broker, overrides)
    unloaded = {name: of_unloaded_plugin(name) for name in overrides if is_of_plugin(name) and name not in added}
    unknown = {name: of_another_version(name) for name in unknown_topic_configs(overrides)}
    for name, setting in {**added, **unloaded, **unknown}.items():
        text = overrides.get(name)
        synonyms = ((name, text, ConfigSource.DYNAMIC_TOPIC),) if text is not None else ()
        value = text if text is not None else setting.default_text
        yield described(setting, value, synonyms, read_only=False)


def _describe_kafka_options(broker: BrokerConfig, overrides: Mapping[str, str]) -> Iterator[DescribedConfig]:
    inherited = topic_defaults(broker.values)
    for name, setting in TOPIC_TABLE.items():
        if setting.internal and name not in overrides:
            continue
        broker_name = BROKER_NAMES.get(name)
        synonyms = broker_synonyms(broker, broker_name) if broker_name is not None else ()
        value = value_text(inherited.get(name, setting.default))
        if name in overrides:
            is_unreadable = name in unreadable_topic_configs({name: overrides[name]})
            value = overrides[name] if is_unreadable else value_text(stored_topic_value(name, overrides[name]))
            synonyms = ((name, value, ConfigSource.DYNAMIC_TOPIC), *synonyms)
        yield described(setting, value, synonyms, read_only=False)


def describe_broker(broker: BrokerConfig) -> Iterator[DescribedConfig]:
    """All options of this broker."""
    texts = broker.texts
    written = texts.written
    for name in (*BROKER_TABLE, *(name for name in written if name not in BROKER_TABLE)):
        setting = find(name)
        assert setting is not None, "a configuration with unknown names is never built"
        if setting.internal and name not in written:
            continue
        value = value_text(broker.values[name])
        yield described(setting, value, broker_synonyms(broker, name), read_only=_is_read_only(name))


def describe_cluster_default(broker: BrokerConfig) -> Iterator[DescribedConfig]:
    """The cluster-wide dynamic options: the broker resource with the empty name."""
    for name, text in broker.texts.cluster.items():
        setting = find(name)
        assert setting is not None, "a configuration with unknown names is never built"
        value = value_text(setting.parse(text))
        synonyms = ((name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER),)
        yield described(setting, value, synonyms, read_only=_is_read_only(name))


def _is_read_only(name: str) -> bool:
    setting = BROKER_TABLE.get(name)
    return setting is None or setting.update_mode is UpdateMode.READ_ONLY


def described(
    setting: Setting, value: str | None, synonyms: tuple[Synonym, ...], *, read_only: bool, name: str | None = None
) -> DescribedConfig:
    """One option; `name` is its name if it differs from the name of the setting."""
    secret = setting.is_sensitive
    return DescribedConfig(
        name=name or setting.name,
        value=None if secret else value,
        source=synonyms[0][2] if synonyms else ConfigSource.DEFAULT,
        is_sensitive=secret,
        read_only=read_only,
        config_type=setting.type.value,
        documentation=setting.documentation,
        synonyms=tuple((name, None, source) for name, _, source in synonyms) if secret else synonyms,
    )


def broker_synonyms(broker: BrokerConfig, name: str) -> tuple[Synonym, ...]:
    """All sources with a value for `name`. Synonyms before the first source with this name are omitted."""
    names = _names_behind(name)
    texts = broker.texts
    layers = (
        (texts.broker, ConfigSource.DYNAMIC_BROKER),
        (texts.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (texts.static, ConfigSource.STATIC_BROKER),
    )
    found: list[Synonym] = []
    for layer, source in layers:
        found += ((known, layer[known], source) for known in names if known in layer)
    for known in names:
        default = _default_text(broker, known)
        if default is not None:
            found.append((known, default, ConfigSource.DEFAULT))
    start = next((place for place, synonym in enumerate(found) if synonym[0] == name), len(found))
    return tuple(found[start:])


def _names_behind(name: str) -> tuple[str, ...]:
    override = LISTENER_OVERRIDE.fullmatch(name)
    if override is not None:
        return name, base_name(override[2])
    return unit_synonyms(name)


def _default_text(broker: BrokerConfig, name: str) -> str | None:
    if name in broker.texts.defaults:
        return value_text(broker.texts.defaults[name])
    setting = BROKER_TABLE.get(name)
    return setting.default_text if setting is not None else None
