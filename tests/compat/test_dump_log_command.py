"""`kafkad dump-log` prints of a partition's files what Kafka's own DumpLogSegments prints of them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.brokers.broker import RunningBroker
from bench.brokers.java import kafka_tool
from bench.brokers.processes import WITHIN_S, eventually

NewTopic = Callable[[str], str]
KINDS = (".log", ".index", ".timeindex", ".txnindex")


@pytest.fixture
def files(broker: RunningBroker, new_topic: NewTopic) -> list[str]:
    """A partition with every codec, keys, headers and nulls, a committed and an aborted transaction."""
    topic = new_topic("dumped")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 50})
        for number in range(200):
            producer.produce(topic, f"value {number}" * 20, key=f"{codec} {number}", headers=[("a", b"1"), ("b", None)])
        producer.produce(topic, None, key="deleted")
        assert producer.flush(60) == 0
    transactional = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    transactional.init_transactions(60)
    for end in (transactional.commit_transaction, transactional.abort_transaction):
        transactional.begin_transaction()
        transactional.produce(topic, "in a transaction")
        assert transactional.flush(60) == 0
        end(60)
    folder: Path = broker.log_dir / f"{topic}-0"
    # EndTxn is answered when the transaction's end is decided; its marker follows.
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    end_offset = 5 * 201 + 2 * len(("record", "marker"))
    eventually(
        lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WITHIN_S)[1] == end_offset,
        what="the last marker is in the log",
    )
    consumer.close()
    return sorted(str(path) for path in folder.iterdir() if path.suffix in KINDS)


def test_both_print_the_same(files: list[str]) -> None:
    assert {Path(name).suffix for name in files} == set(KINDS)
    for options in ([], ["--deep-iteration"], ["--print-data-log"], ["--verify-index-only"]):
        theirs = kafka_tool("kafka-dump-log", *options, "--files", ",".join(files))
        ours = subprocess.run(
            [sys.executable, "-m", "kafkad", "dump-log", *options, *files], capture_output=True, timeout=WITHIN_S
        )
        assert ours.returncode == theirs.returncode == 0, ours.stderr
        assert ours.stdout.decode().splitlines() == theirs.stdout.decode().splitlines(), options
