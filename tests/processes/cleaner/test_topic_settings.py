"""When are the settings of a topic read anew?"""

from uuid import UUID

from kafkad.core.controller.image import Topic
from kafkad.processes.cleaner.topic_settings import TopicSettings
from tests.config.configurations import configured

BROKER = configured(("log.dirs", "/x"))


def topic(configs: dict[str, str], number: int = 1) -> Topic:
    return Topic(name="orders", id=UUID(int=number), partitions=(), configs=configs)


def test_settings_are_read_once_for_all_rounds() -> None:
    settings, orders = TopicSettings({}), topic({"retention.ms": "5"})
    first = settings.of(orders, BROKER)
    assert first.retention_ms == 5
    assert settings.of(orders, BROKER) is first


def test_settings_are_read_again_when_the_topic_is_configured() -> None:
    settings = TopicSettings({})
    settings.of(topic({"retention.ms": "5"}), BROKER)
    assert settings.of(topic({"retention.ms": "6"}), BROKER).retention_ms == 6


def test_settings_are_read_again_when_the_broker_is_configured() -> None:
    settings, orders = TopicSettings({}), topic({"retention.ms": "5"})
    assert settings.of(orders, BROKER).retention_bytes == -1
    other = configured(("log.dirs", "/x"), ("log.retention.bytes", "7"))
    assert settings.of(orders, other).retention_bytes == 7


def test_topic_made_anew_has_settings_of_its_own() -> None:
    settings = TopicSettings({})
    settings.of(topic({"retention.ms": "5"}), BROKER)
    assert settings.of(topic({}, number=2), BROKER) is BROKER.log


def test_settings_of_topics_that_are_gone_are_forgotten() -> None:
    settings, orders = TopicSettings({}), topic({"retention.ms": "5"})
    first = settings.of(orders, BROKER)
    settings.keep({orders.id})
    assert settings.of(orders, BROKER) is first
    settings.keep(set())
    assert settings.of(orders, BROKER) is not first


def test_a_topic_with_a_value_that_nobody_can_read_is_left_alone() -> None:
    settings = TopicSettings({})
    assert settings.of(topic({"retention.ms": "abc"}), BROKER).cleanup_policy == frozenset()
    assert settings.of(topic({"nonsense": "abc"}), BROKER).cleanup_policy == {"delete"}
