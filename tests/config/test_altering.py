"""The tables as the controller's config rules ask for them."""

import pytest

from kafkad.config.altering import ConfigTables
from kafkad.core.controller.configs import ConfigRules, ResourceType
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.settings.option import SettingType
from kafkad.core.settings.topic_config import TopicConfig, setting_of
from tests.config.configurations import configured

RULES: ConfigRules = ConfigTables(
    broker=configured(("log.cleanup.policy", "compact")),
    cleanup_policies=frozenset({"archive"}),
    topic_configs={
        "kafkad.plugin.places": setting_of(
            TopicConfig(
                name="kafkad.plugin.places", type=SettingType.LIST, default=("a", "b"), documentation="Where to."
            )
        )
    },
)


@pytest.mark.parametrize(
    ("resource_type", "key", "expected"),
    [
        (ResourceType.TOPIC, "cleanup.policy", True),
        (ResourceType.TOPIC, "retention.ms", False),
        (ResourceType.TOPIC, "log.dirs", False),
        (ResourceType.TOPIC, "kafkad.plugin.places", True),
        (ResourceType.BROKER, "log.cleanup.policy", True),
        (ResourceType.BROKER, "nosuch", False),
    ],
)
def test_only_lists_can_be_appended_to(resource_type: ResourceType, key: str, expected: bool) -> None:
    assert RULES.is_list(resource_type, key) is expected


@pytest.mark.parametrize(
    ("resource_type", "key", "expected"),
    [
        (ResourceType.TOPIC, "cleanup.policy", "compact"),
        (ResourceType.TOPIC, "leader.replication.throttled.replicas", ""),
        (ResourceType.TOPIC, "kafkad.plugin.places", "a,b"),
        (ResourceType.BROKER, "log.cleanup.policy", "delete"),
        (ResourceType.BROKER, "nosuch", None),
    ],
)
def test_appending_starts_from_what_is_inherited(resource_type: ResourceType, key: str, expected: str | None) -> None:
    assert RULES.default_value(resource_type, key) == expected


def test_policy_of_a_plugin_is_accepted() -> None:
    RULES.validate_topic({"cleanup.policy": "archive", "kafkad.plugin.places": "c"})


@pytest.mark.parametrize("per_broker", [True, False])
def test_policy_of_a_plugin_may_be_that_of_all_topics(per_broker: bool) -> None:
    RULES.validate_broker({"log.cleanup.policy": "archive,compact"}, per_broker=per_broker)
    with pytest.raises(KafkaError) as error:
        RULES.validate_broker({"log.cleanup.policy": "delete,nosuch"}, per_broker=per_broker)
    assert error.value.code is ErrorCode.INVALID_REQUEST
    assert error.value.message == (
        "Invalid value nosuch for configuration log.cleanup.policy: String must be one of: compact, delete"
    )


def test_refusals_carry_kafkas_codes() -> None:
    with pytest.raises(KafkaError) as topic:
        RULES.validate_topic({"nosuch": "1"})
    with pytest.raises(KafkaError) as broker:
        RULES.validate_broker({"broker.id": "1"}, per_broker=False)
    assert (topic.value.code, broker.value.code) == (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
