"""Our broker follows partitions that Apache Kafka 3.9 leads, in a cluster whose controller is Apache Kafka."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka import KafkaProducer  # type: ignore[import-untyped]

from bench.brokers.processes import WITHIN_S, eventually
from tests.compat.test_hosted_by_apache import MixedCluster

TOPIC = "followed"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    with ExitStack() as ends:
        made = MixedCluster(tmp_path, ends)
        made.create(TOPIC, {0: [1, 2], 1: [1, 2]}, {"segment.bytes": "1048576"})
        yield made


def _produce(cluster: MixedCluster, first: int, count: int) -> None:
    """Acknowledged by both replicas."""
    producer = KafkaProducer(bootstrap_servers=cluster.apache.bootstrap, acks="all", retries=5)
    sent = [producer.send(TOPIC, b"%d" % number, partition=number % 2) for number in range(first, first + count)]
    producer.flush(WITHIN_S)
    for future in sent:
        future.get(WITHIN_S)
    producer.close()


def _content(folder: Path) -> bytes:
    return b"".join(path.read_bytes().rstrip(b"\0") for path in sorted(folder.glob("*.log")))


def _has_all(cluster: MixedCluster) -> bool:
    """Byte for byte: a follower's batches are its leader's."""
    theirs, ours = cluster.apache.log_dir, cluster.kafkad.log_dir
    return all(
        _content(theirs / f"{TOPIC}-{partition}") == _content(ours / f"{TOPIC}-{partition}") != b""
        for partition in (0, 1)
    )


def _is_in_sync(cluster: MixedCluster) -> bool:
    paths = [f"/brokers/topics/{TOPIC}/partitions/{partition}/state" for partition in (0, 1)]
    return all(cluster.zookeeper.exists(path) for path in paths) and all(
        b'"isr":[1,2]' in cluster.zookeeper.get(path)[0] for path in paths
    )


def test_its_log_is_the_leaders_and_it_is_in_sync_again_after_a_restart(cluster: MixedCluster) -> None:
    _produce(cluster, 0, 200)
    eventually(lambda: _has_all(cluster), what="our log is the leader's")
    assert _is_in_sync(cluster)
    assert cluster.kafkad.stop() == 0
    _produce(cluster, 200, 200)
    assert not _has_all(cluster)
    cluster.kafkad.start()
    cluster.wait_until_registered()
    eventually(lambda: _has_all(cluster), what="our log is the leader's again")
    eventually(lambda: _is_in_sync(cluster), what="it is in sync again")
