"""Brokers of trivial processes, clusters, and topics to export, gone after the test whatever it did."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.brokers.daemon import Kafkad
from tests.daemon.cluster import Cluster
from tests.daemon.lake import PARTITIONS, Lake
from tests.daemon.supervised import TrivialBroker


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


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as ends:
        yield Cluster(tmp_path, ends)


@pytest.fixture(scope="session")
def lake_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    """One for all lakes; their topics have several segments."""
    settings = {"log.segment.bytes": "1048576", "num.partitions": str(PARTITIONS)}
    with Kafkad(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


@pytest.fixture
def lake(lake_broker: Kafkad, tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    return Lake(lake_broker, tmp_path, "".join(each if each.isalnum() else "-" for each in request.node.name))
