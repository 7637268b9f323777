"""The options that Apache Kafka's own sample files set: each file starts, or says in one line why not."""

from pathlib import Path

import pytest

from kafkad.config import Endpoint
from tests.config.configurations import configured

SOCKETS = """
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.retention.check.interval.ms=300000
"""
ZOOKEEPER = (
    SOCKETS
    + """
broker.id=0
log.dirs=/tmp/kafka-logs
num.recovery.threads.per.data.dir=1
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""
)
KRAFT = (
    SOCKETS
    + """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs=/tmp/kraft-combined-logs
num.recovery.threads.per.data.dir=1
log.segment.bytes=1073741824
"""
)
KRAFT_3_9 = KRAFT + "controller.quorum.voters=1@localhost:9093\n"
KRAFT_4_3 = (
    KRAFT
    + """
controller.quorum.bootstrap.servers=localhost:9093
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""
)
KRAFT_BROKER = KRAFT_4_3 + (
    "process.roles=broker\nnode.id=2\nlisteners=PLAINTEXT://localhost:9092\n"
    "advertised.listeners=PLAINTEXT://localhost:9092\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


@pytest.mark.parametrize("text", [KRAFT_3_9, KRAFT_4_3], ids=["3.9", "4.3"])
def test_kraft_file_starts_without_its_controller_listener(path: Path, text: str) -> None:
    path.write_text(text)
    config = configured(path=path)
    (listener,) = config.network.listeners
    assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", "", 9092)
    assert listener.advertised == Endpoint(host="localhost", port=9092)
    assert config.log_dirs.log_dirs == ("/tmp/kraft-combined-logs",)
    assert "listener CONTROLLER has no effect: it is for KRaft controllers" in config.notices[-1]
    assert len(config.notices) == len(set(config.notices))


def test_kraft_broker_file_starts(path: Path) -> None:
    path.write_text(KRAFT_BROKER)
    assert configured(path=path).node_id == 2


def test_zookeeper_file_is_that_of_a_broker_in_a_cluster(path: Path) -> None:
    path.write_text(ZOOKEEPER)
    config = configured(path=path)
    assert config.cluster is not None
    assert (config.node_id, config.cluster.zookeeper_connect) == (0, "localhost:2181")
    assert config.cluster.zookeeper_connection_timeout_ms == 18_000


def test_zookeeper_file_starts_a_single_broker_without_that_line(path: Path) -> None:
    path.write_text(ZOOKEEPER.replace("zookeeper.connect=localhost:2181\n", ""))
    assert (configured(path=path).node_id, configured(path=path).cluster) == (0, None)
