"""kafka-configs prints on kafkad what it prints on Apache Kafka: every key, default, source and synonym."""

from collections.abc import Callable

import pytest

from tests.compat.side_by_side import Tools

NewTopic = Callable[[str], str]
CONFIGS = "kafka-configs"
THE_BROKER = ("--entity-type", "brokers", "--entity-name", "1")
ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")

# Set for one of the two brokers by the tests that start them, or a fact of where it runs.
_OWN_KEYS = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.voters",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "offsets.topic.replication.factor",
        "process.roles",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
    }
)
# Defaults that are not Apache Kafka's: no more processes than cores, and no JMX to report to.
_OWN_DEFAULTS = frozenset({"metric.reporters", "num.io.threads", "num.network.threads"})


def of_topic(topic: str) -> tuple[str, ...]:
    return ("--entity-type", "topics", "--entity-name", topic)


@pytest.fixture
def topic(tools: Tools, new_topic: NewTopic) -> str:
    return tools.create(new_topic("configured"))


def test_all_settings_of_a_topic_are_described(tools: Tools, topic: str) -> None:
    assert "cleanup.policy=delete" in tools.agree(CONFIGS, "--describe", "--all", *of_topic(topic))


def test_every_broker_key_is_described_with_apache_kafkas_default(tools: Tools) -> None:
    ours, theirs = (_by_key(printed.out) for printed in tools.both(CONFIGS, "--describe", "--all", *THE_BROKER))
    assert sorted(key for key in theirs if key not in ours) == []
    different = {key: (ours[key], theirs[key]) for key in theirs if ours[key] != theirs[key]}
    assert {key: pair for key, pair in different.items() if key not in _OWN_KEYS | _OWN_DEFAULTS} == {}


def _by_key(text: str) -> dict[str, str]:
    lines = (line.strip() for line in text.splitlines() if line.startswith("  "))
    return {line.partition("=")[0]: line for line in lines}


def test_a_topic_setting_is_changed_and_deleted(tools: Tools, topic: str) -> None:
    entity = of_topic(topic)
    tools.agree(CONFIGS, "--alter", *entity, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    described = tools.agree(CONFIGS, "--describe", *entity)
    assert "retention.ms=5000" in described
    assert "cleanup.policy=compact,delete" in described
    tools.agree(CONFIGS, "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms" not in tools.agree(CONFIGS, "--describe", *entity)


def test_a_broker_setting_is_changed_while_running(tools: Tools) -> None:
    tools.agree(CONFIGS, "--alter", *THE_BROKER, "--add-config", "log.retention.ms=86400000")
    assert "log.retention.ms=86400000" in tools.agree(CONFIGS, "--describe", *THE_BROKER)
    tools.agree(CONFIGS, "--alter", *THE_BROKER, "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in tools.agree(CONFIGS, "--describe", *THE_BROKER)


def test_a_default_for_all_brokers_is_changed_while_running(tools: Tools, topic: str) -> None:
    tools.agree(CONFIGS, "--alter", *ALL_BROKERS, "--add-config", "log.retention.ms=86400001")
    assert "log.retention.ms=86400001" in tools.agree(CONFIGS, "--describe", *ALL_BROKERS)
    assert "retention.ms=86400001" in tools.agree(CONFIGS, "--describe", "--all", *of_topic(topic))
    tools.agree(CONFIGS, "--alter", *ALL_BROKERS, "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in tools.agree(CONFIGS, "--describe", *ALL_BROKERS)


@pytest.mark.parametrize("change", ["retention.mss=1", "retention.ms=soon", "cleanup.policy=shrink"])
def test_a_wrong_topic_setting_is_refused_as_on_apache_kafka(tools: Tools, topic: str, change: str) -> None:
    tools.agree(CONFIGS, "--alter", *of_topic(topic), "--add-config", change, code=1)


@pytest.mark.parametrize("change", ["num.partitions=7", "log.retention.ms=soon"])
def test_a_wrong_broker_setting_is_refused_as_on_apache_kafka(tools: Tools, change: str) -> None:
    tools.agree(CONFIGS, "--alter", *THE_BROKER, "--add-config", change, code=1)


def test_an_unknown_broker_setting_is_refused_by_name(tools: Tools) -> None:
    """Apache Kafka stores what it does not know; kafkad refuses unknown names everywhere, as in its file."""
    ours = tools.on(tools.brokers[0], CONFIGS, "--alter", *THE_BROKER, "--add-config", "no.such.key=7")
    assert ours.code == 1
    assert "Unknown broker config name: no.such.key" in ours.err


def test_deleting_a_setting_that_is_not_set_does_nothing(tools: Tools, topic: str) -> None:
    tools.agree(CONFIGS, "--alter", *of_topic(topic), "--delete-config", "retention.bytes")


def test_the_settings_of_an_unknown_topic_are_refused_as_on_apache_kafka(tools: Tools) -> None:
    tools.agree(CONFIGS, "--alter", *of_topic("nowhere"), "--add-config", "retention.ms=1", code=1)
    tools.agree(CONFIGS, "--describe", *of_topic("nowhere"), code=0)


@pytest.mark.parametrize("change", ["num.io.threads=2", "log.cleaner.threads=2", "listeners=[PLAINTEXT://127.0.0.1:0]"])
def test_what_is_taken_at_the_start_is_refused_with_the_way_out(tools: Tools, change: str) -> None:
    """Apache Kafka changes these while it runs; kafkad says that a restart is needed."""
    ours = tools.on(tools.brokers[0], CONFIGS, "--alter", *THE_BROKER, "--add-config", change)
    assert ours.code == 1
    assert "change server.properties and restart the broker" in ours.err
