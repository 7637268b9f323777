"""Consumers that say in which rack they are read from a replica there, with the bytes of the leader.

It needs real brokers, and a real client that finds the replica."""

from datetime import timedelta

from confluent_kafka import Consumer
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v12.response import FetchResponse, PartitionData
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from bench.brokers.processes import WITHIN_S
from kafkad.client.connection import BrokerConnection
from tests.daemon.shared_cluster import SharedCluster

COUNT = 300


def fetched(cluster: SharedCluster, broker: int, rack: str) -> PartitionData:
    partition = FetchPartition(
        partition=i32(0), fetch_offset=i64(0), partition_max_bytes=i32(1 << 20), current_leader_epoch=i32(-1)
    )
    request = FetchRequest(
        replica_id=BrokerId(-1),
        max_wait=i32Timedelta.parse(timedelta(milliseconds=100)),
        min_bytes=i32(1),
        isolation_level=i8(0),
        topics=(FetchTopic(topic=TopicName(cluster.topic), partitions=(partition,)),),
        forgotten_topics_data=(),
        rack_id=rack,
    )
    asked = BrokerConnection("127.0.0.1", cluster.brokers[broker].port, WITHIN_S)
    answer = asked.call(request, FetchResponse)
    asked.close()
    return answer.responses[0].partitions[0]


def test_a_consumer_reads_from_the_replica_in_its_rack(cluster: SharedCluster) -> None:
    """Brokers 1, 2 and 3 are in racks r1, r2 and r3."""
    cluster.create_led(3, cluster.topic, {0: [1, 2], 1: [1, 2], 2: [1, 2]})
    cluster.wait_until(lambda: cluster.in_sync(1, cluster.topic) == [{1, 2}] * 3, "all are in sync")
    cluster.produce(1, range(COUNT))
    near = fetched(cluster, 1, "r2")
    assert near.preferred_read_replica == 2
    here = fetched(cluster, 1, "r1")
    nowhere = fetched(cluster, 1, "r3")
    assert [each.preferred_read_replica for each in (here, nowhere)] == [-1, -1]
    assert here.records and here.records == nowhere.records

    def is_served_by_2() -> bool:
        copy = fetched(cluster, 2, "r2")
        assert copy.preferred_read_replica == -1
        return copy.records == here.records

    cluster.wait_until(is_served_by_2, "the follower knows that all is committed")

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.brokers[1].bootstrap,
            "group.id": f"g-of-{cluster.topic}",
            "auto.offset.reset": "earliest",
            "client.rack": "r2",
        }
    )
    consumer.subscribe([cluster.topic])
    found: list[int] = []
    while len(found) < COUNT:
        message = consumer.poll(WITHIN_S)
        assert message is not None and message.error() is None
        found.append(int(message.value() or b""))
    consumer.close()
    assert sorted(found) == list(range(COUNT))
