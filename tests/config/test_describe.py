"""DescribeConfigs, held against what Apache Kafka 4.3.0 answered for the same configuration.

The data file holds the answers for one topic, one broker and the cluster default, recorded from a real broker:
name → value, source, sensitive, read only, type, synonyms.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kafkad.config.describe import (
    ConfigSource,
    DescribedConfig,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from kafkad.config.dynamic import FIXED_AT_START, apply_dynamic
from kafkad.core.settings.option import SettingType
from kafkad.core.settings.topic_config import TopicConfig, setting_of
from tests.config.configurations import configured

ANSWERS: dict[str, dict[str, list[Any]]] = json.loads(
    (Path(__file__).parent / "described_by_kafka_4_3.json").read_text()
)
STATIC = (
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("controller.quorum.voters", "1@localhost:39093"),
    ("listeners", "PLAINTEXT://127.0.0.1:39092,CONTROLLER://127.0.0.1:39093"),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
    ("controller.listener.names", "CONTROLLER"),
    ("log.dirs", "/var/lib/kafka"),
    ("offsets.topic.replication.factor", "1"),
    ("log.retention.hours", "100"),
    ("log.retention.minutes", "600"),
    ("log.roll.hours", "20"),
    ("log.cleanup.policy", "delete,compact"),
)
CLUSTER = {
    "log.retention.ms": "777",
    "log.segment.bytes": "3000000",
    "min.insync.replicas": "1",
}
BROKER = {"log.segment.bytes": "2000000"}
TOPIC = {"retention.ms": "5000", "cleanup.policy": "compact", "segment.ms": "99999"}
CONFIG = apply_dynamic(configured(*STATIC), CLUSTER, BROKER)

# Kafka needs no line in the protocol map for a controller's listener, and has other defaults for these.
DIFFERENT = {"listener.security.protocol.map", "log.dir", "listeners", "metric.reporters", "controller.listener.names"}
# After a dynamic change, Kafka 4.3 answers the default for these two as their value, beside the true synonyms.
DIFFERENT |= {"log.retention.hours", "log.retention.minutes"}
# Kafka 4.3 has no default for them.
DIFFERENT |= {"node.id", "process.roles"}
# Kafka changes these while it runs; here they are read-only.
DIFFERENT |= FIXED_AT_START


def as_recorded(config: DescribedConfig) -> list[Any]:
    def source(number: ConfigSource) -> str:
        return number.name + "_CONFIG"

    return [
        config.value,
        source(config.source),
        config.is_sensitive,
        config.read_only,
        SettingType(config.config_type).name,
        [[name, value, source(origin)] for name, value, origin in config.synonyms],
    ]


def test_topic_is_described_as_kafka_describes_it() -> None:
    described = {config.name: as_recorded(config) for config in describe_topic(CONFIG, TOPIC)}
    assert described == ANSWERS["topic"]


def test_broker_is_described_as_kafka_describes_it() -> None:
    described = {config.name: as_recorded(config) for config in describe_broker(CONFIG)}
    assert set(ANSWERS["broker"]) - set(described) == set()
    for name, answer in ANSWERS["broker"].items():
        if name not in DIFFERENT:
            assert described[name] == answer, name


def test_cluster_default_is_described_as_kafka_describes_it() -> None:
    described = {config.name: as_recorded(config) for config in describe_cluster_default(CONFIG)}
    assert described == {name: answer for name, answer in ANSWERS["default"].items() if name not in FIXED_AT_START}


def broker_option(name: str, *overrides: tuple[str, str]) -> DescribedConfig:
    return next(config for config in describe_broker(configured(*overrides)) if config.name == name)


def test_secret_is_never_shown() -> None:
    config = broker_option("ssl.key.password", ("ssl.key.password", "secret"))
    assert config.is_sensitive
    assert (config.value, config.synonyms) == (None, (("ssl.key.password", None, ConfigSource.STATIC_BROKER),))


def test_override_of_a_listener_has_the_general_option_behind_it() -> None:
    config = broker_option("listener.name.plaintext.max.connections", ("listener.name.plaintext.max.connections", "5"))
    assert config.synonyms == (
        ("listener.name.plaintext.max.connections", "5", ConfigSource.STATIC_BROKER),
        ("max.connections", "2147483647", ConfigSource.DEFAULT),
    )
    assert config.read_only


def test_capped_default_is_shown_as_it_is_in_force() -> None:
    described = {config.name: config for config in describe_broker(configured(cores=4))}
    config = described["num.io.threads"]
    assert (config.value, config.source) == ("2", ConfigSource.DEFAULT)
    assert config.synonyms == (("num.io.threads", "2", ConfigSource.DEFAULT),)


@pytest.mark.parametrize("name", ["internal.segment.bytes", "message.format.version"])
def test_hidden_topic_option_is_described_only_when_set(name: str) -> None:
    text = {"internal.segment.bytes": "1000", "message.format.version": "3.0"}[name]
    assert name not in {config.name for config in describe_topic(CONFIG, {})}
    assert name in {config.name for config in describe_topic(CONFIG, {name: text})}


def test_every_described_option_has_a_documentation() -> None:
    assert all(config.documentation for config in (*describe_broker(CONFIG), *describe_topic(CONFIG, {})))


KEEP = "kafkad.plugin.keep"


def test_configs_of_plugins_are_described_like_kafkas_own() -> None:
    row = TopicConfig(name=KEEP, type=SettingType.INT, default=3, documentation="How many.")
    added = {KEEP: setting_of(row)}

    def shown(overrides: dict[str, str]) -> DescribedConfig:
        (found,) = [config for config in describe_topic(CONFIG, overrides, added) if config.name == KEEP]
        return found

    assert (shown({}).value, shown({}).source, shown({}).documentation) == ("3", ConfigSource.DEFAULT, "How many.")
    own = shown({KEEP: "5"})
    assert (own.value, own.source, own.config_type) == ("5", ConfigSource.DYNAMIC_TOPIC, SettingType.INT)
    assert own.synonyms == ((KEEP, "5", ConfigSource.DYNAMIC_TOPIC),)


def test_config_of_a_plugin_that_is_gone_is_still_shown_so_that_it_can_be_deleted() -> None:
    (gone,) = [config for config in describe_topic(CONFIG, {KEEP: "5"}) if config.name == KEEP]
    assert (gone.value, gone.source) == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert "not loaded" in gone.documentation


def test_what_somebody_else_has_stored_is_shown_so_that_it_can_be_deleted() -> None:
    shown = {each.name: each for each in describe_topic(CONFIG, {"nonsense": "x", "retention.ms": "abc"})}
    for name, value in (("nonsense", "x"), ("retention.ms", "abc")):
        assert (shown[name].value, shown[name].source) == (value, ConfigSource.DYNAMIC_TOPIC)
        assert not shown[name].read_only
