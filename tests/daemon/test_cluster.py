"""Three brokers on a real ZooKeeper: any of them takes requests, and the cluster goes on when one is killed."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.brokers.processes import WITHIN_S, eventually
from bench.brokers.zookeeper import ZookeeperServer
from tests.daemon.cluster import Cluster
from tests.daemon.cluster_broker import SESSION_TIMEOUT_MS


@pytest.mark.timeout(600)
def test_three_brokers_serve_clients_and_go_on_when_one_is_killed(cluster: Cluster) -> None:
    assert {cluster.controller(each) for each in (1, 2, 3)} == {1}
    cluster.create(3, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    for broker in (1, 2, 3):
        cluster.wait_until(
            lambda broker=broker: cluster.leaders(broker, "t") == [1, 2, 3],  # type: ignore[misc]
            f"broker {broker} knows the leaders",
        )
    cluster.produce(2, range(300))
    assert cluster.consume(3, "g", 300) == sorted(range(300))

    cluster.brokers[1].kill()
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [2, 2, 3], "others lead in its place")
    cluster.wait_until(lambda: cluster.controller(3) in (2, 3), "another broker is the controller")
    cluster.produce(2, range(300, 600))
    cluster.create(3, "after", {0: [3], 1: [2]})
    cluster.wait_until(lambda: cluster.leaders(2, "after") == [3, 2], "the new controller makes topics")
    cluster.brokers[1].start()
    cluster.wait_until(lambda: cluster.in_sync(2, "t") == [{1, 2, 3}] * 3, "it has caught up when it is back")
    cluster.elect_preferred_leaders(1)
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [1, 2, 3], "it leads again")
    cluster.brokers[2].kill()
    cluster.wait_until(lambda: 2 not in cluster.leaders(3, "t"), "the next one is killed, and others lead")
    cluster.produce(3, range(600, 900))
    assert cluster.consume(1, "h", 900) == sorted(range(900))
    cluster.brokers[2].start()
    cluster.wait_until(lambda: cluster.in_sync(1, "t") == [{1, 2, 3}] * 3, "it has caught up, too")

    client = cluster.admin(3)
    client.delete_topics(["t", "after"])
    client.close()
    cluster.wait_until(
        lambda: {"t", "after"}.isdisjoint(cluster.zookeeper.get_children("/brokers/topics")), "the topics are deleted"
    )
    left = [path.name for each in cluster.brokers.values() for path in each.log_dir.glob("t-[0-9]")]
    assert left == []
    assert {each: running.stop() for each, running in cluster.brokers.items()} == {1: 0, 2: 0, 3: 0}
    cluster.wait_until(lambda: cluster.zookeeper.get_children("/brokers/ids") == [], "their sessions have ended")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["hangs", "is killed"])
def test_producers_notice_nothing_while_zookeeper_is_away_and_lost_sessions_are_replaced(
    cluster: Cluster, how: str
) -> None:
    server = cluster.server
    assert isinstance(server, ZookeeperServer)
    cluster.create(1, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [1, 2, 3], "broker 3 knows the leaders")
    # Ids of producers come from ZooKeeper, a thousand at a time.
    cluster.produce(1, range(300))
    (server.pause if how == "hangs" else server.kill)()
    paused_s = time.monotonic()
    try:
        cluster.produce(2, range(300, 600))
        eventually(lambda: time.monotonic() > paused_s + 3 * SESSION_TIMEOUT_MS / 1000, what="it is long")
        cluster.produce(3, range(600, 900))
    finally:
        (server.resume if how == "hangs" else server.start)()
    cluster.wait_until(
        lambda: cluster.in_sync(2, "t") == [{1, 2, 3}] * 3 and -1 not in cluster.leaders(2, "t"), "all is led again"
    )
    cluster.produce(1, range(900, 1_200))
    assert cluster.consume(3, "g", 1_200) == sorted(range(1_200))


@pytest.mark.timeout(600)
def test_a_request_in_the_middle_of_which_the_term_ended_is_answered_in_the_next_one(cluster: Cluster) -> None:
    with ThreadPoolExecutor(1) as thread:
        cluster.server.pause()
        try:
            created = thread.submit(cluster.create, 1, "t", {0: [1, 2, 3]})
            output = cluster.brokers[1].output
            eventually(lambda: "the term of this controller is over" in output.read_text(), what="it is over")
        finally:
            cluster.server.resume()
        created.result(WITHIN_S)
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [1], "the topic is there")
