"""A cluster with Apache Kafka 2.8, whose protocol all brokers speak: either is the controller, both lead and follow."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]

from bench.brokers.apache_on_zookeeper import ApacheKafka28
from bench.brokers.processes import WITHIN_S, eventually
from tests.compat.test_hosted_by_apache import MixedCluster

TOPIC = "shared"
ASSIGNED = {0: [1, 2], 1: [2, 1]}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    with ExitStack() as ends:
        yield MixedCluster(tmp_path, ends, ApacheKafka28, "2.8")


def _controller(cluster: MixedCluster) -> int:
    if cluster.zookeeper.exists("/controller") is None:
        return -1
    return int(json.loads(cluster.zookeeper.get("/controller")[0])["brokerid"])


def _state(cluster: MixedCluster, partition: int) -> tuple[int, set[int]]:
    """Its leader, and who is in sync."""
    path = f"/brokers/topics/{TOPIC}/partitions/{partition}/state"
    if cluster.zookeeper.exists(path) is None:
        return -1, set()
    state = json.loads(cluster.zookeeper.get(path)[0])
    return state["leader"], set(state["isr"])


def _produce(cluster: MixedCluster, bootstrap: str, first: int, count: int) -> None:
    """Acknowledged by all replicas that are in sync."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", retries=20)
    sent = [producer.send(TOPIC, b"%d" % number, partition=number % 2) for number in range(first, first + count)]
    producer.flush(WITHIN_S)
    for future in sent:
        future.get(WITHIN_S)
    producer.close()


def _in_transaction(bootstrap: str, transactional_id: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    for number in range(first, first + count):
        producer.produce(TOPIC, b"%d" % number, partition=number % 2)
    producer.commit_transaction(WITHIN_S)


def _consume(bootstrap: str, count: int) -> list[int]:
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id="readers-of-" + bootstrap.replace(":", "-"),
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


def _content(folder: Path) -> bytes:
    return b"".join(path.read_bytes().rstrip(b"\0") for path in sorted(folder.glob("*.log")))


def _are_equal(cluster: MixedCluster) -> bool:
    theirs, ours = cluster.apache.log_dir, cluster.kafkad.log_dir
    return all(
        _content(theirs / f"{TOPIC}-{partition}") == _content(ours / f"{TOPIC}-{partition}") != b""
        for partition in ASSIGNED
    )


def _wait_for(cluster: MixedCluster, states: list[tuple[int, set[int]]]) -> None:
    eventually(
        lambda: [_state(cluster, partition) for partition in ASSIGNED] == states,
        what=f"leaders and in-sync replicas are {states}",
    )


def test_each_leads_and_follows_under_either_controller(cluster: MixedCluster) -> None:
    both, ours = cluster.kafkad.bootstrap, {2}
    assert _controller(cluster) == 1
    cluster.create(TOPIC, ASSIGNED, {"segment.bytes": "1048576"})
    _wait_for(cluster, [(1, {1, 2}), (2, {1, 2})])
    _produce(cluster, both, 0, 200)
    eventually(lambda: _are_equal(cluster), what="replicas are equal")

    # We come back: the 2.8 asks for the change of its ISR, and so do we, of a 2.8.
    assert cluster.kafkad.stop() == 0
    _wait_for(cluster, [(1, {1}), (1, {1})])
    _produce(cluster, cluster.apache.bootstrap, 200, 200)
    cluster.kafkad.start()
    cluster.wait_until_registered()
    _wait_for(cluster, [(1, {1, 2}), (1, {1, 2})])
    eventually(lambda: _are_equal(cluster), what="replicas are equal again")

    # The 2.8 goes and comes back: now we are the controller.
    cluster.apache.stop()
    _wait_for(cluster, [(2, ours), (2, ours)])
    assert _controller(cluster) == 2
    _produce(cluster, both, 400, 200)
    cluster.apache.start()
    cluster.wait_until_registered()
    _wait_for(cluster, [(2, {1, 2}), (2, {1, 2})])
    _produce(cluster, both, 600, 200)
    eventually(lambda: _are_equal(cluster), what="replicas are equal under our controller")

    # A 2.8 can't verify transactions for others: what it leads, and what we lead, is in them all the same.
    for number, bootstrap in enumerate((both, cluster.apache.bootstrap)):
        _in_transaction(bootstrap, f"writer-{number}", 800 + 100 * number, 100)
    for bootstrap in (both, cluster.apache.bootstrap):
        assert _consume(bootstrap, 1000) == list(range(1000))
