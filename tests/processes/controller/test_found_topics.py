"""A broker that finds topics of which it knows nothing in its log directories, as those of Apache Kafka."""

from pathlib import Path

import pytest

from kafkad.config.entities.topic import topic_log_config
from kafkad.core.controller.startup.repair import UNLIMITED_RETENTION
from tests.config.configurations import configured
from tests.processes.controller.opened import make, started

INTERNAL = "__consumer_offsets"


def test_topics_that_are_on_disk_only_are_named_in_one_warning_and_kept_for_ever(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for place, topic in (("one/orders-0", 7), ("two/orders-1", 7), ("one/sales-0", 8), (f"two/{INTERNAL}-0", 9)):
        make(tmp_path / place, topic)

    def warnings() -> list[str]:
        return [row.getMessage() for row in caplog.records if "on disk only" in row.getMessage()]

    with started(tmp_path) as first:
        (line,) = warnings()
        named, _, rest = line.removeprefix("3 topic(s) were on disk only and are taken over: ").partition(". ")
        topics = first.hosting.image.topics
        internal = len(topics[INTERNAL].partitions)
        wanted = [f"{INTERNAL} ({internal} partition(s))", "orders (2 partition(s))", "sales (1 partition(s))"]
        assert sorted(named.split(", ")) == wanted
        assert rest.startswith("Their records are kept for ever, but those of internal topics")
        assert {name: topics[name].configs for name in ("orders", "sales")} == dict.fromkeys(
            ("orders", "sales"), UNLIMITED_RETENTION
        )
        assert topics[INTERNAL].configs["cleanup.policy"] == "compact"
    caplog.clear()
    with started(tmp_path):
        assert warnings() == [], "they are known now"


def test_nothing_is_removed_from_them_by_a_broker_whose_default_is_to_compact() -> None:
    broker = configured(("log.cleanup.policy", "compact"), ("log.retention.ms", "1000"))
    config = topic_log_config(broker, UNLIMITED_RETENTION)
    kept = frozenset({"delete"}), -1, -1
    assert (config.cleanup_policy, config.retention_ms, config.retention_bytes) == kept
