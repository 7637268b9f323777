"""Every option of Apache Kafka 3.9 and 4.3 is known, with Kafka's type and default.

The data files hold what the brokers' own tables say: name → type, default, importance, update mode.
"""

import ast
import json
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import kafkad
from kafkad.config import broker
from kafkad.config.dynamic import FIXED_AT_START
from kafkad.config.table import BROKER_TABLE, TOPIC_TABLE
from kafkad.core.log.settings import LogConfig
from kafkad.core.settings import Support

FOLDER = Path(__file__).parent
CODE = Path(kafkad.__file__).parent
# Where kafkad says something else, and why: no KRaft roles, a local listener, no data under /tmp, no JMX.
OWN_DEFAULTS = {"process.roles", "controller.listener.names", "node.id", "listeners", "log.dir", "metric.reporters"}

Facts = dict[str, dict[str, list[str | None]]]


def facts(version: str) -> Facts:
    loaded: Facts = json.loads((FOLDER / f"kafka_{version}.json").read_text())
    return loaded


@pytest.mark.parametrize("version", ["3_9", "4_3"])
def test_no_option_of_kafka_is_unknown(version: str) -> None:
    known = facts(version)
    assert set(known["broker"]) - set(BROKER_TABLE) == set()
    assert set(known["topic"]) - set(TOPIC_TABLE) == set()


def test_type_default_importance_and_update_mode_are_those_of_kafka() -> None:
    # Kafka 4.3 wins where both versions have an option.
    for scope, table in (("broker", BROKER_TABLE), ("topic", TOPIC_TABLE)):
        known = {**facts("3_9")[scope], **facts("4_3")[scope]}
        for name, (kind, default, importance, mode) in known.items():
            setting = table[name]
            found = (setting.type.name, setting.importance.name, setting.update_mode.value)
            is_fixed = name == "advertised.listeners" or (scope == "broker" and name in FIXED_AT_START)
            assert found == (kind, importance, "read-only" if is_fixed else mode), name
            if name not in OWN_DEFAULTS:
                assert setting.default_text == default, name


def test_own_options_carry_the_prefix() -> None:
    known = set(facts("3_9")["broker"]) | set(facts("4_3")["broker"])
    elsewhere_in_kafka = {
        "super.users",
        "allow.everyone.if.no.acl.found",
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "quota.producer.default",
        "quota.consumer.default",
        "kafka.csv.metrics.dir",
        "kafka.csv.metrics.reporter.enabled",
    }
    own = set(BROKER_TABLE) - known - elsewhere_in_kafka
    assert all(name.startswith("kafkad.") for name in own)


def test_every_option_has_a_sentence_and_every_restriction_a_reason() -> None:
    for setting in (*BROKER_TABLE.values(), *TOPIC_TABLE.values()):
        assert setting.documentation.endswith("."), setting.name
        assert setting.status.support.value == "working" or setting.status.reason, setting.name


def test_every_value_of_the_configuration_is_used_by_somebody() -> None:
    """An option that nobody reads is not working, whatever its row says."""
    readers = [path for path in CODE.rglob("*.py") if CODE / "config" not in path.parents]
    nodes = (node for path in readers for node in ast.walk(ast.parse(path.read_text())))
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    parts = [part for part in vars(broker).values() if isinstance(part, type) and is_dataclass(part)]
    assert LogConfig in parts
    values = {field.name for part in parts if part is not broker.Texts for field in fields(part)}
    without_effect = {
        name.replace(".", "_") for name, option in TOPIC_TABLE.items() if option.status.support is not Support.WORKING
    }
    assert values - used - without_effect == set()
