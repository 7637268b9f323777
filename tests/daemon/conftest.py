"""Brokers of trivial processes, clusters, and topics to export, gone after the test whatever it did."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.brokers.daemon import Kafkad
from bench.brokers.zookeeper import ZookeeperServer
from tests.daemon.lake import PARTITIONS, Lake
from tests.daemon.shared_cluster import SharedCluster
from tests.daemon.supervised import TrivialBroker
from tests.tools.names import name_of


@pytest.fixture
def brokers() -> Iterator[list[TrivialBroker]]:
    started: list[TrivialBroker] = []
    yield started
    for broker in started:
        broker.end()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: sockets need short paths."""
    with tempfile.TemporaryDirectory(prefix="kt-") as name:
        yield Path(name)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperServer]:
    """One for all clusters of a test run that leave it alone; each of them has a chroot."""
    server = ZookeeperServer(tmp_path_factory.mktemp("zookeeper"))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def _running_cluster(tmp_path_factory: pytest.TempPathFactory, zookeeper: ZookeeperServer) -> Iterator[SharedCluster]:
    with ExitStack() as ends:
        yield SharedCluster(tmp_path_factory.mktemp("cluster"), ends, zookeeper)


@pytest.fixture
def cluster(_running_cluster: SharedCluster) -> Iterator[SharedCluster]:
    _running_cluster.begin_test()
    yield _running_cluster
    _running_cluster.end_test()


@pytest.fixture(scope="session")
def lake_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    """One for all lakes; their topics have several segments."""
    settings = {"log.segment.bytes": "1048576", "num.partitions": str(PARTITIONS)}
    with Kafkad(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


@pytest.fixture
def lake(lake_broker: Kafkad, tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    return Lake(lake_broker, tmp_path, name_of(request))
