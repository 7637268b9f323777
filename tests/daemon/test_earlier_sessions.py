"""Sessions of a minute: who starts after a crash ends the one before, so nobody waits for that timeout.

Real, for kills and the sessions of a ZooKeeper.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkad.adapters.stores.session_file import FILE_NAME
from tests.daemon.cluster import Cluster

A_MINUTE_MS = 60_000
"""The most that the ensemble of these tests gives."""
GOES_ON = "resumed the session of the previous controller process"
ENDED = "closed the ZooKeeper session of an earlier process of this broker"


class LongSessions(Cluster):
    def settings(self) -> dict[str, str]:
        return {**super().settings(), "zookeeper.session.timeout.ms": str(A_MINUTE_MS)}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as ends:
        made = LongSessions(tmp_path, ends)
        made.create(3, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        made.wait_until(lambda: made.leaders(3, "t") == [1, 2, 3], "the leaders are known")
        yield made


def test_a_broker_that_was_killed_is_back_as_soon_as_it_starts_and_a_stop_leaves_no_session(cluster: Cluster) -> None:
    cluster.produce(2, range(300))
    cluster.brokers[1].kill()
    cluster.brokers[1].start()
    assert ENDED in cluster.brokers[1].output.read_text()
    cluster.wait_until(lambda: cluster.in_sync(2, "t") == [{1, 2, 3}] * 3, "it has caught up")
    cluster.wait_until(lambda: -1 not in cluster.leaders(2, "t"), "all is led")
    cluster.produce(3, range(300, 600))
    assert cluster.consume(2, "g", 600) == list(range(600))
    for broker in cluster.brokers.values():
        assert broker.stop() == 0
        assert not (broker.log_dir / FILE_NAME).exists()
    cluster.wait_until(lambda: cluster.zookeeper.get_children("/brokers/ids") == [], "their sessions have ended")


def test_a_controller_process_that_was_killed_costs_no_election_and_no_session(cluster: Cluster) -> None:
    """Broker 1 is the controller; its next process has another term, in which nothing is elected."""
    cluster.produce(1, range(300))
    before = {path: cluster.zookeeper.get(path) for path in state_paths(cluster)}
    for broker in (2, 1):
        (controller,) = [each.pid for each in cluster.brokers[broker].tree() if each.title.endswith("controller-0")]
        os.kill(controller, signal.SIGKILL)
        cluster.wait_until(
            lambda broker=broker: GOES_ON in cluster.brokers[broker].output.read_text(),  # type: ignore[misc]
            "its successor has the session",
        )
        cluster.produce(broker, range(300 * broker, 300 * (broker + 1)))
        cluster.create(broker, f"new-{broker}", {0: [1, 2, 3]})
        made = f"new-{broker}"
        cluster.wait_until(lambda made=made: cluster.leaders(3, made) == [1], "it is made")  # type: ignore[misc]
    assert {path: cluster.zookeeper.get(path) for path in before} == before
    assert cluster.consume(2, "g", 900) == list(range(900))


def state_paths(cluster: Cluster) -> list[str]:
    topics = cluster.zookeeper.get_children("/brokers/topics")
    return [
        f"/brokers/topics/{topic}/partitions/{index}/state"
        for topic in topics
        for index in cluster.zookeeper.get_children(f"/brokers/topics/{topic}/partitions")
    ]


def test_a_broker_whose_host_refuses_connections_is_led_around_at_once(cluster: Cluster) -> None:
    """Broker 1 is the controller."""
    cluster.produce(2, range(300))
    for killed, first in ((3, 300), (1, 600)):
        cluster.brokers[killed].kill()
        others = {1, 2, 3} - {killed}
        cluster.wait_until(lambda others=others: set(cluster.leaders(2, "t")) <= others, "others lead")  # type: ignore[misc]
        assert str(killed) in cluster.zookeeper.get_children("/brokers/ids"), "before its session has ended"
        cluster.produce(2, range(first, first + 300))
        assert cluster.controller(2) in others
        cluster.brokers[killed].start()
        cluster.wait_until(lambda: cluster.in_sync(2, "t") == [{1, 2, 3}] * 3, "it has caught up")
        assert cluster.consume(2, f"g{killed}", first + 300) == list(range(first + 300))
