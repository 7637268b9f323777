"""What is looked at before the next round, and how often?"""

from uuid import UUID

from kafkad.core.controller.deltas import MetadataDelta, TopicConfigChanged, snapshot
from kafkad.core.controller.image import MetadataImage, Topic
from kafkad.processes.cleaner.early_checks import PAUSE_MS, EarlyChecks


def image(**configs: dict[str, str]) -> MetadataImage:
    topics = {
        name: Topic(name=name, id=UUID(int=number), partitions=(), configs=of)
        for number, (name, of) in enumerate(configs.items(), 1)
    }
    return MetadataImage(version=1, topics=topics, names_by_id={topic.id: topic.name for topic in topics.values()})


OLD = image(orders={}, prices={})
NEW = image(orders={}, prices={"retention.ms": "5"})


def test_nothing_is_due_without_a_change() -> None:
    looks = EarlyChecks()
    assert looks.due_ms is None
    looks.topics_changed(MetadataImage(), OLD, snapshot(OLD))
    looks.topics_changed(OLD, OLD, snapshot(OLD))
    assert looks.due_ms is None


def test_topic_whose_configuration_has_changed_is_looked_at_once() -> None:
    looks = EarlyChecks()
    looks.topics_changed(OLD, NEW, MetadataDelta(2, (TopicConfigChanged("prices", {"retention.ms": "5"}),)))
    assert looks.due_ms is not None
    assert looks.take(1000) == ({UUID(int=2)}, set(), ())
    assert looks.due_ms is None


def test_changes_that_were_missed_are_found_in_a_snapshot() -> None:
    looks = EarlyChecks()
    looks.topics_changed(OLD, NEW, snapshot(NEW))
    assert looks.take(1000) == ({UUID(int=2)}, set(), ())


def test_changes_one_after_the_other_are_looked_at_together() -> None:
    looks = EarlyChecks()
    looks.all_changed(OLD)
    assert looks.take(1000) == ({UUID(int=1), UUID(int=2)}, set(), ())
    looks.space_short(0)
    looks.space_short(3)
    assert looks.due_ms == 1000 + PAUSE_MS
    assert looks.take(1000 + PAUSE_MS) == (set(), {0, 3}, ())


def test_what_failed_is_looked_at_when_its_pause_ends() -> None:
    looks = EarlyChecks()
    for topic, partition, until_ms in ((1, 0, 70_000), (1, 1, 65_000), (2, 0, 90_000), (1, 1, 65_000)):
        looks.retry(UUID(int=topic), partition, until_ms)
    assert looks.due_ms == 65_000
    assert looks.take(70_000) == (set(), set(), {(UUID(int=1), 0), (UUID(int=1), 1)})
    assert looks.due_ms == 90_000


def test_a_pause_that_ends_right_after_a_look_waits_for_the_next() -> None:
    looks = EarlyChecks()
    looks.retry(UUID(int=1), 0, 70_000)
    looks.space_short(0)
    looks.take(69_900)
    assert looks.due_ms == 69_900 + PAUSE_MS
