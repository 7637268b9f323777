"""Real brokers for real clients: ours, and stock Apache Kafka beside it; each lives for the whole run.

Tests share them, so every test uses topics of its own name. KAFKAD_COMPAT_SUBJECT=apache puts a second Apache
Kafka in the place of kafkad: what fails then is the test.
"""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from tests.compat.side_by_side import Tools
from tests.tools.tool_server import ToolServer

SUBJECT: type[RunningBroker] = {"kafkad": Kafkad, "apache": ApacheKafka}[
    os.environ.get("KAFKAD_COMPAT_SUBJECT", "kafkad")
]
_numbers = itertools.count()


@pytest.fixture(scope="session")
def kafkad_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with SUBJECT(tmp_path_factory.mktemp("kafkad")) as broker:
        yield broker


@pytest.fixture(scope="session")
def apache_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("apache")) as broker:
        yield broker


@pytest.fixture
def broker(kafkad_broker: RunningBroker) -> RunningBroker:
    """The broker that the clients talk to: ours."""
    return kafkad_broker


@pytest.fixture(scope="session")
def tools(kafkad_broker: RunningBroker, apache_broker: ApacheKafka) -> Iterator[Tools]:
    with ToolServer() as server:
        yield Tools(server, kafkad_broker, apache_broker)


@pytest.fixture
def new_topic() -> Callable[[str], str]:
    """Names that no other test uses: `new_topic("headers")`."""
    return lambda purpose: f"{purpose}-{next(_numbers)}"
