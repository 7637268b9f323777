"""Three brokers on a real ZooKeeper: any of them takes requests, and the cluster goes on when one is killed."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]
from kafka.admin import KafkaAdminClient, NewTopic  # type: ignore[import-untyped]
from kafka.errors import KafkaError  # type: ignore[import-untyped]
from kazoo.client import KazooClient

from bench.brokers.processes import eventually
from tests.adapters.zookeeper_fixture import ZookeeperServer
from tests.daemon.cluster_broker import SESSION_TIMEOUT_MS, KafkadInCluster

WITHIN_S = 60.0
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "num.io.threads": "1",
    "num.network.threads": "1",
    "offsets.topic.num.partitions": "3",
}
"""Leaders stay where elections put them, unless a test says otherwise."""


class Cluster:
    def __init__(self, folder: Path, ends: ExitStack) -> None:
        (folder / "zookeeper").mkdir()
        self.server = ZookeeperServer(folder / "zookeeper")
        ends.callback(self.server.stop)
        hosts = f"{self.server.hosts}/a/chroot"
        self.brokers = {
            each: ends.enter_context(
                KafkadInCluster(
                    folder / str(each), {"zookeeper.connect": hosts, "node.id": str(each), **self.settings()}
                )
            )
            for each in (1, 2, 3)
        }
        self.zookeeper = KazooClient(hosts)
        self.zookeeper.start()
        ends.callback(self.zookeeper.close)
        ends.callback(self.zookeeper.stop)
        self.wait_until(lambda: self.known(3) == {1, 2, 3}, "broker 3 knows all three")

    def settings(self) -> dict[str, str]:
        return {**SETTINGS, "offsets.topic.replication.factor": "3", "min.insync.replicas": "2"}

    def wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        def is_true_now() -> bool:
            try:
                return is_true()
            except KafkaError:
                return False

        eventually(is_true_now, within=WITHIN_S, what=what)

    def admin(self, broker: int) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.brokers[broker].bootstrap)

    def known(self, broker: int) -> set[int]:
        client = self.admin(broker)
        try:
            return {each["broker_id"] for each in client.describe_cluster()["brokers"]}
        finally:
            client.close()

    def controller(self, broker: int) -> int:
        client = self.admin(broker)
        try:
            return int(client.describe_cluster()["controller_id"])
        finally:
            client.close()

    def rows(self, broker: int, name: str) -> list[dict[str, Any]]:
        client = self.admin(broker)
        try:
            (topic,) = client.describe_topics([name])
        finally:
            client.close()
        return sorted(topic["partitions"], key=lambda row: int(row["partition_index"]))

    def leaders(self, broker: int, name: str) -> list[int]:
        return [int(row["leader_id"]) for row in self.rows(broker, name)]

    def in_sync(self, broker: int, name: str) -> list[set[int]]:
        return [set(row["isr_nodes"]) for row in self.rows(broker, name)]

    def produce(self, broker: int, numbers: range) -> None:
        """Each is acknowledged by all that are in sync."""
        producer = KafkaProducer(bootstrap_servers=self.brokers[broker].bootstrap, acks="all", retries=10)
        sent = [producer.send("t", b"%d" % number, partition=number % 3) for number in numbers]
        producer.flush(WITHIN_S)
        assert all(each.succeeded() for each in sent)
        producer.close()

    def consume(self, broker: int, group: str, count: int) -> list[int]:
        """What a new member of the group reads, in order; it stops when it has `count`."""
        consumer = KafkaConsumer(
            "t",
            bootstrap_servers=self.brokers[broker].bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            consumer_timeout_ms=30_000,
        )
        found = []
        for message in consumer:
            found.append(int(message.value))
            if len(found) == count:
                break
        consumer.close()
        return sorted(found)

    def elect_preferred_leaders(self, broker: int) -> None:
        client = self.admin(broker)
        try:
            client.elect_leaders(0, {"t": [0, 1, 2]})
        finally:
            client.close()

    def create(self, broker: int, name: str, assignments: dict[int, list[int]]) -> None:
        client = self.admin(broker)
        try:
            client.create_topics(
                [NewTopic(name, num_partitions=-1, replication_factor=-1, replica_assignments=assignments)]
            )
        finally:
            client.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as ends:
        yield Cluster(tmp_path, ends)


@pytest.mark.timeout(600)
def test_three_brokers_serve_clients_and_go_on_when_one_is_killed(cluster: Cluster) -> None:
    assert {cluster.controller(each) for each in (1, 2, 3)} == {1}
    cluster.create(3, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    for broker in (1, 2, 3):
        cluster.wait_until(
            lambda broker=broker: cluster.leaders(broker, "t") == [1, 2, 3],  # type: ignore[misc]
            f"broker {broker} knows the leaders",
        )
    cluster.produce(2, range(300))
    assert cluster.consume(3, "g", 300) == sorted(range(300))

    cluster.brokers[1].kill()
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [2, 2, 3], "others lead in its place")
    cluster.wait_until(lambda: cluster.controller(3) in (2, 3), "another broker is the controller")
    cluster.produce(2, range(300, 600))
    cluster.create(3, "after", {0: [3], 1: [2]})
    cluster.wait_until(lambda: cluster.leaders(2, "after") == [3, 2], "the new controller makes topics")
    cluster.brokers[1].start()
    cluster.wait_until(lambda: cluster.in_sync(2, "t") == [{1, 2, 3}] * 3, "it has caught up when it is back")
    cluster.elect_preferred_leaders(1)
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [1, 2, 3], "it leads again")
    cluster.brokers[2].kill()
    cluster.wait_until(lambda: 2 not in cluster.leaders(3, "t"), "the next one is killed, and others lead")
    cluster.produce(3, range(600, 900))
    assert cluster.consume(1, "h", 900) == sorted(range(900))
    cluster.brokers[2].start()
    cluster.wait_until(lambda: cluster.in_sync(1, "t") == [{1, 2, 3}] * 3, "it has caught up, too")

    client = cluster.admin(3)
    client.delete_topics(["t", "after"])
    client.close()
    cluster.wait_until(
        lambda: {"t", "after"}.isdisjoint(cluster.zookeeper.get_children("/brokers/topics")), "the topics are deleted"
    )
    left = [path.name for each in cluster.brokers.values() for path in each.log_dir.glob("t-[0-9]")]
    assert left == []
    assert {each: running.stop() for each, running in cluster.brokers.items()} == {1: 0, 2: 0, 3: 0}
    cluster.wait_until(lambda: cluster.zookeeper.get_children("/brokers/ids") == [], "their sessions have ended")


@pytest.mark.timeout(600)
def test_producers_notice_nothing_while_zookeeper_is_away_and_lost_sessions_are_replaced(cluster: Cluster) -> None:
    cluster.create(1, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [1, 2, 3], "broker 3 knows the leaders")
    # Ids of producers come from ZooKeeper, a thousand at a time.
    cluster.produce(1, range(300))
    cluster.server.pause()
    paused_s = time.monotonic()
    try:
        cluster.produce(2, range(300, 600))
        eventually(
            lambda: time.monotonic() > paused_s + 3 * SESSION_TIMEOUT_MS / 1000, within=WITHIN_S, what="it is long"
        )
    finally:
        cluster.server.resume()
    cluster.wait_until(
        lambda: cluster.in_sync(2, "t") == [{1, 2, 3}] * 3 and -1 not in cluster.leaders(2, "t"), "all is led again"
    )
    cluster.produce(1, range(600, 900))
    assert cluster.consume(3, "g", 900) == sorted(range(900))
