"""Each example plugin in a real broker, installed or in the plugins folder, changes what the broker does."""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually
from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.groups import describe_group

EXAMPLES = Path(__file__).parents[2] / "examples"
MEGABYTE = 1 << 20

NOBODY = """
from kafkad.api import hookimpl

class Nobody:
    name = "nobody"

    def elect(self, assignment, isr, live, context):
        return None

@hookimpl
def kafkad_register_leader_election_strategies():
    return [Nobody()]
"""

FAILS = """
from kafkad.api import hookimpl

class Fails:
    name = "fails"

    def assign(self, members, partitions):
        raise ValueError("no such luck")

@hookimpl
def kafkad_register_group_assignors():
    return [Fails()]
"""


def install(example: str, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip install a copy (building writes beside the sources) where the brokers of this test find it."""
    sources = shutil.copytree(EXAMPLES / example, scratch / "sources")
    target = scratch / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--no-index", "--target", target, sources], check=True, timeout=100)
    monkeypatch.setenv("PYTHONPATH", str(target))


def folder_with(example: str, scratch: Path) -> str:
    """A plugins folder that holds one example."""
    folder = scratch / "plugins"
    folder.mkdir()
    shutil.copy(EXAMPLES / example, folder)
    return str(folder)


def produce(broker: Kafkad, topic: str, client_id: str, values: list[bytes]) -> list[float]:
    """Throttle times in seconds that the client was told of."""
    told: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "throttle_cb": lambda event: told.append(event.throttle_time),
        }
    )
    for value in values:
        producer.produce(topic, value)
        producer.flush(WITHIN_S)
    producer.poll(0.1)
    return told


def create(broker: Kafkad, topic: str, **configs: str) -> None:
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    with BrokerClient(broker.bootstrap) as client:
        client.create_topic(topic, partitions=1, replication_factor=1, configs=dotted)


KEEP = "kafkad.plugin.keep.newest.segments"


def test_keep_newest_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Kafkad(tmp_path / "without") as broker, pytest.raises(BrokerCallFailed, match="keep-newest"):
        create(broker, "kept", cleanup_policy="keep-newest")
    install("keep_newest_segments", tmp_path, monkeypatch)
    often = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "0", KEEP: "4"}
    with Kafkad(tmp_path / "with", {**often, "log.segment.delete.delay.ms": "0"}) as broker:
        small = {"segment_bytes": str(MEGABYTE), "file_delete_delay_ms": "0"}
        create(broker, "kept", cleanup_policy="keep-newest", **small)
        create(broker, "fewer", cleanup_policy="keep-newest", kafkad_plugin_keep_newest_segments="2", **small)
        create(broker, "all", cleanup_policy="delete", segment_bytes=str(MEGABYTE))
        for topic in ("kept", "fewer", "all"):
            produce(broker, topic, "filler", [bytes(600_000)] * 7)
        eventually(lambda: segments(broker, "kept") == 4, what="as many as the broker says are left")
        eventually(lambda: segments(broker, "fewer") == 2, what="as many as the topic says are left")
        assert segments(broker, "all") == 7
        said = "the log starts at 3 now, not at "
        assert any("kept-0" in line and said in line for line in broker.output.read_text().splitlines())


def test_topic_config_of_a_plugin_is_altered_and_shown_with_any_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("keep_newest_segments", tmp_path, monkeypatch)
    with Kafkad(tmp_path / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        create(broker, "kept", cleanup_policy="keep-newest")
        assert (shown(admin).value, shown(admin).is_default) == ("3", True)
        alter(admin, "5")
        assert (shown(admin).value, shown(admin).is_default) == ("5", False)
        with pytest.raises(KafkaException, match=f"Invalid value 0 for configuration {KEEP}: Value must be at least 1"):
            alter(admin, "0")
    with Kafkad(tmp_path / "broker", {"kafkad.plugins.blocked": "keep-newest-segments"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert shown(admin).value == "5", "what is set outlives the plugin"
        produce(broker, "kept", "anybody", [b"and so does the topic"])


def shown(admin: AdminClient) -> ConfigEntry:
    resource = ConfigResource(ResourceType.TOPIC, "kept")
    described: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(WITHIN_S)
    return described[KEEP]


def alter(admin: AdminClient, value: str) -> None:
    entry = ConfigEntry(KEEP, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "kept", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(WITHIN_S)


def segments(broker: Kafkad, topic: str) -> int:
    return len(list((broker.log_dir / f"{topic}-0").glob("*.log")))


def test_rack_election_elects_the_leader_of_a_new_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("rack_election", tmp_path, monkeypatch)
    with Kafkad(tmp_path, {"kafkad.leader.election.strategy": "rack-or-last-replica"}) as broker:
        assert leader_of_a_new_topic(broker) == 1


def test_the_election_strategy_is_who_decides(tmp_path: Path) -> None:
    (tmp_path / "nobody.py").write_text(NOBODY)
    chosen = {"kafkad.plugins.dir": str(tmp_path), "kafkad.leader.election.strategy": "nobody"}
    with Kafkad(tmp_path / "broker", chosen) as broker:
        assert leader_of_a_new_topic(broker) == -1


def leader_of_a_new_topic(broker: Kafkad) -> int:
    create(broker, "led")
    with BrokerClient(broker.bootstrap) as client:
        (topic,) = client.topics(["led"])
    return topic.partitions[0].leader


def test_quota_by_prefix_slows_down_who_has_the_prefix(tmp_path: Path) -> None:
    settings = {
        "kafkad.plugins.dir": folder_with("quota_by_prefix.py", tmp_path),
        "kafkad.quota.manager": "client-id-prefix",
        # Ten seconds' worth are free, a little less than what the first client sends.
        "kafkad.plugin.quota.prefix.batch": "10000",
    }
    with Kafkad(tmp_path / "broker", settings) as broker:
        create(broker, "limited")
        assert produce(broker, "limited", "web-1", [bytes(200_000)]) == []
        assert max(produce(broker, "limited", "batch-1", [bytes(110_000)])) > 0
        assert max(produce(broker, "limited", "batch-2", [bytes(1_000)])) > 0
        assert produce(broker, "limited", "web-2", [bytes(1_000)]) == []


def test_keep_with_first_gives_everything_to_one_member_at_a_time(tmp_path: Path) -> None:
    settings = {
        "kafkad.plugins.dir": folder_with("keep_with_first.py", tmp_path),
        "group.consumer.assignors": "uniform,range,keep-with-first",
        "group.consumer.assignment.interval.ms": "0",
    }
    with Kafkad(tmp_path / "broker", settings) as broker:
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic("undivided", partitions=4, replication_factor=1, configs={})
        first = member(broker, "undivided")
        eventually(lambda: owned(first) == 4, what="the first member has everything")
        second = member(broker, "undivided")
        eventually(lambda: owned(second) == 0 and members(broker) == 2, what="a second one has come")
        assert owned(first) == 4
        first.close()
        eventually(lambda: owned(second) == 4, what="its work goes to the second")
        second.close()


def test_an_assignor_that_fails_costs_its_group_and_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "fails.py").write_text(FAILS)
    settings = {"kafkad.plugins.dir": str(folder), "group.consumer.assignors": "uniform,fails"}
    with Kafkad(tmp_path / "broker", settings) as broker:
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic("divided", partitions=4, replication_factor=1, configs={})
        other = member(broker, "divided", "uniform", group="others")
        eventually(lambda: owned(other) == 4, what="a group with another assignor reads")
        failing = member(broker, "divided", "fails")
        line = "group workers: no new assignment for epoch 2: assignor 'fails' failed in "

        def is_said() -> bool:
            return owned(failing) == 0 and line in broker.output.read_text()

        eventually(is_said, what="the log says so")
        said = broker.output.read_text()
        assert "ValueError('no such luck')" in said
        assert "it is started again" not in said, "no worker has ended"
        assert owned(other) == 4
        failing.close()
        other.close()


def member(broker: Kafkad, topic: str, assignor: str = "keep-with-first", *, group: str = "workers") -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "group.remote.assignor": assignor,
        }
    )
    consumer.subscribe([topic])
    return consumer


def owned(consumer: Consumer) -> int:
    """Partitions that the member has, after another look at the broker."""
    consumer.poll(0.1)
    return len(consumer.assignment())


def members(broker: Kafkad) -> int:
    with BrokerClient(broker.bootstrap) as client:
        return len(describe_group(client, "workers", is_consumer_type=True).members)


def test_csv_metrics_writes_what_the_broker_counts(tmp_path: Path) -> None:
    settings = {
        "kafkad.plugins.dir": folder_with("csv_metrics.py", tmp_path),
        "kafkad.metrics.reporters": "csv",
        "kafka.csv.metrics.dir": str(tmp_path / "metrics"),
        "kafka.metrics.polling.interval.secs": "1",
    }
    with Kafkad(tmp_path / "broker", settings) as broker:
        create(broker, "counted")
        produce(broker, "counted", "counter", [b"one", b"two", b"three"])
        file = tmp_path / "metrics" / "kafka_server_brokertopicmetrics_messagesin.csv"
        eventually(lambda: last_value(file, "topic=counted") == 3, what="the count is in the file")


def last_value(file: Path, labels: str) -> float:
    if not file.exists():
        return 0
    with file.open(newline="") as lines:
        values = [float(row["value"]) for row in csv.DictReader(lines) if row["labels"] == labels]
    return values[-1] if values else 0


def test_a_plugin_that_is_blocked_does_not_keep_the_broker_from_starting(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "broken.py").write_text("raise SystemExit('imported')")
    settings = {"kafkad.plugins.dir": str(folder), "kafkad.plugins.blocked": "broken,broke"}
    with Kafkad(tmp_path / "broker", settings) as broker:
        create(broker, "t")
        assert "kafkad: kafkad.plugins.blocked: there is no plugin broke\n" in broker.output.read_text()
