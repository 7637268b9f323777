"""A cluster with fewer brokers than an internal topic has replicas: the topic is not made, and both brokers say why.

It needs real brokers, as it is about what their logs say.
"""

from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient

from bench.brokers.processes import WITHIN_S, eventually
from bench.brokers.zookeeper import ZookeeperServer
from bench.connection import Connection
from bench.group_replies import is_coordinator_found
from bench.group_requests import find_coordinator
from tests.daemon.cluster_broker import KafkadInCluster

REFUSED = "can't create __consumer_offsets, its coordinators are not available: "


def reasons(broker: KafkadInCluster) -> list[str]:
    return [line.split(REFUSED)[1] for line in broker.tail(1000).splitlines() if REFUSED in line]


def test_both_brokers_say_why_there_are_no_coordinators(tmp_path: Path, zookeeper: ZookeeperServer) -> None:
    """Clients are only told COORDINATOR_NOT_AVAILABLE, and ask again: without a line nobody knows what is missing."""
    with ExitStack() as ends:
        shared = {"zookeeper.connect": f"{zookeeper.hosts}/of{tmp_path}", "offsets.topic.replication.factor": "3"}
        brokers = [
            ends.enter_context(KafkadInCluster(tmp_path / number, {**shared, "node.id": number})) for number in "12"
        ]
        for broker in brokers:
            client = AdminClient({"bootstrap.servers": broker.bootstrap})

            def knows_both(client: AdminClient = client) -> bool:
                return set(client.list_topics(timeout=WITHIN_S).brokers) == {1, 2}

            eventually(knows_both, what="it knows both brokers")
        for broker in brokers:
            with Connection(broker.port) as connection:
                for _ in range(3):
                    assert not is_coordinator_found(connection.request(find_coordinator("a-group", 0)))
            (reason,) = reasons(broker)
            assert "replication factor" in reason.lower(), reason
