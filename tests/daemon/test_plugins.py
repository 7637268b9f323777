"""Each example plugin in a real broker, installed or in the plugins folder, changes what the broker does.

Real, as each kind of plugin runs in another process. One broker has all of them.
"""

import csv
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually
from kafkad.client.broker_client import BrokerClient
from kafkad.client.groups import describe_group

EXAMPLES = Path(__file__).parents[2] / "examples"
MEGABYTE = 1 << 20
KEEP = "kafkad.plugin.keep.newest.segments"

INSTALLED = ("keep_newest_segments", "rack_election")
COPIED = ("quota_by_prefix.py", "keep_with_first.py", "csv_metrics.py")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Copies (building writes beside the sources), installed with pip where the brokers of this module find them."""
    scratch = tmp_path_factory.mktemp("installed")
    sources = [shutil.copytree(EXAMPLES / example, scratch / example) for example in INSTALLED]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--no-index", "--target", scratch / "site", *sources], check=True, timeout=WITHIN_S)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(scratch / "site"))
        yield scratch / "site"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, site: Path) -> Iterator[Kafkad]:
    scratch = tmp_path_factory.mktemp("broker")
    (scratch / "plugins").mkdir()
    for example in COPIED:
        shutil.copy(EXAMPLES / example, scratch / "plugins")
    settings = {
        "kafkad.plugins.dir": str(scratch / "plugins"),
        "kafkad.leader.election.strategy": "rack-or-last-replica",
        "kafkad.quota.manager": "client-id-prefix",
        # Ten seconds' worth are free, a little less than what the first client sends.
        "kafkad.plugin.quota.prefix.batch": "10000",
        "group.consumer.assignors": "uniform,range,keep-with-first",
        "group.consumer.assignment.interval.ms": "0",
        "kafkad.metrics.reporters": "csv",
        "kafka.csv.metrics.dir": str(scratch / "metrics"),
        "kafka.metrics.polling.interval.secs": "1",
        "log.retention.check.interval.ms": "200",
        "log.initial.task.delay.ms": "0",
        "log.segment.delete.delay.ms": "0",
        KEEP: "4",
    }
    with Kafkad(scratch / "broker", settings) as running:
        yield running


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


def test_keep_newest_segments(broker: Kafkad) -> None:
    small = {"segment_bytes": str(MEGABYTE), "file_delete_delay_ms": "0"}
    create(broker, "kept", cleanup_policy="keep-newest", **small)
    create(broker, "fewer", cleanup_policy="keep-newest", kafkad_plugin_keep_newest_segments="2", **small)
    create(broker, "all", cleanup_policy="delete", segment_bytes=str(MEGABYTE))
    for topic in ("kept", "fewer", "all"):
        produce(broker, topic, "filler", [bytes(600_000)] * 7)
    eventually(lambda: segments(broker, "kept") == 4, what="as many as the broker says are left")
    eventually(lambda: segments(broker, "fewer") == 2, what="as many as the topic says are left")
    assert segments(broker, "all") == 7
    said = " to 3: "
    lines = broker.output.read_text().splitlines()
    assert any("kept-0: log start offset increased from " in line and said in line for line in lines)


@pytest.mark.usefixtures("site")
def test_topic_config_of_a_plugin_is_altered_and_shown_with_any_client(tmp_path: Path) -> None:
    with Kafkad(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        create(broker, "kept", cleanup_policy="keep-newest")
        assert (shown(admin).value, shown(admin).is_default) == ("3", True)
        alter(admin, "5")
        assert (shown(admin).value, shown(admin).is_default) == ("5", False)
        with pytest.raises(KafkaException, match=f"Invalid value 0 for configuration {KEEP}: Value must be at least 1"):
            alter(admin, "0")
    with Kafkad(tmp_path, {"kafkad.plugins.blocked": "keep-newest-segments,broke"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert shown(admin).value == "5", "what is set outlives the plugin"
        produce(broker, "kept", "anybody", [b"and so does the topic"])
        assert "kafkad: kafkad.plugins.blocked: plugin broke does not exist\n" in broker.output.read_text()


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


def test_rack_election_elects_the_leader_of_a_new_topic(broker: Kafkad) -> None:
    create(broker, "led")
    with BrokerClient(broker.bootstrap) as client:
        (topic,) = client.topics(["led"])
    assert topic.partitions[0].leader == 1


def test_quota_by_prefix_slows_down_who_has_the_prefix(broker: Kafkad) -> None:
    create(broker, "limited")
    assert produce(broker, "limited", "web-1", [bytes(200_000)]) == []
    assert max(produce(broker, "limited", "batch-1", [bytes(900_000)])) > 0
    assert max(produce(broker, "limited", "batch-2", [bytes(1_000)])) > 0
    assert produce(broker, "limited", "web-2", [bytes(1_000)]) == []


def test_keep_with_first_gives_everything_to_one_member_at_a_time(broker: Kafkad) -> None:
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


def member(broker: Kafkad, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "workers",
            "group.protocol": "consumer",
            "group.remote.assignor": "keep-with-first",
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


def test_csv_metrics_writes_what_the_broker_counts(broker: Kafkad) -> None:
    create(broker, "counted")
    produce(broker, "counted", "counter", [b"one", b"two", b"three"])
    file = Path(broker.overrides["kafka.csv.metrics.dir"], "kafka_server_brokertopicmetrics_messagesin.csv")
    eventually(lambda: last_value(file, "topic=counted") == 3, what="the count is in the file")


def last_value(file: Path, labels: str) -> float:
    if not file.exists():
        return 0
    with file.open(newline="") as lines:
        values = [float(row["value"]) for row in csv.DictReader(lines) if row["labels"] == labels]
    return values[-1] if values else 0
