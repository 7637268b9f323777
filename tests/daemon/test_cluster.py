"""Three brokers on a real ZooKeeper: any of them takes requests, and the cluster goes on when one is killed.

It needs real processes, as brokers and ZooKeeper are killed or stand still.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from bench.brokers.processes import WITHIN_S, eventually
from bench.brokers.zookeeper import ZookeeperServer
from tests.daemon.cluster import Cluster, rotated
from tests.daemon.shared_cluster import SharedCluster

OVER = "the term of this controller is over"


@pytest.mark.timeout(600)
def test_three_brokers_serve_clients_and_go_on_when_one_is_killed(cluster: SharedCluster) -> None:
    first, second, third = cluster.from_controller()
    topic, everybody = cluster.topic, [{1, 2, 3}] * 3
    cluster.create_led(third, topic, rotated(first, second, third))
    cluster.produce(second, range(300))
    assert cluster.consume(third, "g", 300) == sorted(range(300))

    cluster.brokers[first].kill()
    cluster.wait_until(lambda: cluster.leaders(third, topic) == [second, second, third], "others lead in its place")
    cluster.wait_until(lambda: cluster.controller(third) in (second, third), "another broker is the controller")
    cluster.produce(second, range(300, 600))
    cluster.create(third, "after", {0: [third], 1: [second]})
    cluster.wait_until(lambda: cluster.leaders(second, "after") == [third, second], "the new controller makes topics")
    cluster.brokers[first].start()
    cluster.wait_until(lambda: cluster.in_sync(second, topic) == everybody, "it has caught up when it is back")
    cluster.elect_preferred_leaders(first)
    cluster.wait_until(lambda: cluster.leaders(third, topic) == [first, second, third], "it leads again")
    cluster.brokers[second].kill()
    cluster.wait_until(lambda: second not in cluster.leaders(third, topic), "the next one is killed, and others lead")
    cluster.produce(third, range(600, 900))
    assert cluster.consume(first, "h", 900) == sorted(range(900))
    cluster.brokers[second].start()
    cluster.wait_until(lambda: cluster.in_sync(first, topic) == everybody, "it has caught up, too")

    client = cluster.admin(third)
    client.delete_topics([topic, "after"])
    client.close()
    cluster.wait_until(
        lambda: {topic, "after"}.isdisjoint(cluster.zookeeper.get_children("/brokers/topics")), "the topics are deleted"
    )
    assert [cluster.directories(each, topic) for each in (1, 2, 3)] == [set()] * 3


class ShortSessions(Cluster):
    """They end while ZooKeeper is away."""

    def settings(self) -> dict[str, str]:
        return {**super().settings(), "zookeeper.session.timeout.ms": "2000"}


@pytest.fixture(scope="module")
def short_sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShortSessions]:
    """On a ZooKeeper of its own, for tests that leave it as it was."""
    with ExitStack() as ends:
        yield ShortSessions(tmp_path_factory.mktemp("short-sessions"), ends)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["hangs", "is killed"])
def test_producers_notice_nothing_while_zookeeper_is_away_and_lost_sessions_are_replaced(
    short_sessions: ShortSessions, how: str
) -> None:
    """A request in the middle of which the term of the controller ended is answered in the next one."""
    cluster, server = short_sessions, short_sessions.server
    assert isinstance(server, ZookeeperServer)
    cluster.topic = how.replace(" ", "-")
    first, second, third = cluster.from_controller()
    cluster.create_led(first, cluster.topic, rotated(first, second, third))
    output = cluster.brokers[first].output
    terms = output.read_text().count(OVER)
    # Ids of producers come from ZooKeeper, a thousand at a time.
    cluster.produce(first, range(300))
    with ThreadPoolExecutor(1) as thread:
        (server.pause if how == "hangs" else server.kill)()
        try:
            cluster.produce(second, range(300, 600))
            cluster.produce(third, range(600, 900))
            created = thread.submit(cluster.create, first, f"{cluster.topic}-created", {0: [first, second, third]})
            eventually(lambda: output.read_text().count(OVER) > terms, what="the term is over")
        finally:
            (server.resume if how == "hangs" else server.start)()
        created.result(WITHIN_S)
    cluster.wait_until(
        lambda: (
            cluster.in_sync(second, cluster.topic) == [{1, 2, 3}] * 3
            and -1 not in cluster.leaders(second, cluster.topic)
        ),
        "all is led again",
    )
    created_name = f"{cluster.topic}-created"
    cluster.wait_until(lambda: cluster.leaders(third, created_name) == [first], "the topic is there")
    cluster.produce(first, range(900, 1_200))
    assert cluster.consume(third, "g", 1_200) == sorted(range(1_200))
