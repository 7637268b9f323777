"""Unclean leaders where a topic allows them: real brokers that are killed, and the node as ZooKeeper has it."""

import json
from typing import Any

from tests.daemon.shared_cluster import SharedCluster


def test_a_topic_that_may_lose_records_gets_a_leader_at_once(cluster: SharedCluster) -> None:
    """And the log says what happened to whom, and why."""
    topic = cluster.topic
    cluster.create_led(3, topic, {0: [2, 3]})
    cluster.configure(1, topic, "min.insync.replicas", "1")
    assert cluster.brokers[3].stop() == 0
    cluster.wait_until(lambda: cluster.in_sync(1, topic) == [{2}], "one is in sync")
    cluster.produce(1, range(0, 300, 3))  # All of partition 0.
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
    cluster.wait_until(lambda: f" ISR expanded for {topic}-0 from [3] to [3,2]: " in logs(cluster), "it is logged")
    for event, cause in {
        " INFO controller-0 ISR shrunk for ": ": broker 3 is shutting down",
        f" ERROR controller-0 no leader for {topic}-0 (ISR [2]): ": "no broker of the ISR is live; ",
        f" ERROR controller-0 unclean leader election for {topic}-0 (leader 3, former ISR [2], ": "only the former",
        " WARNING controller-0 broker 2 counts as gone ": "its host refuses connections",
        " INFO controller-0 broker 2 ": ": it is registered, its epoch is ",
        f" INFO worker-0 log truncated for {topic}-0 from offset 100 to 0 (leader epoch ": "leader 3 has other records",
    }.items():
        assert any(event in line and cause in line for line in logs(cluster).splitlines()), event


def logs(cluster: SharedCluster) -> str:
    return "".join(broker.output.read_text() for broker in cluster.brokers.values())


def state_node(cluster: SharedCluster, topic: str) -> dict[str, Any]:
    data, _ = cluster.zookeeper.get(f"/brokers/topics/{topic}/partitions/0/state")
    node: dict[str, Any] = json.loads(data)
    return node
