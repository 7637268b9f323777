"""Unclean leaders where a topic allows them: real brokers that are killed, and the node as ZooKeeper has it."""

import json
from typing import Any

import pytest

from tests.daemon.shared_cluster import SharedCluster


def test_a_topic_that_may_lose_records_gets_a_leader_at_once(cluster: SharedCluster) -> None:
    """And the log says what happened to whom, and why."""
    controller, leader, follower = cluster.from_controller()
    topic = cluster.topic
    cluster.create_led(follower, topic, {0: [leader, follower]})
    cluster.configure(controller, topic, "min.insync.replicas", "1")
    assert cluster.brokers[follower].stop() == 0
    cluster.wait_until(lambda: cluster.in_sync(controller, topic) == [{leader}], "one is in sync")
    cluster.produce(controller, range(0, 300, 3))  # All of partition 0.
    cluster.brokers[leader].kill()
    cluster.wait_until(lambda: cluster.leaders(controller, topic) == [-1], "nobody leads")
    cluster.brokers[follower].start()
    cluster.wait_until(lambda: follower in cluster.known(controller), "who is not in sync is back")
    assert cluster.leaders(controller, topic) == [-1]
    cluster.configure(controller, topic, "unclean.leader.election.enable", "true")
    cluster.wait_until(lambda: cluster.leaders(controller, topic) == [follower], "it leads")
    assert cluster.in_sync(controller, topic) == [{follower}]
    assert state_node(cluster, topic)["leader_recovery_state"] == 1
    cluster.brokers[leader].start()
    cluster.wait_until(
        lambda: cluster.in_sync(controller, topic) == [{leader, follower}], "who led before is in sync again"
    )
    assert "leader_recovery_state" not in state_node(cluster, topic)
    expanded = f" ISR expanded for {topic}-0 from [{follower}] to [{follower},{leader}]: "
    cluster.wait_until(lambda: expanded in logs(cluster), "it is logged")
    unclean = f"(leader {follower}, previous ISR [{leader}], "
    truncated = f" INFO worker-0 log truncated for {topic}-0 from offset 100 to 0 (leader epoch "
    for event, cause in {
        " INFO controller-0 ISR shrunk for ": f": broker {follower} is shutting down",
        f" ERROR controller-0 no leader for {topic}-0 (ISR [{leader}]): ": "no broker of the ISR is live; ",
        f" ERROR controller-0 unclean leader election for {topic}-0 {unclean}": "only the previous",
        f" WARNING controller-0 broker {leader} is treated as failed ": "its host refuses connections",
        f" INFO controller-0 broker {leader} registered ": "with broker epoch ",
        truncated: f"leader {follower} has other records",
    }.items():
        assert any(event in line and cause in line for line in logs(cluster).splitlines()), event


@pytest.mark.parametrize("data", [None, b"garbage"], ids=["removed", "overwritten"])
def test_a_broker_whose_registration_is_lost_registers_again(cluster: SharedCluster, data: bytes | None) -> None:
    """Its session lives: it was away until a restart, and could become a controller that nobody reached."""
    controller, leader, follower = cluster.from_controller()
    cluster.create_led(follower, cluster.topic, {0: [leader, follower]})
    node = f"/brokers/ids/{leader}"
    before, _ = cluster.zookeeper.get(node)
    if data is None:
        cluster.zookeeper.delete(node)
    else:
        cluster.zookeeper.set(node, data)

    def is_back() -> bool:
        registered = cluster.zookeeper.exists(node) and cluster.zookeeper.get(node)[0]
        if not registered or registered == data:
            return False
        return bool(json.loads(registered)["endpoints"] == json.loads(before)["endpoints"])

    cluster.wait_until(is_back, "it is registered again")
    cluster.wait_until(lambda: cluster.in_sync(controller, cluster.topic) == [{leader, follower}], "both are in sync")
    cluster.produce(controller, range(0, 30, 3))
    assert f"the registration of broker {leader} was removed or overwritten" in logs(cluster)


def logs(cluster: SharedCluster) -> str:
    return "".join(broker.output.read_text() for broker in cluster.brokers.values())


def state_node(cluster: SharedCluster, topic: str) -> dict[str, Any]:
    data, _ = cluster.zookeeper.get(f"/brokers/topics/{topic}/partitions/0/state")
    node: dict[str, Any] = json.loads(data)
    return node
