"""kafka-features and kafka-configs for groups: what they print, and what changes, beside Apache Kafka."""

from collections.abc import Iterator

import pytest

from tests.compat.side_by_side import Printed, Tools

_OURS = ("group.version", "transaction.version")


@pytest.fixture
def levels(tools: Tools) -> Iterator[Tools]:
    """Whatever a test does to them, the features are as before when it is over."""
    yield tools
    for feature in ("group.version=1", "transaction.version=2"):
        tools.both("kafka-features", "upgrade", "--feature", feature)


def _levels(printed: Printed) -> list[list[str]]:
    """The columns of the features that kafkad has, without the epoch, which counts other things in Apache Kafka."""
    rows = [line.split() for line in printed.out.splitlines()]
    return [row[: row.index("Epoch:")] for row in rows if len(row) > 1 and row[1] in _OURS]


def _same_levels(tools: Tools) -> list[list[str]]:
    ours, theirs = tools.both("kafka-features", "describe")
    assert _levels(ours) == _levels(theirs)
    assert len(_levels(ours)) == len(_OURS), ours
    return _levels(ours)


def test_features_are_described_alike(levels: Tools) -> None:
    finalized = {row[1]: row[row.index("FinalizedVersionLevel:") + 1] for row in _same_levels(levels)}
    assert finalized == {"group.version": "1", "transaction.version": "2"}


@pytest.mark.parametrize("feature", ["group.version", "transaction.version"])
def test_a_feature_goes_down_and_up_again(levels: Tools, feature: str) -> None:
    before = _same_levels(levels)
    levels.agree("kafka-features", "downgrade", "--feature", f"{feature}=0")
    assert _same_levels(levels) != before
    level = "1" if feature == "group.version" else "2"
    levels.agree("kafka-features", "upgrade", "--feature", f"{feature}={level}")
    assert _same_levels(levels) == before


@pytest.mark.parametrize("wanted", ["transaction.version=9", "group.version=2", "no.such.feature=1"])
def test_a_level_that_is_not_there_is_refused(levels: Tools, wanted: str) -> None:
    ours, theirs = levels.both("kafka-features", "upgrade", "--feature", wanted)
    assert ours.code == theirs.code == 1
    assert _same_levels(levels)


def test_a_group_gets_settings_of_its_own(tools: Tools) -> None:
    group = ("--entity-type", "groups", "--entity-name", "configured/1")
    tools.agree("kafka-configs", *group, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in tools.agree("kafka-configs", *group, "--describe")
    for wrong in ("consumer.session.timeout.ms=5", "consumer.heartbeat.interval.ms=90000", "nosuch=1"):
        ours, theirs = tools.both("kafka-configs", *group, "--alter", "--add-config", wrong)
        assert ours == theirs
        assert ours.code == 1
    tools.agree("kafka-configs", *group, "--alter", "--delete-config", "consumer.session.timeout.ms")
    assert "50000" not in tools.agree("kafka-configs", *group, "--describe")
