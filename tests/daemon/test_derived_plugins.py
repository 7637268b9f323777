"""Plugins may derive from every class of kafkad.api and of the built-in plugins, also where the broker is compiled.

It needs real processes, as only those run what is compiled; one broker has all objects.
"""

import os
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers.processes import WITHIN_S, eventually
from kafkad import native
from tests.daemon.derived_plugin import EVEN, NOTES
from tests.daemon.served import Served

PLUGIN = Path(__file__).parent / "derived_plugin.py"
SMALL = {"segment.bytes": str(1 << 20), "file.delete.delay.ms": "0"}


class Plugged:
    """A broker in which the derived objects are the ones in use."""

    def __init__(self, folder: Path) -> None:
        self._notes = folder / "notes"
        plugins = folder / "plugins"
        plugins.mkdir()
        shutil.copy(PLUGIN, plugins)
        settings = {
            "kafkad.plugins.dir": str(plugins),
            NOTES: str(self._notes),
            "kafkad.leader.election.strategy": "derived",
            "kafkad.quota.manager": "derived",
            "kafkad.replication.quota.manager": "derived",
            "leader.replication.throttled.rate": "1000",
            "replica.selector.class": "derived",
            "kafkad.metrics.reporters": "prometheus,derived",
            "kafka.metrics.polling.interval.secs": "1",
            "group.consumer.assignors": "derived,uniform",
            "log.retention.check.interval.ms": "100",
            "log.cleaner.backoff.ms": "50",
            "log.initial.task.delay.ms": "0",
        }
        self.served = Served(folder / "broker", settings)

    @property
    def bootstrap(self) -> str:
        return self.served.broker.bootstrap

    def notes(self) -> set[str]:
        return set(self._notes.read_text().split()) if self._notes.exists() else set()

    def wait_for(self, note: str) -> None:
        eventually(lambda: note in self.notes(), what=f"the plugin's {note} is called")

    def create(self, topic: str, **configs: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        config = SMALL | {name.replace("_", "."): value for name, value in configs.items()}
        new = NewTopic(topic, num_partitions=1, replication_factor=1, config=config)
        admin.create_topics([new])[topic].result(WITHIN_S)

    def produce(self, topic: str, count: int) -> list[float]:
        """The throttle times that the client was told."""
        told: list[float] = []
        throttled = {"throttle_cb": lambda event: told.append(event.throttle_time)}
        producer = Producer({"bootstrap.servers": self.bootstrap, "client.id": "any", **throttled})
        for _ in range(count):
            producer.produce(topic, os.urandom(600_000), key="same")
            assert producer.flush(WITHIN_S) == 0
        producer.poll(0)
        return told


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugged]:
    plugged = Plugged(tmp_path_factory.mktemp("derived"))
    with plugged.served:
        yield plugged
    assert "stopping" in plugged.notes()
    assert plugged.served.lines("; restarting it in ") == []


def test_the_broker_is_the_one_that_is_meant(plugged: Plugged) -> None:
    """A daemon that quietly ran interpreted would prove nothing about the compiled one."""
    (line,) = plugged.served.lines("interpreted") + plugged.served.lines("compiled")
    assert os.environ.get("KAFKAD_TESTED", native.mode()) in line


def test_what_retention_lets_go_is_handed_over(plugged: Plugged) -> None:
    plugged.create("handed", cleanup_policy="derived-delete", retention_bytes="1000000")
    plugged.produce("handed", 4)
    plugged.wait_for("segment")


def test_a_log_is_compacted_with_a_filter_of_the_plugin(plugged: Plugged) -> None:
    plugged.create("compacted", cleanup_policy="derived-compact", min_cleanable_dirty_ratio="0.01")
    plugged.produce("compacted", 4)
    plugged.wait_for("filter")
    eventually(lambda: plugged.served.lines("compacted-0"), what="it is told in the log")


def test_a_leader_is_elected(plugged: Plugged) -> None:
    plugged.create("led")
    led = AdminClient({"bootstrap.servers": plugged.bootstrap}).list_topics("led", WITHIN_S).topics["led"]
    assert led.partitions[0].leader == 1
    assert "elect" in plugged.notes()


def test_a_group_is_assigned(plugged: Plugged) -> None:
    plugged.create("assigned")
    consumer = Consumer({"bootstrap.servers": plugged.bootstrap, "group.id": "g", "group.protocol": "consumer"})
    consumer.subscribe(["assigned"])

    def has_it() -> bool:
        consumer.poll(0.1)
        return len(consumer.assignment()) == 1

    eventually(has_it, what="the member has the partition")
    consumer.close()
    assert "assign" in plugged.notes()


def test_a_leader_is_asked_where_to_read_and_replication_is_limited(plugged: Plugged) -> None:
    plugged.create("read")
    plugged.produce("read", 1)
    consumer = Consumer({"bootstrap.servers": plugged.bootstrap, "group.id": "r", "client.rack": "a"})
    consumer.assign([TopicPartition("read", 0, 0)])
    eventually(lambda: consumer.poll(0.1) or "select" in plugged.notes(), what="select is called")
    consumer.close()
    assert "replication-leader-False" in plugged.notes()


def test_a_client_is_throttled(plugged: Plugged) -> None:
    plugged.create("limited")
    assert max(plugged.produce("limited", 3)) == 0.1
    assert {"produce", "throttle"} <= plugged.notes()


def test_metrics_are_reported_and_have_a_page(plugged: Plugged) -> None:
    plugged.wait_for("report")
    page = f"http://127.0.0.1:{plugged.served.metrics_port}/derived"
    with urllib.request.urlopen(page, timeout=WITHIN_S) as answer:
        assert answer.read() == b"True"
    assert "started" in plugged.notes()


def test_a_topic_config_is_checked(plugged: Plugged) -> None:
    with pytest.raises(KafkaException, match="Value must be even"):
        plugged.create("odd", **{EVEN.replace(".", "_"): "5"})
    plugged.create("even", **{EVEN.replace(".", "_"): "6"})
