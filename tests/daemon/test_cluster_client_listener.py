"""Strangers on a listener for clients say that they are brokers or the controller: nothing changes, nobody waits.

What they send is what a broker would take between brokers, with epochs that are right or far ahead, whole, cut off or
of 50,000 rows. That needs real brokers: it is about listeners, and about processes that must not end.
"""

import struct
from pathlib import Path
from typing import Any

from bench.brokers.daemon import Kafkad
from kafkad.core.cluster.control_requests import (
    AllocateProducerIdsRequest,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ControlledShutdownRequest,
    IsrMember,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    LiveBroker,
    LiveEndpoint,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaTopic,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from kafkad.core.errors import ErrorCode
from kafkad.wire.api_table import CLUSTER_APIS
from kafkad.wire.cluster.alter_partition import ALTER_PARTITION
from kafkad.wire.cluster.broker_requests import ALLOCATE_PRODUCER_IDS, CONTROLLED_SHUTDOWN
from kafkad.wire.cluster.leader_and_isr import LEADER_AND_ISR
from kafkad.wire.cluster.schema import Message
from kafkad.wire.cluster.stop_replica import STOP_REPLICA
from kafkad.wire.cluster.update_metadata import UPDATE_METADATA
from tests.daemon.cluster import rotated
from tests.daemon.shared_cluster import SharedCluster
from tests.tools.raw_requests import RawClient, api_versions, batch, fetch, framed, produce, read_fetched, read_produced


def _pretended(topic: str, epoch: int, count: int = 1, leaves: int = 1) -> dict[int, tuple[Message[Any, Any], object]]:
    """By API key what would move the topic to broker 3, end it, or have broker `leaves` lead nothing; `count` times in
    one request.
    """
    sender: dict[str, Any] = {"controller_id": 3, "controller_epoch": epoch}
    state: dict[str, Any] = {"partition_index": 0, "controller_epoch": epoch, "leader": 3, "leader_epoch": 99}
    replicas: dict[str, Any] = {"isr": (3,), "replicas": (3,)}
    roles = (LeaderAndIsrPartition(partition_epoch=99, **state, **replicas),) * count
    seen = (UpdateMetadataPartition(zk_version=99, **state, **replicas),) * count
    stops = (StopReplicaPartition(partition_index=0, leader_epoch=99, delete_partition=True),) * count
    alone = AlterPartitionPartition(
        partition_index=0, leader_epoch=0, new_isr_with_epochs=(IsrMember(broker_id=1),), partition_epoch=0
    )
    nowhere = LiveEndpoint(port=1, host="nowhere", listener="BROKERS", security_protocol="PLAINTEXT")
    return {
        4: (
            LEADER_AND_ISR,
            LeaderAndIsrRequest(**sender, topic_states=(LeaderAndIsrTopic(topic_name=topic, partition_states=roles),)),
        ),
        5: (
            STOP_REPLICA,
            StopReplicaRequest(**sender, topic_states=(StopReplicaTopic(topic_name=topic, partition_states=stops),)),
        ),
        6: (
            UPDATE_METADATA,
            UpdateMetadataRequest(
                **sender,
                live_brokers=(LiveBroker(id=3, endpoints=(nowhere,)),),
                topic_states=(UpdateMetadataTopic(topic_name=topic, partition_states=seen),),
            ),
        ),
        7: (CONTROLLED_SHUTDOWN, ControlledShutdownRequest(broker_id=leaves)),
        56: (
            ALTER_PARTITION,
            AlterPartitionRequest(
                broker_id=1,
                broker_epoch=-1,
                topics=(AlterPartitionTopic(topic_name=topic, partitions=(alone,) * count),),
            ),
        ),
        67: (ALLOCATE_PRODUCER_IDS, AllocateProducerIdsRequest(broker_id=1, broker_epoch=-1)),
    }


def _ask(port: int, data: bytes) -> bytes | None:
    """The answer's body; None: the connection was closed."""
    with RawClient(port) as client:
        try:
            return client.ask(data)
        except ConnectionError:
            return None


def _request(key: int, version: int, body: bytes) -> bytes:
    """`framed` has no tags in its header, which the first byte of a body stands in for."""
    return framed(key, version, (b"\0" if version >= CLUSTER_APIS[key].flexible_from else b"") + body)


def _code(message: Message[Any, Any], version: int, answer: bytes) -> int:
    response = message.decode_response(memoryview(answer)[message.is_flexible(version) :], version)
    return int(response.error_code)


def _pretend_all(port: int, topic: str, epoch: int, count: int) -> None:
    """Each request in each version, if it is small: it is refused, or its connection is closed."""
    for key, (message, request) in _pretended(topic, epoch, count).items():
        newest = CLUSTER_APIS[key].max_version
        for version in range(CLUSTER_APIS[key].min_version if count == 1 else newest, newest + 1):
            body = message.encode_request(request, version)
            answer = _ask(port, _request(key, version, body))
            if key in (4, 5, 6):
                assert answer is not None, f"{message.name} {version} is answered"
                assert _code(message, version, answer) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            else:
                assert answer is None, f"{message.name} {version}: {answer!r}"
            _ask(port, _request(key, version, body[: len(body) // 2]))


def _states(cluster: SharedCluster) -> dict[str, tuple[bytes, int]]:
    """What ZooKeeper has of the partitions and the controller, with the versions of the nodes."""
    topic = f"/brokers/topics/{cluster.topic}"
    paths = [f"{topic}/partitions/{each}/state" for each in range(3)]
    found = {}
    for path in (*paths, topic, "/controller", "/controller_epoch"):
        data, stat = cluster.zookeeper.get(path)
        found[path] = data, stat.version
    return found


def _processes(cluster: SharedCluster) -> list[int]:
    return [process.pid for broker in cluster.brokers.values() for process in broker.tree()]


def _is_connected_to(port: int) -> bool:
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(remote.endswith(f":{port:04X}") and state == "01" for _, _, remote, state, *_ in rows)


def test_strangers_are_no_brokers_and_no_controller(cluster: SharedCluster) -> None:
    topic = cluster.topic
    cluster.create_led(1, topic, rotated(1, 2, 3))
    cluster.produce(2, range(300))
    states, processes = _states(cluster), _processes(cluster)
    epoch = int(states["/controller_epoch"][0])
    for broker in cluster.brokers.values():
        for claimed in (epoch, epoch + 7, 2**31 - 1):
            _pretend_all(broker.port, topic, claimed, 1)
    _pretend_all(cluster.brokers[1].port, topic, epoch + 7, 50_000)
    assert _states(cluster) == states
    assert [cluster.leaders(each, topic) for each in (1, 2, 3)] == [[1, 2, 3]] * 3
    cluster.produce(3, range(300, 600))
    assert cluster.consume(1, "g", 600) == sorted(range(600))
    assert _states(cluster) == states
    assert _processes(cluster) == processes


def test_a_controller_is_heard_on_the_listeners_that_are_for_it(cluster: SharedCluster) -> None:
    """It sends to that of its own control.plane.listener.name."""
    _, other, _ = cluster.from_controller()
    told = cluster.port_of(other, "CONTROL")
    cluster.wait_until(lambda: _is_connected_to(told), "the controller asks another broker on this listener")
    for listener in ("BROKERS", "CONTROL"):
        port = cluster.port_of(1, listener)
        # There is no broker 9.
        for key, (message, request) in _pretended("t", 0, leaves=9).items():
            newest = CLUSTER_APIS[key].max_version
            answer = _ask(port, _request(key, newest, message.encode_request(request, newest)))
            assert answer is not None, f"{message.name} is answered on {listener}"
            if key in (4, 5, 6):
                assert _code(message, newest, answer) == ErrorCode.STALE_CONTROLLER_EPOCH


def test_strangers_are_no_followers(cluster: SharedCluster) -> None:
    """What a follower asks for counts as on its disk: acks=all would trust a stranger."""
    at = cluster.topic, 0
    cluster.create_led(1, cluster.topic, {0: [1, 2]})
    leader = cluster.brokers[1]
    with RawClient(leader.port) as producer:
        assert read_produced(producer.ask(produce({at: batch()}, acks=-1)))[at] == (ErrorCode.NONE, 0)
    consumer = struct.pack(">ii", -1, 0)
    as_replica = fetch({at: 1}).replace(consumer, struct.pack(">ii", 2, 0), 1)
    between = cluster.port_of(1, "BROKERS")
    for port, error in ((leader.port, ErrorCode.TOPIC_AUTHORIZATION_FAILED), (between, ErrorCode.NONE)):
        answer = _ask(port, as_replica)
        assert answer is not None
        assert read_fetched(answer)[at].error == error


def test_a_single_broker_closes_the_connections_of_brokers(tmp_path: Path) -> None:
    with Kafkad(tmp_path) as broker, RawClient(broker.port) as client:
        client.ask(api_versions())
        for key, (message, request) in _pretended("t", 0).items():
            newest = CLUSTER_APIS[key].max_version
            assert _ask(broker.port, _request(key, newest, message.encode_request(request, newest))) is None
        assert client.ask(api_versions())
