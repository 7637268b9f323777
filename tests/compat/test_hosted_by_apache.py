"""A broker in a cluster on ZooKeeper whose controller is Apache Kafka 3.9: it hosts what that controller says."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]
from kafka.admin import KafkaAdminClient, NewTopic  # type: ignore[import-untyped]
from kazoo.client import KazooClient

from bench.brokers.apache_on_zookeeper import ApacheKafkaOnZookeeper
from bench.brokers.processes import WITHIN_S, eventually
from bench.brokers.zookeeper import ZookeeperServer
from tests.daemon.cluster_broker import KafkadInCluster

_ON_TWO_BROKERS = {"offsets.topic.replication.factor": "2", "transaction.state.log.replication.factor": "2"}


class MixedCluster:
    """Broker 1 is Apache Kafka, which is the controller; broker 2 is ours. All speak the same `protocol`."""

    def __init__(
        self,
        folder: Path,
        ends: ExitStack,
        apache: type[ApacheKafkaOnZookeeper] = ApacheKafkaOnZookeeper,
        protocol: str = "3.9",
    ) -> None:
        (folder / "zookeeper").mkdir()
        self._server = ZookeeperServer(folder / "zookeeper")
        ends.callback(self._server.stop)
        hosts = f"{self._server.hosts}/kafka"
        # Leaders stay where the tests put them: a controller moves them five seconds after its election otherwise.
        speaks = {"inter.broker.protocol.version": protocol, "auto.leader.rebalance.enable": "false"}
        self.apache = ends.enter_context(apache(folder / "apache", hosts, speaks))
        settings = {"zookeeper.connect": hosts, "node.id": "2", "num.io.threads": "2", **_ON_TWO_BROKERS, **speaks}
        self.kafkad = ends.enter_context(KafkadInCluster(folder / "kafkad", settings))
        self.zookeeper = KazooClient(hosts)
        self.zookeeper.start()
        ends.callback(self.zookeeper.close)
        ends.callback(self.zookeeper.stop)
        self.wait_until_registered()

    def wait_until_registered(self) -> None:
        eventually(lambda: self.zookeeper.exists("/brokers/ids/2") is not None, what="broker 2 is registered")
        eventually(lambda: self.brokers(self.kafkad.bootstrap) == {1, 2}, what="it knows both")

    def brokers(self, bootstrap: str) -> set[int]:
        """As Metadata names them: kafka-python can't read what a 2.8 answers to DescribeCluster."""
        return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=WITHIN_S).brokers)

    def create(self, name: str, assignments: dict[int, list[int]], configs: dict[str, str] | None = None) -> None:
        client = KafkaAdminClient(bootstrap_servers=self.apache.bootstrap)
        try:
            client.create_topics(
                [
                    NewTopic(
                        name,
                        num_partitions=-1,
                        replication_factor=-1,
                        replica_assignments=assignments,
                        topic_configs=configs,
                    )
                ]
            )
        finally:
            client.close()

    def delete(self, name: str) -> None:
        client = KafkaAdminClient(bootstrap_servers=self.apache.bootstrap)
        try:
            client.delete_topics([name])
        finally:
            client.close()

    def leaders(self, bootstrap: str, name: str) -> dict[int, int]:
        client = KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            (topic,) = client.describe_topics([name])
        finally:
            client.close()
        return {each["partition_index"]: each["leader_id"] for each in topic["partitions"]}

    def produce(self, name: str, count: int) -> None:
        producer = KafkaProducer(bootstrap_servers=self.kafkad.bootstrap, acks="all", retries=5)
        for number in range(count):
            producer.send(name, b"%d" % number, partition=number % 3)
        producer.flush(WITHIN_S)
        producer.close()

    def consume(self, name: str, count: int) -> set[bytes]:
        consumer = KafkaConsumer(
            name, bootstrap_servers=self.apache.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000
        )
        found: set[bytes] = set()
        for message in consumer:
            found.add(message.value)
            if len(found) == count:
                break
        consumer.close()
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    with ExitStack() as ends:
        yield MixedCluster(tmp_path, ends)


def test_an_apache_controller_gives_partitions_and_takes_them_back(cluster: MixedCluster) -> None:
    registration = json.loads(cluster.zookeeper.get("/brokers/ids/2")[0])
    assert registration["endpoints"] == [f"PLAINTEXT://{cluster.kafkad.bootstrap}"]
    cluster.create("mixed", {0: [2], 1: [1], 2: [2]}, {"segment.bytes": "1048576"})
    for bootstrap in (cluster.kafkad.bootstrap, cluster.apache.bootstrap):
        eventually(
            lambda bootstrap=bootstrap: cluster.leaders(bootstrap, "mixed") == {0: 2, 1: 1, 2: 2},  # type: ignore[misc]
            within=WITHIN_S,
            what="both know the leaders",
        )
    cluster.produce("mixed", 300)
    assert cluster.consume("mixed", 300) == {b"%d" % number for number in range(300)}
    here = sorted(path.name for path in cluster.kafkad.log_dir.glob("mixed-*"))
    assert here == ["mixed-0", "mixed-2"]

    assert cluster.kafkad.stop() == 0
    eventually(lambda: cluster.zookeeper.exists("/brokers/ids/2") is None, what="its session ended")
    cluster.kafkad.start()
    cluster.wait_until_registered()
    eventually(
        lambda: cluster.leaders(cluster.apache.bootstrap, "mixed") == {0: 2, 1: 1, 2: 2},
        what="it leads again",
    )
    assert cluster.consume("mixed", 300) == {b"%d" % number for number in range(300)}

    cluster.delete("mixed")
    eventually(lambda: cluster.zookeeper.exists("/brokers/topics/mixed") is None, what="the topic is deleted")
    assert list(cluster.kafkad.log_dir.glob("mixed-[0-9]")) == []


def test_a_topic_that_was_deleted_while_the_broker_was_down_does_not_come_back(cluster: MixedCluster) -> None:
    cluster.create("forgotten", {0: [2], 1: [1], 2: [2]})
    eventually(
        lambda: cluster.leaders(cluster.kafkad.bootstrap, "forgotten") == {0: 2, 1: 1, 2: 2},
        what="it leads",
    )
    cluster.produce("forgotten", 30)
    assert cluster.kafkad.stop() == 0
    for index in (0, 1, 2):
        cluster.zookeeper.delete(f"/brokers/topics/forgotten/partitions/{index}", recursive=True)
    cluster.zookeeper.delete("/brokers/topics/forgotten", recursive=True)
    cluster.kafkad.start()
    cluster.wait_until_registered()
    names = [path.name for path in cluster.kafkad.log_dir.glob("forgotten-*")]
    assert len(names) == 2
    assert all(name.endswith("-stray") for name in names), names
    assert cluster.zookeeper.exists("/brokers/topics/forgotten") is None
