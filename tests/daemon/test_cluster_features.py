"""Features are finalized for a whole cluster: every broker supports them, and follows each change.

It needs real brokers, which restart, and a real client that uses what is finalized.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped]
from kio.schema.update_features.v1.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v1.response import UpdateFeaturesResponse
from kio.static.primitive import i8, i16, i32Timedelta

from bench.brokers.processes import WITHIN_S
from bench.brokers.zookeeper import ZookeeperServer
from kafkad.client.connection import BrokerConnection
from tests.daemon.cluster import Cluster

STRANGER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":'
    b'["PLAINTEXT://127.0.0.1:1"],"rack":null,"jmx_port":-1,"port":1,"host":"127.0.0.1","version":5,"timestamp":"1"}'
)
"""A broker of Apache Kafka on ZooKeeper, which has no features."""


def finalized(cluster: Cluster, broker: int) -> dict[str, tuple[int, int]]:
    """The level of each feature, and how often the features were changed."""
    found = cluster.response(broker, KafkaAdminClient.describe_features)
    return {
        name: (int(each["finalized"][1]), int(each["finalized_epoch"]))
        for name, each in found.items()
        if "finalized" in each
    }


def updated(cluster: Cluster, broker: int, levels: dict[str, int]) -> str | None:
    """Why it was refused, by any broker; None: it was not."""
    asked = BrokerConnection("127.0.0.1", cluster.brokers[broker].port, WITHIN_S)
    updates = tuple(
        FeatureUpdateKey(feature=name, max_version_level=i16(level), upgrade_type=i8(1))
        for name, level in levels.items()
    )
    timeout = i32Timedelta.parse(timedelta(seconds=30))
    request = UpdateFeaturesRequest(timeout=timeout, feature_updates=updates, validate_only=False)
    response = asked.call(request, UpdateFeaturesResponse)
    asked.close()
    return response.error_message


def read_with_the_consumer_protocol(cluster: Cluster, broker: int, count: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.brokers[broker].bootstrap,
            "group.id": f"g-{broker}",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["t"])
    found: list[int] = []
    while len(found) < count:
        messages = consumer.consume(1, WITHIN_S)
        assert messages, f"only {len(found)} records within {WITHIN_S} s"
        (message,) = messages
        assert message.error() is None, message.error()
        found.append(int(message.value() or b""))
    consumer.close()
    return sorted(found)


@pytest.fixture
def own_cluster(tmp_path: Path, zookeeper: ZookeeperServer) -> Iterator[Cluster]:
    """What is finalized stays so."""
    with ExitStack() as ends:
        yield Cluster(tmp_path, ends, zookeeper)


def test_all_brokers_follow_what_is_finalized_and_one_without_it_has_no_part(own_cluster: Cluster) -> None:
    cluster = own_cluster
    assert [finalized(cluster, each) for each in (1, 2, 3)] == [{}, {}, {}]
    cluster.zookeeper.create("/brokers/ids/7", STRANGER, ephemeral=True)
    other = cluster.controller(1) % 3 + 1
    # The controller hears of the new broker by a watch.
    cluster.wait_until(lambda: 7 in cluster.known(cluster.controller(1)), "the controller knows broker 7")
    refusal = updated(cluster, other, {"group.version": 1})
    assert refusal is not None and "brokers 7 do not support" in refusal
    cluster.zookeeper.delete("/brokers/ids/7")
    cluster.wait_until(lambda: 7 not in cluster.known(cluster.controller(1)), "the controller forgot broker 7")
    assert updated(cluster, other, {"group.version": 1, "transaction.version": 2}) is None
    levels = {"group.version": (1, 1), "transaction.version": (2, 1)}
    assert finalized(cluster, cluster.controller(1)) == levels
    cluster.wait_until(lambda: all(finalized(cluster, each) == levels for each in (1, 2, 3)), "all know of it")
    cluster.create(1, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.produce(1, range(30))
    assert read_with_the_consumer_protocol(cluster, 2, 30) == list(range(30))
    cluster.brokers[2].stop()
    cluster.brokers[2].start()
    assert finalized(cluster, 2) == levels

    cluster.zookeeper.create("/brokers/ids/7", STRANGER, ephemeral=True)
    line = "/brokers/ids/7 in ZooKeeper is left out: the broker does not support the finalized features: group.version"
    brokers = cluster.brokers.values()
    cluster.wait_until(lambda: any(line in each.tail() for each in brokers), "the controller leaves broker 7 out")
    assert cluster.known(1) == {1, 2, 3}
