"""Metrics of partitions: what is shown of a log, and of its copy that is on its way to another directory."""

import pytest

from kafkad.core.metrics.metric import Labels
from kafkad.core.metrics.partitions import PartitionReading, partition_families
from kafkad.core.partition_slot import ROLE_LEADER, STATE_ONLINE, PartitionSlot

LOG = PartitionSlot(
    partition=3,
    log_dir=0,
    role=ROLE_LEADER,
    state=STATE_ONLINE,
    log_start=10,
    leo_offset=90,
    size_bytes=8000,
    segment_count=4,
)
COPIED = LOG._replace(future_dir=1, future_end=50, future_bytes=4000)
AT: Labels = (("topic", "t"), ("partition", "3"))
FUTURE: Labels = (("is_future", "true"),)


def _shown(*slots: PartitionSlot, per_partition: bool = True) -> dict[str, dict[Labels, float]]:
    readings = [PartitionReading("t", slot, 0, 0, 0) for slot in slots]
    families = partition_families(readings, per_partition=per_partition)
    return {
        family.name.removeprefix("kafka_log_log_"): {row.labels: row.value for row in family.samples}
        for family in families
        if family.name.startswith("kafka_log_log_")
    }


def test_a_log_that_is_copied_elsewhere_is_shown_beside_its_copy() -> None:
    shown = _shown(COPIED)
    assert shown["size"] == {AT: 8000, (*AT, *FUTURE): 4000}
    assert shown["logstartoffset"] == {AT: 10, (*AT, *FUTURE): 10}
    assert shown["logendoffset"] == {AT: 90, (*AT, *FUTURE): 50}


def test_copies_of_a_topic_are_added_up_by_themselves() -> None:
    shown = _shown(COPIED, COPIED._replace(partition=4), LOG._replace(partition=5), per_partition=False)
    topic: Labels = (("topic", "t"),)
    assert shown["size"] == {topic: 24000, (*topic, *FUTURE): 8000}


@pytest.mark.parametrize("future_dir", [-1, 0])
def test_a_log_that_stays_where_it_is_has_no_copy(future_dir: int) -> None:
    shown = _shown(LOG._replace(future_dir=future_dir))
    assert {labels for rows in shown.values() for labels in rows} == {AT}


def test_a_copy_that_has_not_begun_is_empty() -> None:
    shown = _shown(COPIED._replace(future_end=0, future_bytes=0))
    assert shown["logstartoffset"][(*AT, *FUTURE)] == shown["logendoffset"][(*AT, *FUTURE)] == 0
