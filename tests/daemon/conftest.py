"""Brokers of trivial processes, and clusters, gone after the test whatever it did."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.daemon.cluster import Cluster
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
