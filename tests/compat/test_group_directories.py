"""One log directory, two brokers in turn: the groups and offsets of Apache Kafka are kept by kafkad, and back."""

import json
import subprocess
import sys
from pathlib import Path

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from bench.brokers.java import kafka_tool
from bench.brokers.processes import WITHIN_S
from tests.compat.group_members import Member, produce

_SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"}
_TOPIC = "orders"


def _offsets(broker: RunningBroker) -> dict[str, dict[int, int]]:
    """By group and partition."""
    command = [sys.executable, "-m", "kafkad", "groups", "describe", "--json", "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(command, capture_output=True, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr.decode()
    return {
        group["group"]: {row["partition"]: row["current_offset"] for row in group["offsets"]}
        for group in json.loads(done.stdout)
    }


def _reset(broker: RunningBroker, group: str, *args: str) -> None:
    command = ("--bootstrap-server", broker.bootstrap, "--reset-offsets", "--group", group, "--topic", _TOPIC)
    done = kafka_tool("kafka-consumer-groups", *command, *args, "--execute")
    assert done.returncode == 0, done.stderr.decode()


def test_groups_go_from_apache_kafka_to_kafkad_and_back(tmp_path: Path) -> None:
    apache = ApacheKafka(tmp_path / "apache", _SETTINGS)
    with apache:
        create = ("--bootstrap-server", apache.bootstrap, "--create", "--topic", _TOPIC, "--partitions", "2")
        assert kafka_tool("kafka-topics", *create).returncode == 0
        produce(apache.bootstrap, _TOPIC, b"a", b"b", b"c", b"d")
        with Member(apache.bootstrap, "readers", _TOPIC) as member:
            assert member.read(2) == [b"a", b"b"]
        for group in ("tools", "gone"):
            _reset(apache, group, "--to-latest")
        delete = ("--bootstrap-server", apache.bootstrap, "--delete", "--group", "gone")
        assert kafka_tool("kafka-consumer-groups", *delete).returncode == 0
        before = _offsets(apache)
    assert before == {"readers": {0: 2}, "tools": {0: 4, 1: 0}}
    with Kafkad(tmp_path / "kafkad", _SETTINGS | {"log.dirs": str(apache.log_dir)}) as kafkad:
        assert _offsets(kafkad) == before
        with Member(kafkad.bootstrap, "readers", _TOPIC) as member:
            assert member.read(1) == [b"c"]
        _reset(kafkad, "tools", "--shift-by", "-3")
        _reset(kafkad, "new", "--to-offset", "2")
        after = _offsets(kafkad)
        assert kafkad.stop() == 0
    assert after == {"readers": {0: 3}, "tools": {0: 1, 1: 0}, "new": {0: 2, 1: 0}}
    with apache.started_again():
        assert _offsets(apache) == after
        with Member(apache.bootstrap, "readers", _TOPIC) as member:
            assert member.read(1) == [b"d"]
