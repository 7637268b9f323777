"""What brokers and controllers of a cluster ask each other, out of date, ahead of time or about what is not there.

The same bytes go to kafkad and to Apache Kafka 3.9, and the whole answers are compared. What kafkad refuses on purpose
is in docs/differences.md, and in a test of its own here.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from socket import socket
from typing import Any
from uuid import UUID

import pytest

from bench.brokers.apache_on_zookeeper import ApacheKafkaOnZookeeper
from bench.brokers.ports import free_port
from bench.brokers.processes import eventually
from bench.brokers.zookeeper import ZookeeperServer
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
from kafkad.wire import api_table
from kafkad.wire.cluster.alter_partition import ALTER_PARTITION
from kafkad.wire.cluster.broker_requests import ALLOCATE_PRODUCER_IDS, CONTROLLED_SHUTDOWN
from kafkad.wire.cluster.leader_and_isr import LEADER_AND_ISR
from kafkad.wire.cluster.stop_replica import STOP_REPLICA
from kafkad.wire.cluster.update_metadata import UPDATE_METADATA
from tests.compat.cluster_sides import PlayedCluster, Responses
from tests.daemon.cluster_broker import KafkadInCluster
from tests.handlers.kio_calls import KioApi
from tests.tools.raw_requests import batch, produce

REAL, STAYS, DEAD, LEAVES, SPEAKS = 1, 6, 7, 8, 9
"""The broker under test; three that are played, of which one shuts down in order; one that is not registered."""
SHARED, STRANGE = UUID(int=0xA1), UUID(int=0xFF)
RECORDS = batch(count=2)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PlayedCluster, PlayedCluster]]:
    """(kafkad, Apache Kafka), each the controller of its own cluster."""
    folder = tmp_path_factory.mktemp("played")
    with ExitStack() as ends:
        (folder / "zookeeper").mkdir()
        server = ZookeeperServer(folder / "zookeeper")
        ends.callback(server.stop)
        settings = {"controlled.shutdown.enable": "false", "auto.leader.rebalance.enable": "false"}
        at = f"{server.hosts}/kafkad"
        ours = KafkadInCluster(folder / "kafkad", {"zookeeper.connect": at, "node.id": str(REAL), **settings})
        theirs = ApacheKafkaOnZookeeper(folder / "apache", f"{server.hosts}/apache", settings)
        played = {each: ends.enter_context(silent_port()) for each in (STAYS, LEAVES, SPEAKS)}
        made = []
        for broker, hosts in ((ours, at), (theirs, f"{server.hosts}/apache")):
            cluster = PlayedCluster(ends.enter_context(broker), hosts, played, ends)
            cluster.make("shared", SHARED, {index: [SPEAKS, REAL] for index in range(12)})
            made.append(cluster)
        yield made[0], made[1]


@contextmanager
def silent_port() -> Iterator[int]:
    """It is bound, so that no other broker gets it, and refuses connections."""
    with socket() as bound:
        bound.bind(("127.0.0.1", free_port()))
        yield int(bound.getsockname()[1])


# To the controller.


def altered(cluster: PlayedCluster, what: str, version: int, **values: Any) -> Any:
    """An AlterPartition by the broker that leads the shared topic, of the partition that is this version's own."""
    sender = {key: values.pop(key) for key in ("broker_id", "broker_epoch") if key in values}
    sender = {"broker_id": SPEAKS, **sender}
    sender.setdefault("broker_epoch", cluster.epochs.get(sender["broker_id"], 1))
    topic = {key: values.pop(key) for key in ("topic_id", "topic_name") if key in values}
    isr = [IsrMember(broker_id=each) for each in values.pop("isr", (SPEAKS,))]
    state = {"partition_index": version, "leader_epoch": 0, "partition_epoch": 0, **values}
    partition = AlterPartitionPartition(new_isr_with_epochs=tuple(isr), **state)
    named = AlterPartitionTopic(**{"topic_id": SHARED, "topic_name": "shared", **topic}, partitions=(partition,))
    request = AlterPartitionRequest(**sender, topics=(named,))
    return cluster.ask(what, api_table.ALTER_PARTITION, ALTER_PARTITION, version, request)


def alterations(cluster: PlayedCluster) -> None:
    own = cluster.epochs[SPEAKS]
    for version in range(4):
        altered(cluster, "a dead broker", version, isr=(SPEAKS, DEAD))
        altered(cluster, "dead brokers only", version, isr=(DEAD, DEAD - 1))
        altered(cluster, "a leader epoch ahead", version, leader_epoch=1)
        altered(cluster, "a leader epoch behind", version, leader_epoch=-1)
        altered(cluster, "a partition epoch ahead", version, partition_epoch=1)
        altered(cluster, "an unknown broker", version, broker_id=DEAD)
        for epoch in (-1, own - 1, own + 1):
            altered(cluster, f"broker epoch {epoch - own if epoch > 0 else epoch}", version, broker_epoch=epoch)
        altered(cluster, "a partition that is not there", version, partition_index=99)
        altered(cluster, "a partition below", version, partition_index=-1)
        altered(cluster, "another topic", version, topic_id=STRANGE, topic_name="strange")
        altered(cluster, "no topic", version, topic_id=UUID(int=0), topic_name="")
        altered(cluster, "recovering", version, leader_recovery_state=1)
        altered(cluster, "no change", version, isr=(SPEAKS, REAL))
        altered(cluster, "a change", version)
        altered(cluster, "the same again", version)
        altered(cluster, "another one in the same epoch", version, isr=(SPEAKS, REAL))
        altered(cluster, "back", version, isr=(SPEAKS, REAL), partition_epoch=1)


def producer_ids(cluster: PlayedCluster) -> None:
    own = cluster.epochs[SPEAKS]
    for broker, epoch in ((SPEAKS, own - 1), (SPEAKS, own + 1), (SPEAKS, -1), (DEAD, own), (DEAD, -1)):
        request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch)
        cluster.ask(f"{broker}", api_table.ALLOCATE_PRODUCER_IDS, ALLOCATE_PRODUCER_IDS, 0, request)


def shut_down(cluster: PlayedCluster, broker: int, version: int, epoch: int) -> Any:
    request = ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch)
    what = f"broker {broker} goes"
    return cluster.ask(what, api_table.CONTROLLED_SHUTDOWN, CONTROLLED_SHUTDOWN, version, request)


def shutdowns(cluster: PlayedCluster) -> None:
    for version in (1, 2, 3):
        shut_down(cluster, DEAD, version, -1)
        if version > 1:
            shut_down(cluster, SPEAKS, version, cluster.epochs[SPEAKS] - 1)
    for version in (1, 2, 3):
        shut_down(cluster, LEAVES, version, cluster.epochs[LEAVES])
        altered(cluster, "one that is about to go", 3, partition_index=11, isr=(SPEAKS, LEAVES))
        altered(cluster, "one that is about to go", 0, partition_index=11, isr=(SPEAKS, LEAVES))


# To a broker, by its controller, which the test plays too.


class PlayedController:
    """Its epochs are above those of the broker that is the controller of this cluster."""

    def __init__(self, cluster: PlayedCluster) -> None:
        cluster.controller_epoch += 10
        self.epoch = cluster.controller_epoch
        self._cluster = cluster
        # With the first word of a controller a broker forgets the topics that ZooKeeper has not, as these here.
        self.tells("the first word", 8, "begins", UUID(int=0xA0))

    def _sender(self, values: dict[str, Any]) -> dict[str, Any]:
        return {
            "controller_id": SPEAKS,
            "controller_epoch": values.pop("controller_epoch", self.epoch),
            "broker_epoch": values.pop("broker_epoch", 1 << 40),
        }

    def gives(self, what: str, version: int, name: str, topic_id: UUID, **values: Any) -> Any:
        """LeaderAndIsr of one partition."""
        sender = self._sender(values)
        state = {
            "partition_index": 0,
            "controller_epoch": 1,
            "leader": REAL,
            "leader_epoch": 5,
            "partition_epoch": 5,
            "isr": (REAL,),
            "replicas": (REAL, SPEAKS),
            **values,
        }
        topic = LeaderAndIsrTopic(
            topic_name=name, topic_id=topic_id, partition_states=(LeaderAndIsrPartition(**state),)
        )
        request = LeaderAndIsrRequest(**sender, topic_states=(topic,))
        return self._cluster.ask(what, api_table.LEADER_AND_ISR, LEADER_AND_ISR, version, request)

    def stops(self, what: str, version: int, name: str, **values: Any) -> Any:
        sender = self._sender(values)
        state = StopReplicaPartition(**{"partition_index": 0, "leader_epoch": 5, **values})
        topic = StopReplicaTopic(topic_name=name, partition_states=(state,))
        request = StopReplicaRequest(**sender, topic_states=(topic,))
        return self._cluster.ask(what, api_table.STOP_REPLICA, STOP_REPLICA, version, request)

    def tells(self, what: str, version: int, name: str, topic_id: UUID, **values: Any) -> Any:
        """UpdateMetadata with the live brokers and one partition."""
        sender = self._sender(values)
        state = {
            "partition_index": 0,
            "controller_epoch": 1,
            "leader": SPEAKS,
            "leader_epoch": 5,
            "zk_version": 5,
            "isr": (SPEAKS,),
            "replicas": (SPEAKS,),
            **values,
        }
        topic = UpdateMetadataTopic(
            topic_name=name, topic_id=topic_id, partition_states=(UpdateMetadataPartition(**state),)
        )
        brokers = tuple(
            LiveBroker(
                id=each,
                endpoints=(
                    LiveEndpoint(port=port, host="127.0.0.1", listener="PLAINTEXT", security_protocol="PLAINTEXT"),
                ),
            )
            for each, port in ((REAL, self._cluster.broker.port), (SPEAKS, SPEAKS))
        )
        request = UpdateMetadataRequest(**sender, topic_states=(topic,), live_brokers=brokers)
        return self._cluster.ask(what, api_table.UPDATE_METADATA, UPDATE_METADATA, version, request)


def roles(cluster: PlayedCluster) -> None:
    controller = PlayedController(cluster)
    for version in range(8):
        name, topic_id = f"roles-{version}", UUID(int=0x100 + version)
        if version < 5:
            # There are no ids in these: the broker knows it from UpdateMetadata.
            controller.tells("first", 8, name, topic_id)
        other: dict[str, Any] = {"name": name, "topic_id": topic_id, "version": version}
        for where in ("not here", "here"):
            controller.gives(f"{where}, an old controller", **other, controller_epoch=controller.epoch - 1)
            if version >= 2:
                controller.gives(f"{where}, an old life of the broker", **other, broker_epoch=1)
            if where == "not here":
                controller.gives("no replica here", **other, replicas=(SPEAKS,), leader=SPEAKS)
                controller.gives("a role", **other)
        controller.gives("the same again", **other)
        controller.gives("an older leader epoch", **other, leader_epoch=4)
        controller.gives("an older partition epoch", **other, leader_epoch=6, partition_epoch=4)
        controller.gives("no replica here any more", **other, leader_epoch=7, replicas=(SPEAKS,), leader=SPEAKS)
        controller.gives("a leader that is dead", **other, leader_epoch=8, leader=DEAD, replicas=(REAL, DEAD))
        controller.gives("no leader", **other, leader_epoch=9, leader=-1)
        controller.gives("a second partition", **other, partition_index=1)
        if version >= 5:
            other["topic_id"] = STRANGE
            controller.gives("another topic id", **other, leader_epoch=10)
            controller.gives("another topic id, an older epoch", **other, leader_epoch=4)


def ends(cluster: PlayedCluster) -> None:
    controller = PlayedController(cluster)
    for version in range(5):
        name, topic_id = f"ends-{version}", UUID(int=0x200 + version)
        controller.tells("first", 8, name, topic_id)
        for delete in (False, True):
            other: dict[str, Any] = {"name": name, "version": version, "delete_partition": delete}
            controller.stops("not here", **other)
            controller.stops("nowhere", **other | {"name": "nowhere"})
            controller.gives("a role", 7, name, topic_id)
            controller.stops("an old controller", **other, controller_epoch=controller.epoch - 1)
            if version >= 1:
                controller.stops("an old life of the broker", **other, broker_epoch=1)
            controller.stops("a partition that is not here", **other, partition_index=3)
            if version >= 3:
                controller.stops("an older leader epoch", **other, leader_epoch=4)
                controller.stops("without a leader epoch", **other | {"delete_partition": False}, leader_epoch=-1)
            controller.stops("in order", **other)
            controller.stops("again", **other)
            controller.gives("a role again", 7, name, topic_id)
            controller.gives("a newer role", 7, name, topic_id, leader_epoch=6)
            controller.stops("the topic is deleted", 4, name, leader_epoch=-2, delete_partition=True)


def metadata(cluster: PlayedCluster) -> None:
    controller = PlayedController(cluster)
    for version in range(9):
        name, topic_id = f"metadata-{version}", UUID(int=0x300 + version)
        other: dict[str, Any] = {"version": version, "name": name, "topic_id": topic_id}
        controller.tells("in order", **other)
        controller.tells("an old controller", **other, controller_epoch=controller.epoch - 1)
        if version >= 5:
            controller.tells("an old life of the broker", **other, broker_epoch=1)
        controller.tells("an older leader epoch", **other, leader_epoch=4)
        controller.tells("a leader that is dead", **other, leader=DEAD)
        controller.tells("another topic id", **other | {"topic_id": STRANGE})
        controller.tells("a topic that is deleted", **other, leader=-2)


# To a leader, by a follower that the test plays.


LED, FOLLOWED, ELSEWHERE = ("led", UUID(int=0x400)), ("followed", UUID(int=0x401)), ("elsewhere", UUID(int=0x402))
NOWHERE = ("nowhere", UUID(int=0x403))


def fetched(cluster: PlayedCluster, what: str, version: int, topic: tuple[str, UUID], **values: Any) -> Any:
    call = KioApi("fetch", version)
    replica = values.pop("replica_id", SPEAKS)
    whole = {
        "replica_id": replica,
        "max_wait": timedelta(),
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "forgotten_topics_data": (),
        "rack_id": "",
    }
    if version >= 15:
        whole["replica_state"] = call.part("ReplicaState", replica_id=replica, replica_epoch=cluster.epochs[SPEAKS])
    row = {
        "partition": 0,
        "current_leader_epoch": 5,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": 0,
        "partition_max_bytes": 1 << 20,
        **values,
    }
    asked = call.part("FetchTopic", topic=topic[0], topic_id=topic[1], partitions=(call.part("FetchPartition", **row),))
    return cluster.ask_client_api(what, "fetch", version, **whole, topics=(asked,))


def offsets(cluster: PlayedCluster, what: str, version: int, name: str, **values: Any) -> Any:
    call = KioApi("list_offsets", version)
    replica = values.pop("replica_id", SPEAKS)
    row = {"partition_index": 0, "current_leader_epoch": 5, "timestamp": -1, **values}
    asked = call.part("ListOffsetsTopic", name=name, partitions=(call.part("ListOffsetsPartition", **row),))
    return cluster.ask_client_api(what, "list_offsets", version, replica_id=replica, isolation_level=0, topics=(asked,))


def epoch_ends(cluster: PlayedCluster, what: str, version: int, name: str, **values: Any) -> Any:
    call = KioApi("offset_for_leader_epoch", version)
    replica = values.pop("replica_id", SPEAKS)
    row = {"partition": 0, "current_leader_epoch": 5, "leader_epoch": 5, **values}
    asked = call.part("OffsetForLeaderTopic", topic=name, partitions=(call.part("OffsetForLeaderPartition", **row),))
    return cluster.ask_client_api(what, "offset_for_leader_epoch", version, replica_id=replica, topics=(asked,))


def reads(cluster: PlayedCluster) -> None:
    controller = PlayedController(cluster)
    controller.gives("a role", 7, *LED)
    controller.gives("a role", 7, *FOLLOWED, leader=SPEAKS, isr=(SPEAKS, REAL))
    controller.tells("metadata", 8, *LED, leader=REAL, isr=(REAL,), replicas=(REAL, SPEAKS))
    controller.tells("metadata", 8, *FOLLOWED, isr=(SPEAKS, REAL), replicas=(REAL, SPEAKS))
    controller.tells("metadata", 8, *ELSEWHERE)
    kept = cluster.take()

    def knows() -> bool:
        codes = [int(fetched(cluster, "", 12, each).responses[0].partitions[0].error_code) for each in (LED, FOLLOWED)]
        return codes == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]

    eventually(knows, what=f"{cluster.broker.name} leads and follows")
    cluster.client.ask(produce({(LED[0], 0): RECORDS}))
    cluster.answers = kept
    for version in range(4, 18):
        for epoch in (-1, 4, 5, 6) if version >= 9 else (5,):
            for topic in (LED, FOLLOWED, ELSEWHERE, NOWHERE):
                fetched(cluster, f"{topic[0]} in epoch {epoch}", version, topic, current_leader_epoch=epoch)
            fetched(cluster, f"no replica, {epoch}", version, LED, current_leader_epoch=epoch, replica_id=DEAD)
            fetched(cluster, f"no partition, {epoch}", version, LED, current_leader_epoch=epoch, partition=9)
        fetched(cluster, "another topic id", version, (LED[0], STRANGE))
        fetched(cluster, "no topic id", version, (LED[0], UUID(int=0)))
        fetched(cluster, "the end", version, LED, fetch_offset=2)
        fetched(cluster, "behind the end", version, LED, fetch_offset=9)
        fetched(cluster, "below the start", version, LED, fetch_offset=-1)
        if version >= 12:
            for last in (0, 4, 5, 6):
                fetched(cluster, f"after epoch {last}", version, LED, fetch_offset=2, last_fetched_epoch=last)
                fetched(cluster, f"far after epoch {last}", version, LED, fetch_offset=9, last_fetched_epoch=last)
    for version in range(1, 10):
        for epoch in (-1, 4, 5, 6) if version >= 4 else (5,):
            for timestamp in (-1, -2):
                values = {"current_leader_epoch": epoch, "timestamp": timestamp}
                for name in ("led", "followed", "elsewhere", "nowhere"):
                    offsets(cluster, f"{name} in epoch {epoch}", version, name, **values)
                offsets(cluster, "no replica", version, "led", **values, replica_id=DEAD)
                offsets(cluster, "no partition", version, "led", **values, partition_index=9)
    for version in range(2, 5):
        for epoch in (-1, 4, 5, 6):
            for name in ("led", "followed", "elsewhere", "nowhere"):
                for asked in (-1, 0, 4, 5, 6):
                    values = {"current_leader_epoch": epoch, "leader_epoch": asked}
                    epoch_ends(cluster, f"{name}, {epoch}, {asked}", version, name, **values)
            epoch_ends(cluster, "no replica", version, "led", current_leader_epoch=epoch, replica_id=DEAD)
            epoch_ends(cluster, "no partition", version, "led", current_leader_epoch=epoch, partition=9)
    in_a_later_epoch(cluster, controller)


def in_a_later_epoch(cluster: PlayedCluster, controller: PlayedController) -> None:
    """It has no record, and those of the follower are of an epoch that this log never had."""
    controller.gives("a later epoch", 7, *LED, leader_epoch=8, partition_epoch=8)
    controller.tells("a later epoch", 8, *LED, leader=REAL, isr=(REAL,), replicas=(REAL, SPEAKS), leader_epoch=8)
    for last in (4, 5, 6, 7, 8, 9):
        for offset in (1, 2, 9):
            values = {"current_leader_epoch": 8, "fetch_offset": offset, "last_fetched_epoch": last}
            fetched(cluster, f"{offset}, after epoch {last}, in a later one", 12, LED, **values)
        values = {"current_leader_epoch": 8, "leader_epoch": last}
        epoch_ends(cluster, f"{last}, in a later one", 4, "led", **values)


@pytest.mark.parametrize(
    "asking", [alterations, producer_ids, shutdowns, roles, ends, metadata, reads], ids=lambda each: str(each.__name__)
)
def test_they_are_answered_as_by_apache_kafka(
    sides: tuple[PlayedCluster, PlayedCluster], asking: Callable[[PlayedCluster], None]
) -> None:
    heard: list[Responses] = []
    for cluster in sides:
        asking(cluster)
        heard.append(cluster.take())
    assert heard[0], "something was asked"
    assert not (found := differences(*heard)), "\n".join(found)


ON_PURPOSE: dict[str, tuple[Callable[[PlayedCluster], Any], ErrorCode, ErrorCode]] = {
    "of a partition that another broker leads": (
        lambda cluster: altered(cluster, "", 3, partition_index=10, broker_id=STAYS),
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ),
    "with one that has no replica": (
        lambda cluster: altered(cluster, "", 3, partition_index=4, isr=(SPEAKS, STAYS)),
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ),
    "without the leader": (
        lambda cluster: altered(cluster, "", 3, partition_index=5, isr=(REAL,)),
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ),
    "with nobody": (
        lambda cluster: altered(cluster, "", 3, partition_index=6, isr=()),
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ),
    "with one twice": (
        lambda cluster: altered(cluster, "", 3, partition_index=7, isr=(SPEAKS, SPEAKS)),
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ),
    "of a broker that is gone": (
        lambda cluster: shut_down(cluster, DEAD, 3, 1),
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
    "of a topic without an id": (
        lambda cluster: PlayedController(cluster).gives("", 7, "no-id", UUID(int=0)),
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NONE,
    ),
}
"""A request, what kafkad answers, and what Apache Kafka does."""


def code_of(answer: Any) -> ErrorCode:
    """Of the request's one partition, or of the whole."""
    topics = getattr(answer, "topics", ())
    if not topics:
        return ErrorCode(answer.error_code)
    rows = topics[0].partition_errors if hasattr(topics[0], "partition_errors") else topics[0].partitions
    return ErrorCode(rows[0].error_code)


@pytest.mark.parametrize("what", ON_PURPOSE)
def test_what_is_answered_differently_on_purpose(sides: tuple[PlayedCluster, PlayedCluster], what: str) -> None:
    ask, ours, theirs = ON_PURPOSE[what]
    assert [code_of(ask(cluster)) for cluster in sides] == [ours, theirs]
    for cluster in sides:
        cluster.take()


def differences(ours: Responses, theirs: Responses) -> list[str]:
    """A line for each value."""
    return [
        f"{what} ({version}): {line}"
        for (what, version, mine), (_, _, other) in zip(ours, theirs, strict=True)
        for line in _different(mine, other, "")
    ]


def _different(mine: Any, other: Any, where: str) -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(other, dict) and mine.keys() == other.keys():
        for name, value in mine.items():
            yield from _different(value, other[name], f"{where}.{name}")
    elif isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        for value, another in zip(mine, other, strict=True):
            yield from _different(value, another, where)
    elif mine != other:
        yield f"{where} is {mine}, of Apache Kafka {other}"
