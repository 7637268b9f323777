"""Every option of Apache Kafka 3.9 and 4.3 is known, with Kafka's type and default.

The data files hold what the brokers' own tables say: name → type, default, importance, update mode.
"""

import ast
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest

import kafkad
from kafkad.config.dynamic import FIXED_AT_START
from kafkad.config.entities import broker
from kafkad.config.entities.group import within_limits
from kafkad.config.table import BROKER_TABLE, TOPIC_TABLE
from kafkad.core.log.settings import LogConfig
from kafkad.core.settings.limits import EachOneOf, OneOf
from kafkad.core.settings.option import SettingType, Support
from kafkad.plugins.client_quotas import ClientIdQuotas
from tests.config.configurations import configured

FOLDER = Path(__file__).parent
CODE = Path(kafkad.__file__).parent
# Where kafkad says something else, and why: no KRaft roles, a local listener, no data under /tmp, no JMX.
OWN_DEFAULTS = {"process.roles", "controller.listener.names", "node.id", "listeners", "log.dir", "metric.reporters"}

SECURED = (
    ("zookeeper.connect", "127.0.0.1:2182"),
    ("zookeeper.ssl.client.enable", "true"),
    ("zookeeper.ssl.keystore.location", "broker.pem"),
)

# What another value of an option is, where it needs others beside it or has a form of its own.
OTHER_VALUES: dict[str, tuple[tuple[str, str], ...]] = {
    "listeners": (("listeners", "PLAINTEXT://127.0.0.1:1"),),
    "advertised.listeners": (("advertised.listeners", "PLAINTEXT://a:1"),),
    "listener.security.protocol.map": (
        ("listener.security.protocol.map", "OUTSIDE:PLAINTEXT"),
        ("listeners", "OUTSIDE://:9092"),
    ),
    "controller.listener.names": (
        ("controller.listener.names", "CONTROLLER"),
        ("listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"),
    ),
    "max.connections.per.ip.overrides": (("max.connections.per.ip.overrides", "127.0.0.1:5"),),
    "broker.id": (("broker.id", "5"), ("node.id", "5")),
    "compression.gzip.level": (("compression.gzip.level", "5"),),
    "kafkad.metrics.listener": (("kafkad.metrics.listener", "127.0.0.1:1"),),
    # Read only in a cluster.
    "control.plane.listener.name": (
        ("zookeeper.connect", "127.0.0.1:2181"),
        ("listeners", "PLAINTEXT://127.0.0.1:9092,INTERNAL://127.0.0.1:9093"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT"),
        ("control.plane.listener.name", "INTERNAL"),
    ),
    "inter.broker.listener.name": (
        ("zookeeper.connect", "127.0.0.1:2181"),
        ("listeners", "PLAINTEXT://:9092,INTERNAL://:9093"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT"),
        ("inter.broker.listener.name", "INTERNAL"),
    ),
    "inter.broker.protocol.version": (
        ("zookeeper.connect", "127.0.0.1:2181"),
        ("inter.broker.protocol.version", "2.8"),
    ),
    "reserved.broker.max.id": (
        ("zookeeper.connect", "127.0.0.1:2181"),
        ("reserved.broker.max.id", "5"),
    ),
    "zookeeper.session.timeout.ms": (
        ("zookeeper.connect", "127.0.0.1:2181"),
        ("zookeeper.session.timeout.ms", "5"),
    ),
    "zookeeper.connection.timeout.ms": (
        ("zookeeper.connect", "127.0.0.1:2181"),
        ("zookeeper.connection.timeout.ms", "5"),
    ),
    "zookeeper.max.in.flight.requests": (
        ("zookeeper.connect", "127.0.0.1:2181"),
        ("zookeeper.max.in.flight.requests", "5"),
    ),
    "zookeeper.set.acl": (*SECURED, ("zookeeper.set.acl", "true")),
    "zookeeper.ssl.client.enable": SECURED,
    **{
        name: (*SECURED, (name, value))
        for name, value in (
            ("zookeeper.ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
            ("zookeeper.ssl.endpoint.identification.algorithm", ""),
            ("zookeeper.ssl.keystore.location", "another.pem"),
            ("zookeeper.ssl.keystore.password", "secret"),
            ("zookeeper.ssl.protocol", "TLSv1.3"),
            ("zookeeper.ssl.truststore.location", "trusted.pem"),
        )
    },
    "kafkad.suspect.refused.ms": (
        ("zookeeper.connect", "127.0.0.1:2181"),
        ("kafkad.suspect.refused.ms", "5"),
    ),
    "socket.request.max.bytes": (("socket.request.max.bytes", "200000000"),),
}


# Names that the code puts together: another test shows for each that it does something.
QUOTAS = frozenset(
    {
        "quota.producer.default",
        "quota.consumer.default",
        "kafkad.quota.producer.byte.rate.default",
        "kafkad.quota.consumer.byte.rate.default",
    }
)
ONLY_REFUSE = frozenset({"broker.id.generation.enable", "zookeeper.ssl.keystore.type", "zookeeper.ssl.truststore.type"})
"""What they say is done by the configuration itself, as the tests of those that it refuses show."""
GROUP_LIMITS = {
    "group.consumer.min.session.timeout.ms": "1",
    "group.consumer.max.session.timeout.ms": "2000000",
    "group.consumer.min.heartbeat.interval.ms": "1",
    "group.consumer.max.heartbeat.interval.ms": "44000",
    "group.consumer.min.assignment.interval.ms": "1000",
    "group.consumer.max.assignment.interval.ms": "2000000",
}

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
    parts = [part for part in vars(broker).values() if isinstance(part, type) and is_dataclass(part)]
    assert LogConfig in parts
    values = {field.name for part in parts if part is not broker.Texts for field in fields(part)}
    without_effect = {
        name.replace(".", "_") for name, option in TOPIC_TABLE.items() if option.status.support is not Support.WORKING
    }
    for_plugins = {"plugin_configs"}
    assert values - attributes_read() - without_effect - for_plugins == set()


WORKING = sorted(name for name, row in BROKER_TABLE.items() if row.status.support is Support.WORKING)


@pytest.mark.parametrize("name", WORKING)
def test_option_that_works_is_read_outside_of_the_configuration(name: str) -> None:
    """By its name, or as a field of the configuration that another value of the option changes."""
    if name in names_read() | QUOTAS | ONLY_REFUSE or name in GROUP_LIMITS:
        return
    changed = changed_fields(name)
    assert changed, f"another value of {name} changes nothing"
    assert changed <= attributes_read(), f"{name} changes what nobody reads"


@pytest.mark.parametrize("name", sorted(QUOTAS))
def test_quota_limits_clients(name: str) -> None:
    quotas = ClientIdQuotas()
    quotas.configure({name: "1000"})
    assert not quotas.is_unlimited


@pytest.mark.parametrize(("name", "value"), GROUP_LIMITS.items())
def test_limit_of_groups_holds_for_their_own_configurations(name: str, value: str) -> None:
    option = name.removeprefix("group.").replace(".min.", ".").replace(".max.", ".")
    held = [
        [within_limits(broker_config, {option: wanted}) for wanted in ("2", "1000000")]
        for broker_config in (configured(), configured((name, value)))
    ]
    assert held[0] != held[1]


@cache
def trees() -> tuple[ast.AST, ...]:
    """The code that is neither the configuration's own nor a command that only writes options."""
    readers = [path for path in CODE.rglob("*.py") if not {CODE / "config", CODE / "cli"} & set(path.parents)]
    return tuple(ast.parse(path.read_text()) for path in readers)


@cache
def attributes_read() -> frozenset[str]:
    nodes = (node for tree in trees() for node in ast.walk(tree))
    return frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))


@cache
def names_read() -> frozenset[str]:
    """Every text of the code that is no docstring."""
    nodes = [node for tree in trees() for node in ast.walk(tree)]
    documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in documentation)
    return frozenset(node.value for node in texts if isinstance(node.value, str))


def changed_fields(name: str) -> set[str]:
    """The fields of the built configuration that have another value when the option has."""
    before, after = (dict(_fields_of(configured(*pairs))) for pairs in ((), _another(name)))
    return {
        field for part, field in before.keys() | after.keys() if before.get((part, field)) != after.get((part, field))
    }


def _fields_of(part: object) -> Iterator[tuple[tuple[str, str], object]]:
    """Each by its part and its name."""
    assert is_dataclass(part)
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, broker.Texts) or field.name == "values":
            continue
        if is_dataclass(value):
            yield from _fields_of(value)
        else:
            yield (type(part).__name__, field.name), value


def _another(name: str) -> tuple[tuple[str, str], ...]:
    if name in OTHER_VALUES:
        return OTHER_VALUES[name]
    row = BROKER_TABLE[name]
    if row.type is SettingType.BOOLEAN:
        return ((name, "false" if row.default else "true"),)
    if isinstance(row.validator, OneOf | EachOneOf):
        return ((name, next(word for word in row.validator.words if word not in (row.default_text or "").split(","))),)
    if row.type is SettingType.DOUBLE:
        return ((name, "0.25"),)
    if isinstance(row.default, int):
        return ((name, str(row.default - 1 if row.default > 1 << 30 else row.default + 1)),)
    return ((name, "7" if row.type in (SettingType.INT, SettingType.LONG) else "another"),)
