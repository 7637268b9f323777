"""What the brokers of a cluster count: which of them is the controller, and elections that lost records.

It needs real brokers, which are killed, and their pages.
"""

from tests.daemon.shared_cluster import SharedCluster

ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"
TOPICS = "kafka_controller_kafkacontroller_globaltopiccount"
LAG, DEAD = "kafka_server_replicafetchermanager_maxlag", "kafka_server_replicafetchermanager_deadthreadcount"
FETCHED = "kafka_server_fetcherstats_requests"
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections"
REASSIGNING = "kafka_server_replicamanager_reassigningpartitions"


def active(cluster: SharedCluster, *brokers: int) -> list[int]:
    return [broker for broker in brokers if cluster.metric(broker, ACTIVE) == 1]


def counting(cluster: SharedCluster, *brokers: int) -> list[int]:
    return [broker for broker in brokers if cluster.metric(broker, TOPICS) > 0]


def test_one_broker_says_that_it_is_the_controller_and_counts_unclean_elections(cluster: SharedCluster) -> None:
    first, second, third = cluster.from_controller()
    cluster.create_led(third, cluster.topic, {0: [first, second]})
    cluster.wait_until(lambda: active(cluster, 1, 2, 3) == [first], "it says so, and nobody else")
    cluster.wait_until(lambda: counting(cluster, 1, 2, 3) == [first], "it counts the cluster, and nobody else")
    unclean = [cluster.metric(broker, UNCLEAN) for broker in (second, third)]
    cluster.brokers[first].kill()
    cluster.wait_until(lambda: active(cluster, second, third) == [cluster.controller(third)], "another one is it now")
    cluster.wait_until(lambda: counting(cluster, second, third) == [cluster.controller(third)], "that one counts")
    assert [cluster.metric(broker, UNCLEAN) for broker in (second, third)] == unclean
    assert [cluster.metric(broker, REASSIGNING) for broker in (second, third)] == [0, 0]


def test_a_broker_that_follows_says_how_its_fetchers_do(cluster: SharedCluster) -> None:
    cluster.create_led(1, cluster.topic, {0: [1, 2], 1: [1, 2], 2: [1, 2]})
    cluster.produce(1, range(100))
    cluster.wait_until(lambda: cluster.metric(2, FETCHED) > 0, "broker 2 fetches")
    cluster.wait_until(lambda: cluster.metric(2, LAG) == 0, "it has everything")
    assert [cluster.metric(2, name) for name in (DEAD, "kafka_server_replicafetchermanager_failedpartitionscount")] == [
        0,
        0,
    ]
    cluster.wait_until(
        lambda: cluster.metric(2, "kafka_server_replicafetchermanager_minfetchrate") > 0, "requests a second are shown"
    )
