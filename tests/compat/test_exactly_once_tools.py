"""Kafka's own testers of groups and transactions: what VerifiableProducer writes, TransactionalMessageCopier copies
while workers are killed, and VerifiableConsumer reads in a group; every record is there once."""

import json
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers.broker import RunningBroker
from bench.brokers.java import class_path
from bench.brokers.processes import WITHIN_S, eventually, kill_all
from tests.amounts import amount
from tests.compat.conftest import SUBJECT

_PARTITIONS = 2
_RECORDS = amount("verified_records")
_TOOLS = "org.apache.kafka.tools"


def _command(name: str, *args: str) -> list[str]:
    return ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", *class_path(), f"{_TOOLS}.{name}", *args]


@contextmanager
def _running(name: str, output: Path, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """A tool at work; its lines go to `output`, and it is gone afterwards."""
    with open(output, "wb") as lines:
        process = subprocess.Popen(_command(name, *args), stdin=subprocess.DEVNULL, stdout=lines, stderr=lines)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _told(output: Path) -> list[dict[str, Any]]:
    """The lines that are JSON, as far as they are whole."""
    lines = output.read_text(errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def _make(broker: RunningBroker, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, _PARTITIONS, 1) for topic in topics]).values():
        made.result(30)


def _fill(broker: RunningBroker, topic: str) -> None:
    """The numbers from 0 on, one a record."""
    args = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--max-messages", str(_RECORDS)]
    done = subprocess.run(_command("VerifiableProducer", *args, "--acks", "-1"), capture_output=True, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    lines = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]
    assert [line["acked"] for line in lines if line["name"] == "tool_data"] == [_RECORDS]


def _committed(broker: RunningBroker, topic: str) -> list[int]:
    """Every record of the topic that somebody reads who reads what is committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"reader of {topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(_PARTITIONS)])
    values, ends = [], 0
    while ends < _PARTITIONS:
        for message in consumer.consume(1_000, timeout=30):
            if message.error() is not None:
                ends += 1
            else:
                values.append(int(message.value() or b""))
    consumer.close()
    return values


def test_what_is_copied_in_transactions_is_there_once_whoever_is_killed(tmp_path: Path) -> None:
    overrides = {
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "num.io.threads": "2",
    }
    chosen = random.Random(3)
    with SUBJECT(tmp_path / "broker", overrides) as broker:
        _make(broker, "source", "target")
        _fill(broker, "source")
        outputs = [tmp_path / f"copier-{partition}.log" for partition in range(_PARTITIONS)]
        with (
            _running("TransactionalMessageCopier", outputs[0], *_copying(broker, 0)),
            _running("TransactionalMessageCopier", outputs[1], *_copying(broker, 1)),
        ):
            for share in range(1, 5):
                _wait_for(outputs, share * _RECORDS // 6)
                kill_all([chosen.choice([each for each in broker.tree() if each.name.startswith("worker")])])
            eventually(lambda: _remaining(outputs) == 0, what="all records are copied")
        assert sorted(_committed(broker, "target")) == list(range(_RECORDS))


def _copying(broker: RunningBroker, partition: int) -> list[str]:
    args = {
        "broker-list": broker.bootstrap,
        "input-topic": "source",
        "input-partition": str(partition),
        "output-topic": "target",
        "consumer-group": f"copiers-{partition}",
        "transactional-id": f"copier-{partition}",
        "transaction-size": "40",
        "transaction-timeout": "20000",
    }
    return [*(part for name, value in args.items() for part in (f"--{name}", value)), "--enable-random-aborts"]


def _wait_for(outputs: list[Path], copied: int) -> None:
    eventually(lambda: _copied(outputs) >= copied, what=f"{copied} records are copied")


def _copied(outputs: list[Path]) -> int:
    return sum(max((row.get("consumed", 0) for row in _told(output)), default=0) for output in outputs)


def _remaining(outputs: list[Path]) -> int:
    last = [rows[-1].get("remaining", 1) if (rows := _told(output)) else 1 for output in outputs]
    return sum(int(each) for each in last)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_verifiable_consumers_share_a_topic_in_a_group(broker: RunningBroker, tmp_path: Path, protocol: str) -> None:
    topic = f"verified-{protocol}"
    _make(broker, topic)
    _fill(broker, topic)
    outputs = [tmp_path / f"consumer-{number}.log" for number in range(2)]
    args = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--group-id", topic]
    args += ["--reset-policy", "earliest", "--group-protocol", protocol]
    with (
        _running("VerifiableConsumer", outputs[0], *args),
        _running("VerifiableConsumer", outputs[1], *args),
    ):
        eventually(lambda: _consumed(outputs) >= _RECORDS, what="every record was consumed")
        eventually(lambda: _shared(outputs), what="each consumer has a partition")


def _consumed(outputs: list[Path]) -> int:
    """Records at different places: a rebalance may bring one to both, before the first has committed it."""
    ends: dict[int, int] = {}
    for output in outputs:
        for row in _told(output):
            for each in row.get("partitions", ()) if row["name"] == "records_consumed" else ():
                ends[each["partition"]] = max(ends.get(each["partition"], 0), each["maxOffset"] + 1)
    return sum(ends.values())


def _shared(outputs: list[Path]) -> bool:
    held = []
    for output in outputs:
        owned: set[int] = set()
        for row in _told(output):
            partitions = {each["partition"] for each in row.get("partitions", ()) if isinstance(each, dict)}
            if row["name"] == "partitions_assigned":
                owned |= partitions
            elif row["name"] == "partitions_revoked":
                owned -= partitions
        held.append(owned)
    return all(len(owned) == 1 for owned in held) and set().union(*held) == {0, 1}
