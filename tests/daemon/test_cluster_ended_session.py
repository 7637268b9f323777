"""`kafkad brokers end-session`: a broker that crashed as a whole leaves the cluster before its session times out.

And what a broker has missed that goes on after its session has ended. It needs real processes that are killed or stand
still, and a real ZooKeeper.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka import KafkaProducer  # type: ignore[import-untyped]
from kafka.admin import KafkaAdminClient, NewTopic  # type: ignore[import-untyped]
from kafka.errors import KafkaError, MessageSizeTooLargeError  # type: ignore[import-untyped]
from kazoo.client import KazooClient

from bench.brokers.processes import WITHIN_S, eventually
from bench.brokers.zookeeper import ZookeeperServer
from kafkad.adapters.stores.session_file import SessionFile
from tests.daemon.cluster_broker import KafkadInCluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperServer]:
    """Its tests have it stand still, and leave it as it was."""
    made = ZookeeperServer(tmp_path_factory.mktemp("zookeeper"))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def hosts(tmp_path: Path, server: ZookeeperServer) -> str:
    """A chroot of this test alone."""
    return f"{server.hosts}/of{tmp_path}"


@pytest.fixture
def broker(tmp_path: Path, hosts: str) -> Iterator[KafkadInCluster]:
    with KafkadInCluster(tmp_path / "broker", {"zookeeper.connect": hosts, "node.id": "1"}) as made:
        yield made


def end_session(broker: KafkadInCluster) -> tuple[int, str]:
    """(exit code, what it says); with the settings of the broker."""
    command = broker.command()
    at = command.index("start")
    command[at : at + 1] = ["brokers", "end-session"]
    done = subprocess.run(
        command, cwd=broker.working_folder, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_session_of_a_crashed_broker_is_ended(broker: KafkadInCluster, hosts: str) -> None:
    with ExitStack() as ends:
        zookeeper = KazooClient(hosts)
        zookeeper.start()
        ends.callback(zookeeper.close)
        ends.callback(zookeeper.stop)
        code, said = end_session(broker)
        assert (code, "is already locked by pid" in said) == (1, True), said
        assert zookeeper.exists("/brokers/ids/1"), "it runs on"
        broker.kill()
        assert zookeeper.exists("/brokers/ids/1"), "its session lives"
        code, said = end_session(broker)
        assert (code, "is ended." in said) == (0, True), said
        assert not zookeeper.exists("/brokers/ids/1")
        assert end_session(broker) == (0, "No session to end.\n")


def test_a_session_of_an_ensemble_that_is_away_ends_by_itself(broker: KafkadInCluster, server: ZookeeperServer) -> None:
    broker.kill()
    server.pause()
    try:
        code, said = end_session(broker)
    finally:
        server.resume()
    assert (code, "ends by its timeout: ZooKeeper at" in said) == (1, True), said


def test_a_broker_stops_soon_while_zookeeper_is_silent_and_its_session_can_be_ended_later(
    broker: KafkadInCluster, server: ZookeeperServer
) -> None:
    server.pause()
    try:
        broker.stop()
    finally:
        server.resume()
    assert "is killed" not in broker.tail(), "a deadline of the stop was waited for"
    code, said = end_session(broker)
    # The broker's last request, which ends the session, may have waited in the socket of the paused server.
    assert code == 0 and ("is ended." in said or "has already ended." in said), said


def test_what_is_configured_while_a_broker_has_no_session_holds_in_the_next_one(
    broker: KafkadInCluster, hosts: str
) -> None:
    with ExitStack() as ends:
        zookeeper, admin = KazooClient(hosts), KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        zookeeper.start()
        for end in (zookeeper.close, zookeeper.stop, admin.close):
            ends.callback(end)
        admin.create_topics([NewTopic("t", 1, 1)])
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, retries=10)
        ends.callback(producer.close)
        producer.send("t", bytes(1_000)).get(WITHIN_S)
        (controller,) = [each.pid for each in broker.tree() if each.title.endswith("controller-0")]
        os.kill(controller, signal.SIGSTOP)
        try:
            taken = KazooClient(hosts, client_id=SessionFile(broker.log_dir, hosts).read())
            taken.start()
            taken.stop()
            taken.close()
            zookeeper.ensure_path("/config/topics/t")
            zookeeper.set("/config/topics/t", b'{"version":1,"config":{"max.message.bytes":"500"}}')
            note = b'{"version":2,"entity_path":"topics/t"}'
            zookeeper.delete(zookeeper.create("/config/changes/config_change_", note, sequence=True))
        finally:
            os.kill(controller, signal.SIGCONT)

        def is_refused() -> bool:
            try:
                producer.send("t", bytes(1_000)).get(WITHIN_S)
            except MessageSizeTooLargeError:
                return True
            except KafkaError:
                return False
            return False

        eventually(is_refused, what="the configuration holds")
