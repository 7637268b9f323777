"""kafka-consumer-groups prints the same about offsets on kafkad as on Apache Kafka, and has the same effects."""

from collections.abc import Callable

import pytest

from tests.compat.group_members import Member, produce
from tests.compat.side_by_side import Tools

NewTopic = Callable[[str], str]
_GROUPS = "kafka-consumer-groups"


@pytest.fixture
def topic(tools: Tools, new_topic: NewTopic) -> str:
    """Three partitions, four records in the first."""
    name = tools.create(new_topic("tool"), "--partitions", "3")
    for broker in tools.brokers:
        produce(broker.bootstrap, name, b"a", b"b", b"c", b"d")
    return name


def _reset(tools: Tools, group: str, *args: str) -> str:
    return tools.agree(_GROUPS, "--reset-offsets", "--group", group, *args)


def test_offsets_are_reset_in_every_way(tools: Tools, topic: str) -> None:
    group = f"{topic}-group"
    assert "4" in _reset(tools, group, "--topic", topic, "--to-latest", "--execute")
    tools.agree(_GROUPS, "--describe", "--group", group)
    _reset(tools, group, "--topic", f"{topic}:0", "--shift-by", "-3", "--execute")
    for scenario in (
        ("--to-earliest",),
        ("--to-current",),
        ("--to-offset", "2"),
        ("--shift-by", "100"),
        ("--to-datetime", "2020-01-01T00:00:00.000"),
        ("--by-duration", "PT1H"),
    ):
        _reset(tools, group, "--all-topics", *scenario, "--dry-run")
    _reset(tools, group, "--topic", topic, "--to-earliest", "--export", "--dry-run")
    assert f"{topic:<15} 0          1 " in tools.agree(_GROUPS, "--describe", "--group", group)


def test_groups_without_members_are_described_and_deleted(tools: Tools, topic: str) -> None:
    group = f"{topic}-group"
    _reset(tools, group, "--topic", topic, "--to-latest", "--execute")
    for flag in ("--offsets", "--members", "--state", "--verbose"):
        tools.agree(_GROUPS, "--describe", "--group", group, flag)
    tools.agree(_GROUPS, "--delete", "--group", group)
    ours, theirs = tools.both(_GROUPS, "--delete", "--group", group)
    assert ours == theirs
    ours, theirs = tools.both(_GROUPS, "--describe", "--group", group)
    assert ours == theirs


def test_offsets_of_single_partitions_are_deleted(tools: Tools, topic: str) -> None:
    group = f"{topic}-group"
    _reset(tools, group, "--topic", topic, "--to-latest", "--execute")
    tools.agree(_GROUPS, "--delete-offsets", "--group", group, "--topic", f"{topic}:0,1")
    tools.agree(_GROUPS, "--describe", "--group", group)
    for args in (("--group", group, "--topic", "nothing"), ("--group", "nobody", "--topic", topic)):
        ours, theirs = tools.both(_GROUPS, "--delete-offsets", *args)
        assert ours == theirs


def test_group_with_members_is_left_alone(tools: Tools, topic: str) -> None:
    group = f"{topic}-group"
    ours, theirs = tools.brokers
    with Member(ours.bootstrap, group, topic), Member(theirs.bootstrap, group, topic):
        for args in (
            ("--delete", "--group", group),
            ("--delete-offsets", "--group", group, "--topic", topic),
            ("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute"),
        ):
            our_words, their_words = tools.both(_GROUPS, *args)
            assert our_words == their_words
        tools.agree(_GROUPS, "--describe", "--group", group, "--state")
