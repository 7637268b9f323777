"""Unclean leaders where a topic allows them: real brokers that are killed, and the node as ZooKeeper has it."""

import json
from typing import Any

from tests.daemon.shared_cluster import SharedCluster


def test_a_topic_that_may_lose_records_gets_a_leader_at_once(cluster: SharedCluster) -> None:
    topic = cluster.topic
    cluster.create_led(3, topic, {0: [2, 3]})
    assert cluster.brokers[3].stop() == 0
    cluster.wait_until(lambda: cluster.in_sync(1, topic) == [{2}], "one is in sync")
    cluster.brokers[2].kill()
    cluster.wait_until(lambda: cluster.leaders(1, topic) == [-1], "nobody leads")
    cluster.brokers[3].start()
    cluster.wait_until(lambda: 3 in cluster.known(1), "who is not in sync is back")
    assert cluster.leaders(1, topic) == [-1]
    cluster.configure(1, topic, "unclean.leader.election.enable", "true")
    cluster.wait_until(lambda: cluster.leaders(1, topic) == [3], "it leads")
    assert cluster.in_sync(1, topic) == [{3}]
    assert state_node(cluster, topic)["leader_recovery_state"] == 1
    cluster.brokers[2].start()
    cluster.wait_until(lambda: cluster.in_sync(1, topic) == [{2, 3}], "who led before is in sync again")
    assert "leader_recovery_state" not in state_node(cluster, topic)


def state_node(cluster: SharedCluster, topic: str) -> dict[str, Any]:
    data, _ = cluster.zookeeper.get(f"/brokers/topics/{topic}/partitions/0/state")
    node: dict[str, Any] = json.loads(data)
    return node
