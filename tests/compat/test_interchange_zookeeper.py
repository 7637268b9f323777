"""A directory of Apache Kafka 3.9 in ZooKeeper mode goes to kafkad, which compacts some of it, and back, with the
configs of its topics; and one of a broker that was killed in the middle of a compaction.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient

from bench.brokers.apache_on_zookeeper import ApacheKafkaOnZookeeper
from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually
from bench.brokers.zookeeper import ZookeeperServer
from kafkad.cli.commands.adopt import adopt
from kafkad.client.broker_client import BrokerClient
from kafkad.client.configs import topic_configs
from tests.compat import written_logs
from tests.compat.compacted_logs import compact
from tests.compat.killed_in_compaction import CLEANER, write_and_kill_in_mid_compaction
from tests.compat.served_logs import differences, served

_SETTINGS = {
    "producer.id.expiration.ms": "864000000",
    "log.retention.check.interval.ms": "3600000",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
}
_NO_CLEANER = {"log.cleaner.enable": "false"}


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[str]:
    """Where a ZooKeeper serves, with a folder for Kafka."""
    (tmp_path / "zookeeper").mkdir()
    server = ZookeeperServer(tmp_path / "zookeeper")
    yield f"{server.hosts}/kafka"
    server.stop()


def _adopt(log_dir: Path, hosts: str) -> None:
    """The configs come from ZooKeeper."""
    done = CliRunner().invoke(adopt, ["--zookeeper", hosts, "--yes", "--json", str(log_dir)])
    assert done.exit_code == 0, done.output
    topics = {topic["topic"]: topic for topic in json.loads(done.stdout)["topics"]}
    assert {name: topics[name]["configs"] for name in written_logs.TOPICS} == written_logs.TOPICS


def _wait_until_its_session_ends(hosts: str) -> None:
    """A broker that was killed is registered until then, and can't start again."""
    client = KazooClient(hosts)
    client.start()
    eventually(lambda: client.exists("/brokers/ids/1") is None, what="the session has ended")
    client.stop()
    client.close()


def test_a_directory_goes_from_zookeeper_mode_to_kafkad_and_back(tmp_path: Path, hosts: str) -> None:
    apache = ApacheKafkaOnZookeeper(tmp_path / "apache", hosts, _SETTINGS | _NO_CLEANER)
    with apache:
        written_logs.create_all(apache)
        written_logs.write_all(apache, "theirs", 0)
        written_logs.trim(apache, 43)
        theirs = served(apache, written_logs.PARTITIONS)
        assert apache.stop() in apache.clean_exits

        _adopt(apache.log_dir, hosts)
        kafkad = Kafkad(tmp_path / "kafkad", _SETTINGS | _NO_CLEANER)
        kafkad.log_dir = apache.log_dir
        with kafkad:
            with BrokerClient(kafkad.bootstrap, WITHIN_S) as client:
                assert topic_configs(client, list(written_logs.TOPICS)) == written_logs.TOPICS
            assert differences(kafkad, theirs) == []
            written_logs.write_all(kafkad, "ours", 10)
            written_logs.write_to_be_compacted(kafkad, "ours", 10)
            compact(kafkad, written_logs.COMPACTED)
            ours = served(kafkad, written_logs.PARTITIONS)
            assert kafkad.stop() == 0

        apache.start()
        assert differences(apache, ours) == []


def test_a_directory_of_a_killed_broker_in_zookeeper_mode_is_opened(tmp_path: Path, hosts: str) -> None:
    found, adopted = tmp_path / "found", tmp_path / "adopted"
    apache = ApacheKafkaOnZookeeper(tmp_path / "apache", hosts, _SETTINGS | CLEANER)
    with apache:
        theirs = write_and_kill_in_mid_compaction(apache, "theirs")
        for copy in (found, adopted):
            shutil.copytree(apache.log_dir, copy)

        # What Apache Kafka's own recovery makes of it is the measure.
        with open(apache.folder / "server.properties", "a") as properties:
            properties.write("log.cleaner.enable=false\n")
        _wait_until_its_session_ends(hosts)
        apache.start()
        recovered = served(apache, written_logs.PARTITIONS)
        assert {at: recovered[at] for at in theirs} == theirs

        _adopt(adopted, hosts)
        for log_dir in (found, adopted):
            settings = _SETTINGS | _NO_CLEANER | {"log.dirs": str(log_dir)}
            with Kafkad(tmp_path / f"on-{log_dir.name}", settings) as kafkad:
                assert differences(kafkad, recovered) == []
