"""Which logs are looked at for compaction, and when again?"""

from uuid import UUID

from kafkad.core.cleanup import CleanupPolicy
from kafkad.core.controller.deltas import snapshot
from kafkad.core.controller.image import MetadataImage, Partition, Topic
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot
from kafkad.plugins.compaction import Compaction
from kafkad.plugins.retention import Retention
from kafkad.processes.cleaner.early_checks import EarlyChecks
from kafkad.processes.cleaner.log_states import LogKey
from kafkad.processes.cleaner.planning import PlannedRewrite, Planner, TopicSettings
from kafkad.wire.processes.descriptors import CleanupOrdered, SegmentRow, SegmentsOf
from tests.config.configurations import configured

ID = UUID(int=7)
SLOT = 4
CONFIG = configured()
NOW = 1_700_000_000_000


class OneSlot:
    """A partition table with one slot."""

    def __init__(self, slot: PartitionSlot) -> None:
        self.slot = slot

    def read(self, slot: int) -> PartitionSlot:
        return self.slot


def planner_of(policies: dict[str, CleanupPolicy], table: OneSlot) -> Planner:
    return Planner(policies, table, cleaners=1, index=0, topic_configs={}, early_checks=EarlyChecks())


class Looks:
    """A planner with one compacted log, of which the test says what its owner has published."""

    def __init__(self) -> None:
        self._table = OneSlot(
            PartitionSlot(
                topic_id=ID.bytes,
                state=STATE_ONLINE,
                segment_count=2,
                size_bytes=1000,
                leo_segment=10,
                recovery_point=10,
            )
        )
        self.wanted: set[LogKey] = set()
        self.planner = planner_of({"compact": Compaction()}, self._table)
        row = Partition(
            index=0, slot=SLOT, owner=0, log_dir=0, leader=1, leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,)
        )
        topic = Topic(name="t", id=ID, partitions=(row,), configs={"cleanup.policy": "compact"})
        image = MetadataImage(version=1, topics={"t": topic}, names_by_id={ID: "t"})
        self.planner.apply(image, snapshot(image))

    @property
    def slot(self) -> PartitionSlot:
        return self._table.slot

    @slot.setter
    def slot(self, slot: PartitionSlot) -> None:
        self._table.slot = slot

    def look(self) -> bool:
        """Whether the owner is asked for the segments of the log."""
        return bool(self.planner.begin_compaction_check(CONFIG, lambda key: key in self.wanted))

    def describe(self, *, cleanable_end: int) -> None:
        """The owner answers: one segment before the active one, which begins at 10."""
        rows = [SegmentRow(0, 900, NOW, NOW, False, NOW), SegmentRow(10, 100, NOW, NOW, True, NOW)]
        list(self.planner.plan(SegmentsOf(SLOT, 0, 12, 12, cleanable_end, -1, rows), CONFIG, NOW))


def test_a_log_that_has_not_moved_is_not_looked_at_again() -> None:
    looks = Looks()
    assert looks.look()
    looks.describe(cleanable_end=10)
    assert not looks.look()
    # Somebody syncs the active segment, which no pass can read.
    looks.slot = looks.slot._replace(recovery_point=12)
    assert not looks.look()


def test_a_log_that_has_not_moved_is_looked_at_when_it_is_time() -> None:
    looks = Looks()
    assert looks.look()
    looks.describe(cleanable_end=10)
    looks.wanted = {LogKey(ID, 0, 0)}
    assert looks.look()


def test_a_log_whose_markers_were_not_on_disk_is_looked_at_when_they_are() -> None:
    looks = Looks()
    assert looks.look()
    looks.describe(cleanable_end=3)
    assert not looks.look()
    looks.slot = looks.slot._replace(recovery_point=12)
    assert looks.look()


def _planned(cleanup_policy: str, *, is_cleaner_enabled: str) -> list[type]:
    """What is ordered, in a round, for a log with one old segment before the active one."""
    broker = configured(("log.cleaner.enable", is_cleaner_enabled))
    slot = PartitionSlot(
        topic_id=ID.bytes, state=STATE_ONLINE, segment_count=2, size_bytes=1000, leo_segment=10, recovery_point=10
    )
    policies: dict[str, CleanupPolicy] = {"compact": Compaction(), "delete": Retention()}
    planner = planner_of(policies, OneSlot(slot))
    row = Partition(
        index=0, slot=SLOT, owner=0, log_dir=0, leader=1, leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,)
    )
    configs = {"cleanup.policy": cleanup_policy, "retention.ms": "1000"}
    topic = Topic(name="t", id=ID, partitions=(row,), configs=configs)
    image = MetadataImage(version=1, topics={"t": topic}, names_by_id={ID: "t"})
    planner.apply(image, snapshot(image))
    planner.begin_round(broker)
    old = NOW - 10_000
    rows = [SegmentRow(0, 900, old, old, False, old), SegmentRow(10, 100, NOW, NOW, True, NOW)]
    described = SegmentsOf(SLOT, 0, 12, 12, 10, -1, rows)
    orders = planner.plan(described, broker, NOW)
    return [type(order) for order in orders if isinstance(order, PlannedRewrite | CleanupOrdered)]


def test_nothing_is_compacted_without_the_cleaner() -> None:
    assert _planned("compact", is_cleaner_enabled="true") == [PlannedRewrite]
    assert _planned("compact", is_cleaner_enabled="false") == []


def test_nothing_is_deleted_from_a_compacted_topic_without_the_cleaner() -> None:
    assert CleanupOrdered in _planned("compact,delete", is_cleaner_enabled="true")
    assert _planned("compact,delete", is_cleaner_enabled="false") == []


def test_retention_deletes_from_other_topics_without_the_cleaner() -> None:
    assert _planned("delete", is_cleaner_enabled="false") == [CleanupOrdered]


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
