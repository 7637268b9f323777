"""A directory of Apache Kafka 3.9 in ZooKeeper mode goes to kafkad, which compacts some of it, and back, with the
configs of its topics.
"""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.brokers.apache_on_zookeeper import ApacheKafkaOnZookeeper
from bench.brokers.daemon import Kafkad
from bench.brokers.zookeeper import ZookeeperServer
from kafkad.cli.commands.adopt import adopt
from kafkad.client.broker_client import BrokerClient
from tests.compat import written_logs
from tests.compat.compacted_logs import compact
from tests.compat.served_logs import differences, served

_WITHIN_S = 120.0
_SETTINGS = {
    "producer.id.expiration.ms": "864000000",
    "log.retention.check.interval.ms": "3600000",
    "log.cleaner.enable": "false",
}


@pytest.mark.timeout(900)
def test_a_directory_goes_from_zookeeper_mode_to_kafkad_and_back(tmp_path: Path) -> None:
    (tmp_path / "zookeeper").mkdir()
    zookeeper = ZookeeperServer(tmp_path / "zookeeper")
    hosts = f"{zookeeper.hosts}/kafka"
    apache = ApacheKafkaOnZookeeper(tmp_path / "apache", hosts, _SETTINGS)
    with ExitStack() as ends, apache:
        ends.callback(zookeeper.stop)
        written_logs.create_all(apache)
        written_logs.write_all(apache, "theirs", 0)
        written_logs.trim(apache, 43)
        theirs = served(apache, written_logs.PARTITIONS)
        assert apache.stop() in apache.clean_exits

        arguments = ["--zookeeper", hosts, "--yes", "--json", str(apache.log_dir)]
        done = CliRunner().invoke(adopt, arguments)
        assert done.exit_code == 0, done.output
        topics = {topic["topic"]: topic for topic in json.loads(done.stdout)["topics"]}
        assert {name: topics[name]["configs"] for name in written_logs.TOPICS} == written_logs.TOPICS

        kafkad = Kafkad(tmp_path / "kafkad", _SETTINGS)
        kafkad.log_dir = apache.log_dir
        with kafkad:
            with BrokerClient(kafkad.bootstrap, _WITHIN_S) as client:
                assert client.topic_configs(list(written_logs.TOPICS)) == written_logs.TOPICS
            assert differences(kafkad, theirs) == []
            written_logs.write_all(kafkad, "ours", 10)
            written_logs.write_to_be_compacted(kafkad, "ours", 10)
            compact(kafkad, written_logs.COMPACTED)
            ours = served(kafkad, written_logs.PARTITIONS)
            assert kafkad.stop() == 0

        apache.start()
        assert differences(apache, ours) == []
