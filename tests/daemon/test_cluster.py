"""Three brokers on a real ZooKeeper: any of them takes requests, and the cluster goes on when one is killed.

It needs real processes, as brokers and ZooKeeper are killed or stand still.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient

from bench.brokers.processes import WITHIN_S, eventually
from bench.brokers.zookeeper import ZookeeperServer
from kafkad.adapters.stores.session_file import SessionFile
from tests.daemon.cluster import Cluster, rotated
from tests.daemon.cluster_broker import SHORT_SESSION_MS
from tests.daemon.shared_cluster import SharedCluster

OVER = "controller resigned: "
LOST = "ZooKeeper session lost: this broker leads no partitions until it has registered again"


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

    cluster.response(third, lambda client: client.delete_topics([topic, "after"]))
    cluster.wait_until(
        lambda: {topic, "after"}.isdisjoint(cluster.zookeeper.get_children("/brokers/topics")), "the topics are deleted"
    )
    assert [cluster.directories(each, topic) for each in (1, 2, 3)] == [set()] * 3


class ShortSessions(Cluster):
    """They end while ZooKeeper hangs."""

    def settings(self) -> dict[str, str]:
        return {**super().settings(), "zookeeper.session.timeout.ms": str(SHORT_SESSION_MS)}

    def lost_sessions(self) -> int:
        return sum(broker.output.read_text().count(LOST) for broker in self.brokers.values())

    def sessions(self) -> list[tuple[int, bytes]]:
        """The id and the password of each broker's session."""
        hosts = self.brokers[1].overrides["zookeeper.connect"]
        found = [SessionFile(broker.log_dir, hosts).read() for broker in self.brokers.values()]
        return [session for session in found if session is not None]

    def end(self, sessions: Sequence[tuple[int, bytes]]) -> None:
        """Close those that have not expired."""
        for session in sessions:
            client = KazooClient(self.server.hosts, client_id=session)
            client.start(WITHIN_S)
            client.stop()
            client.close()


@pytest.fixture(scope="module")
def brokers_with_short_sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShortSessions]:
    """On a ZooKeeper of their own."""
    with ExitStack() as ends:
        yield ShortSessions(tmp_path_factory.mktemp("short-sessions"), ends)


@pytest.fixture
def short_sessions(brokers_with_short_sessions: ShortSessions) -> Iterator[ShortSessions]:
    yield brokers_with_short_sessions
    brokers_with_short_sessions.end_test()


@pytest.mark.parametrize("how", ["hangs", "is killed"])
def test_producers_notice_nothing_while_zookeeper_is_away_and_lost_sessions_are_replaced(
    short_sessions: ShortSessions, how: str
) -> None:
    cluster, server = short_sessions, short_sessions.server
    assert isinstance(server, ZookeeperServer)
    cluster.topic = how.replace(" ", "-")
    cluster.create_led(1, cluster.topic, rotated(1, 2, 3))
    lost, sessions = cluster.lost_sessions(), cluster.sessions()
    assert len(sessions) == 3
    # Ids of producers come from ZooKeeper, a thousand at a time.
    cluster.produce(1, range(300))
    (server.pause if how == "hangs" else server.kill)()
    away_s = time.monotonic()
    try:
        cluster.produce(2, range(300, 600))
        eventually(lambda: time.monotonic() > away_s + 3 * SHORT_SESSION_MS / 1000, what="sessions have timed out")
        cluster.produce(3, range(600, 900))
    finally:
        (server.resume if how == "hangs" else server.start)()
    if how == "hangs":
        # A ZooKeeper that starts gives sessions their whole time again. One that goes on keeps the session of a broker
        # whose request it reads before it looks at the time.
        cluster.end(sessions)
        eventually(lambda: cluster.lost_sessions() >= lost + 3, what="every broker has lost its session")
    cluster.wait_until(
        lambda: cluster.in_sync(2, cluster.topic) == [{1, 2, 3}] * 3 and -1 not in cluster.leaders(2, cluster.topic),
        "all is led again",
    )
    cluster.produce(1, range(900, 1_200))
    assert cluster.consume(3, "g", 1_200) == sorted(range(1_200))


def test_a_request_in_the_middle_of_which_the_term_ended_is_answered_in_the_next_one(
    short_sessions: ShortSessions,
) -> None:
    cluster = short_sessions
    for each in (1, 2, 3):
        cluster.wait_until(lambda each=each: cluster.known(each) == {1, 2, 3}, "all are registered")  # type: ignore[misc]
    first, second, third = cluster.from_controller()
    output = cluster.brokers[first].output
    terms = output.read_text().count(OVER)
    with ThreadPoolExecutor(1) as thread:
        cluster.server.pause()
        try:
            created = thread.submit(cluster.create, first, "created", {0: [first, second, third]})
            eventually(lambda: output.read_text().count(OVER) > terms, what="the term is over")
        finally:
            cluster.server.resume()
        created.result(WITHIN_S)
    cluster.wait_until(lambda: cluster.leaders(third, "created") == [first], "the topic is there")
