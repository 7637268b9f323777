"""What the brokers of a cluster count: which of them is the controller, and elections that lost records."""

import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S
from tests.daemon.cluster import Cluster

ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"
LAG, DEAD = "kafka_server_replicafetchermanager_maxlag", "kafka_server_replicafetchermanager_deadthreadcount"
FETCHED = "kafka_server_fetcherstats_requests"
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections"
REASSIGNING = "kafka_server_replicamanager_reassigningpartitions"


class MeasuredCluster(Cluster):
    """Each broker has a page of metrics."""

    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self._ports = {str(broker): free_port() for broker in (1, 2, 3)}
        super().__init__(folder, ends)

    def settings_of(self, folder: Path) -> dict[str, str]:
        return {**super().settings_of(folder), "kafkad.metrics.listener": f"127.0.0.1:{self._ports[folder.name]}"}

    def metric(self, broker: int, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[str(broker)]}/metrics", timeout=WITHIN_S) as page:
            lines = page.read().decode().splitlines()
        names = (name + " ", name + "_total ", name + "_total{")
        values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(names)]
        assert values, f"{name} is not on the page"
        return sum(values)

    def active(self, *brokers: int) -> list[int]:
        return [broker for broker in brokers if self.metric(broker, ACTIVE) == 1]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MeasuredCluster]:
    with ExitStack() as ends:
        yield MeasuredCluster(tmp_path, ends)


@pytest.mark.timeout(600)
def test_one_broker_says_that_it_is_the_controller_and_counts_unclean_elections(cluster: MeasuredCluster) -> None:
    cluster.create(3, "t", {0: [1, 2]})
    cluster.wait_until(lambda: cluster.active(1, 2, 3) == [cluster.controller(3)] == [1], "broker 1 is the controller")
    cluster.brokers[1].kill()
    cluster.wait_until(lambda: cluster.active(2, 3) == [cluster.controller(3)], "one of the others is it now")
    assert [cluster.metric(broker, name) for broker in (2, 3) for name in (UNCLEAN, REASSIGNING)] == [0, 0, 0, 0]


@pytest.mark.timeout(600)
def test_a_broker_that_follows_says_how_its_fetchers_do(cluster: MeasuredCluster) -> None:
    cluster.create(1, "t", {0: [1, 2], 1: [1, 2], 2: [1, 2]})
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
