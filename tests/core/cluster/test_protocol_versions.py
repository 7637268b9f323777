"""Versions between brokers are those that Apache Kafka 3.9.1 was seen to use, and none changes backwards."""

from itertools import pairwise

import pytest

from kafkad.core.cluster.protocol_versions import LEVELS, ProtocolVersions, level_of, protocol_versions


def test_the_newest_level_is_that_of_apache_kafka_3_9() -> None:
    assert protocol_versions("3.9-IV0") == ProtocolVersions(
        leader_and_isr=7,
        update_metadata=8,
        stop_replica=4,
        fetch=17,
        list_offsets=9,
        alter_partition=3,
        verifies=True,
    )


def test_the_oldest_level_is_that_of_apache_kafka_2_8() -> None:
    assert protocol_versions("2.8") == ProtocolVersions(
        leader_and_isr=5,
        update_metadata=7,
        stop_replica=3,
        fetch=12,
        list_offsets=6,
        alter_partition=0,
        verifies=False,
    )


def test_no_version_falls_with_a_newer_level() -> None:
    versions = [protocol_versions(level) for level in LEVELS]
    for older, newer in pairwise(versions):
        assert all(before <= after for before, after in zip(older, newer, strict=True))


@pytest.mark.parametrize(
    ("setting", "level"),
    [("3.9", "3.9-IV0"), ("3.5.1", "3.5-IV2"), ("2.8-IV1", "2.8-IV1"), ("3.3-IV2", "3.3-IV2")],
)
def test_a_release_means_its_last_level(setting: str, level: str) -> None:
    assert level_of(setting) == level


@pytest.mark.parametrize("setting", ["", "2.7", "2.8-IV0", "3.9-IV1", "4.0", "3", "3.", "3.x", "3.9-", "3.9.1.1"])
def test_other_settings_have_none(setting: str) -> None:
    assert level_of(setting) is None
    with pytest.raises(ValueError, match=r"2\.8-IV1 to 3\.9-IV0"):
        protocol_versions(setting)
