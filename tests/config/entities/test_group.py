"""The configuration of groups: Kafka's names over the broker's options, within the broker's limits."""

import pytest

from kafkad.config import load
from kafkad.config.describe import ConfigSource
from kafkad.config.entities.group import GROUP_TABLE, describe_group, validate_group_configs, within_limits
from kafkad.config.problems import InvalidConfiguration
from kafkad.core.errors import ErrorCode, KafkaError

BROKER = load(None, [("group.consumer.heartbeat.interval.ms", "6000")])


def test_an_option_of_a_group_stands_over_that_of_the_broker() -> None:
    described = {each.name: each for each in describe_group(BROKER, {"consumer.session.timeout.ms": "50000"})}
    assert described.keys() == GROUP_TABLE.keys()
    own = described["consumer.session.timeout.ms"]
    assert (own.value, own.source) == ("50000", ConfigSource.DYNAMIC_GROUP)
    assert ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT) in own.synonyms
    inherited = described["consumer.heartbeat.interval.ms"]
    assert (inherited.value, inherited.source) == ("6000", ConfigSource.STATIC_BROKER)


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"nosuch": "1"}, "Unknown group config name: nosuch"),
        ({"consumer.session.timeout.ms": "much"}, "consumer.session.timeout.ms"),
        ({"consumer.session.timeout.ms": "44999"}, "greater than or equal to group.consumer.min.session.timeout.ms"),
        ({"consumer.session.timeout.ms": "60001"}, "less than or equal to group.consumer.max.session.timeout.ms"),
        ({"consumer.heartbeat.interval.ms": "4999"}, "group.consumer.min.heartbeat.interval.ms"),
    ],
)
def test_what_the_broker_does_not_allow_is_refused(configs: dict[str, str], said: str) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        validate_group_configs(BROKER, configs)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_what_it_allows_passes() -> None:
    validate_group_configs(BROKER, {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000"})


def test_what_the_brokers_limits_have_come_to_exclude_is_held_at_the_limit() -> None:
    strict = load(
        None,
        [
            ("group.consumer.min.assignment.interval.ms", "500"),
            ("group.consumer.max.assignment.interval.ms", "2000"),
        ],
    )
    name = "consumer.assignment.interval.ms"
    held = [within_limits(strict, {name: text})[name] for text in ("0", "700", "15000")]
    assert held == ["500", "700", "2000"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("group.consumer.assignment.interval.ms", "15001", "less than or equal to group.consumer.max.assignment"),
        ("group.consumer.min.assignment.interval.ms", "1001", "greater than or equal to group.consumer.min.assignment"),
        ("group.consumer.max.session.timeout.ms", "44999", "greater than or equal to group.consumer.min.session"),
        ("group.consumer.heartbeat.interval.ms", "4999", "greater than or equal to group.consumer.min.heartbeat"),
    ],
)
def test_a_broker_keeps_its_own_limits(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidConfiguration, match=said):
        load(None, [(name, value)])
