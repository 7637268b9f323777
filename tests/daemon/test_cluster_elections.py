"""Leaders of a cluster that nobody asks for: preferred ones lead again, and unclean ones where a topic allows them."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType  # type: ignore[import-untyped]

from tests.daemon.cluster import Cluster


class Balanced(Cluster):
    """It looks for preferred leaders all the time."""

    def settings(self) -> dict[str, str]:
        often = {"auto.leader.rebalance.enable": "true", "leader.imbalance.check.interval.seconds": "1"}
        return {**super().settings(), **often}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as ends:
        yield Balanced(tmp_path, ends)


@pytest.mark.timeout(600)
def test_a_broker_that_is_back_leads_what_is_its_own(cluster: Cluster) -> None:
    cluster.create(3, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [1, 2, 3], "broker 3 knows the leaders")
    cluster.produce(2, range(300))
    cluster.brokers[1].kill()
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [2, 2, 3], "others lead in its place")
    cluster.produce(2, range(300, 600))
    cluster.brokers[1].start()
    cluster.wait_until(lambda: cluster.leaders(2, "t") == [1, 2, 3], "it leads again")
    cluster.produce(3, range(600, 900))
    assert cluster.consume(2, "g", 900) == sorted(range(900))


def allow_unclean_elections(cluster: Cluster, broker: int, topic: str) -> None:
    client = cluster.admin(broker)
    try:
        client.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, configs={"unclean.leader.election.enable": "true"})]
        )
    finally:
        client.close()


@pytest.mark.timeout(600)
def test_a_topic_that_may_lose_records_gets_a_leader_at_once(cluster: Cluster) -> None:
    cluster.create(3, "u", {0: [2, 3]})
    cluster.wait_until(lambda: cluster.leaders(1, "u") == [2], "broker 1 knows the leader")
    assert cluster.brokers[3].stop() == 0
    cluster.wait_until(lambda: cluster.in_sync(1, "u") == [{2}], "one is in sync")
    cluster.brokers[2].kill()
    cluster.wait_until(lambda: cluster.leaders(1, "u") == [-1], "nobody leads")
    cluster.brokers[3].start()
    cluster.wait_until(lambda: 3 in cluster.known(1), "who is not in sync is back")
    assert cluster.leaders(1, "u") == [-1]
    allow_unclean_elections(cluster, 1, "u")
    cluster.wait_until(lambda: cluster.leaders(1, "u") == [3], "it leads")
    assert cluster.in_sync(1, "u") == [{3}]
    assert state_node(cluster, "u")["leader_recovery_state"] == 1
    cluster.brokers[2].start()
    cluster.wait_until(lambda: cluster.in_sync(1, "u") == [{2, 3}], "who led before is in sync again")
    assert "leader_recovery_state" not in state_node(cluster, "u")


def state_node(cluster: Cluster, topic: str) -> dict[str, Any]:
    data, _ = cluster.zookeeper.get(f"/brokers/topics/{topic}/partitions/0/state")
    node: dict[str, Any] = json.loads(data)
    return node
