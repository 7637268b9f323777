"""A throttle holds back the new replica of a partition that moves, and nothing else; without it the move ends.

It needs real brokers: bytes on their disks, and commands, are what is compared.
"""

import pytest
from kafka import KafkaProducer, TopicPartition  # type: ignore[import-untyped]
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.static.primitive import i8

from bench.brokers.processes import WITHIN_S
from kafkad.client.connection import BrokerConnection
from tests.daemon.cluster import Cluster, kafkad
from tests.daemon.shared_cluster import SharedCluster

OF_TOPIC, OF_BROKER, SET, DELETE = i8(2), i8(4), i8(0), i8(1)
RECORD, COUNT = b"r" * 500_000, 60
MOST_HELD_BACK = 12_000_000
"""One answer to a fetcher may be as large as replica.fetch.response.max.bytes."""


@pytest.fixture
def led(cluster: SharedCluster) -> SharedCluster:
    """It has another topic, too: `large`."""
    cluster.create_led(3, cluster.topic, {0: [1, 2], 1: [2, 1], 2: [1, 2]})
    cluster.create_led(3, "large", {0: [1, 2]})
    return cluster


def alter(cluster: Cluster, kind: int, name: str, option: str, value: str | None) -> None:
    asked = BrokerConnection("127.0.0.1", cluster.brokers[1].port, WITHIN_S)
    config = AlterableConfig(name=option, config_operation=DELETE if value is None else SET, value=value)
    resource = AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    (result,) = asked.call(request, IncrementalAlterConfigsResponse).responses
    asked.close()
    assert result.error_message is None


def copied(cluster: Cluster) -> int:
    return sum(path.stat().st_size for path in cluster.brokers[3].folder.glob("*/large-0/*.log"))


def fill(cluster: Cluster) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.brokers[1].bootstrap, acks="all")
    sent = [producer.send("large", RECORD, partition=0) for _ in range(COUNT)]
    producer.flush(WITHIN_S)
    assert all(each.succeeded() for each in sent)
    producer.close()


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_move_waits_for_the_throttle(led: SharedCluster, side: str) -> None:
    cluster, large = led, TopicPartition("large", 0)
    fill(cluster)
    alter(cluster, OF_BROKER, "", f"{side}.replication.throttled.rate", "1")
    replica = 1 if side == "leader" else 3
    alter(cluster, OF_TOPIC, "large", f"{side}.replication.throttled.replicas", f"0:{replica}")

    client = cluster.admin(1)
    assert set(client.alter_partition_reassignments({large: [1, 3]}).values()) == {None}
    cluster.wait_until(lambda: copied(cluster) > 0, "the copy has begun")
    # Others go on meanwhile, which takes longer than copying all of it would.
    cluster.produce(2, range(600))
    assert cluster.consume(3, "g", 600) == sorted(range(600))
    assert 0 < copied(cluster) <= MOST_HELD_BACK
    assert client.list_partition_reassignments()

    alter(cluster, OF_BROKER, "", f"{side}.replication.throttled.rate", None)
    cluster.wait_until(lambda: client.list_partition_reassignments() == {}, "it has moved")
    client.close()
    cluster.wait_until(lambda: cluster.in_sync(1, "large") == [{1, 3}], "the new replica is in sync")
    assert copied(cluster) > COUNT * len(RECORD)


def test_the_command_line_throttles_and_lets_go(led: SharedCluster) -> None:
    cluster = led
    fill(cluster)
    moved = kafkad(cluster, "reassign", "start", "large-0", "--to", "1,3", "--throttle", "1", "--no-wait")
    assert moved == ["large-0 is being moved to brokers 1,3."]
    cluster.wait_until(lambda: copied(cluster) > 0, "the copy has begun")
    assert kafkad(cluster, "reassign", "throttle", "--rate", "2") == ["large is copied at 2 bytes a second."]
    cluster.produce(2, range(600))
    assert 0 < copied(cluster) <= MOST_HELD_BACK
    assert len(kafkad(cluster, "reassign", "list")) == 2
    assert kafkad(cluster, "reassign", "throttle", "--remove") == ["large is copied without limit."]
    cluster.wait_until(lambda: cluster.in_sync(1, "large") == [{1, 3}], "it has moved")
    assert kafkad(cluster, "reassign", "throttle", "--remove") == []
    kafkad(cluster, "reassign", "start", "large-0", "--to", "1,2", "--throttle", "100000000")
    cluster.wait_until(lambda: cluster.in_sync(1, "large") == [{1, 2}], "it has moved back")
    assert kafkad(cluster, "reassign", "throttle", "--remove") == [], "the command has removed the limit"
