"""Kafka's own Java clients: keys, headers and nulls through the console tools, fetch sessions over many partitions."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.brokers.broker import RunningBroker
from bench.brokers.java import class_path, kafka_tool
from bench.brokers.processes import WITHIN_S
from tests.compat.python_clients import ConfluentKafka, KafkaPython
from tests.compat.records import AN_HOUR_AGO_MS, Record
from tests.compat.side_by_side import Tools

NewTopic = Callable[[str], str]
_SESSIONS = Path(__file__).parent / "java_sources" / "SessionReader.java"


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_the_java_producer_sends_python_reads(
    broker: RunningBroker, tools: Tools, new_topic: NewTopic, codec: str, idempotent: bool
) -> None:
    topic = tools.create(new_topic("java"))
    lines = b"".join(b"trace:t%d,step:%d|k%d|value %d\n" % (n, n, n % 7, n) for n in range(500))
    args = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--compression-codec", codec]
    args += ["--command-property", f"enable.idempotence={str(idempotent).lower()}"]
    for setting in ("parse.key=true", "parse.headers=true", "headers.delimiter=|", "key.separator=|"):
        args += ["--reader-property", setting]
    done = kafka_tool("kafka-console-producer", *args, input=lines)
    assert done.returncode == 0, done.stderr.decode()
    for client in (ConfluentKafka(), KafkaPython()):
        for n, record in enumerate(client.consume(broker.bootstrap, topic, 0, 500)):
            assert record.value == b"value %d" % n, client.name
            assert record.key == b"k%d" % (n % 7)
            assert record.headers == (("trace", b"t%d" % n), ("step", b"%d" % n))


def test_the_console_consumer_prints_keys_headers_nulls_and_timestamps(
    broker: RunningBroker, tools: Tools, new_topic: NewTopic
) -> None:
    topic = tools.create(new_topic("printed"))
    records = [
        Record(b"value", b"key", (("name", b"content"),), timestamp=AN_HOUR_AGO_MS + 1),
        Record(None, b"deleted", timestamp=AN_HOUR_AGO_MS + 2),
        Record(b"", None, timestamp=AN_HOUR_AGO_MS + 3),
    ]
    ConfluentKafka().produce(broker.bootstrap, topic, records, compression="none", idempotent=True)
    args = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0", "--offset", "0"]
    args += ["--max-messages", "3", "--timeout-ms", "30000"]
    for setting in ("print.timestamp", "print.offset", "print.partition", "print.headers", "print.key"):
        args += ["--formatter-property", f"{setting}=true"]
    done = kafka_tool("kafka-console-consumer", *args)
    assert done.stdout.decode().splitlines() == [
        f"CreateTime:{AN_HOUR_AGO_MS + 1}\tPartition:0\tOffset:0\tname:content\tkey\tvalue",
        f"CreateTime:{AN_HOUR_AGO_MS + 2}\tPartition:0\tOffset:1\tNO_HEADERS\tdeleted\tnull",
        f"CreateTime:{AN_HOUR_AGO_MS + 3}\tPartition:0\tOffset:2\tNO_HEADERS\tnull\t",
    ]


def test_the_console_consumer_starts_at_an_offset_and_at_the_end(
    broker: RunningBroker, tools: Tools, new_topic: NewTopic
) -> None:
    topic = tools.create(new_topic("from"))
    records = [Record(b"%d" % n) for n in range(10)]
    ConfluentKafka().produce(broker.bootstrap, topic, records, compression="none", idempotent=True)
    args = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0", "--timeout-ms", "2000"]
    from_seven = kafka_tool("kafka-console-consumer", *args, "--offset", "7")
    assert from_seven.stdout == b"7\n8\n9\n"
    at_end = kafka_tool("kafka-console-consumer", *args, "--offset", "latest")
    assert at_end.stdout == b""


def test_a_fetch_session_over_many_partitions_brings_every_record_once(
    broker: RunningBroker, tools: Tools, new_topic: NewTopic
) -> None:
    """The Java consumer keeps an incremental fetch session: 300 partitions, records trickling into a few."""
    topic = tools.create(new_topic("session"), "--partitions", "300")
    command = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", *class_path(), str(_SESSIONS)]
    done = subprocess.run(
        [*command, broker.bootstrap, topic, "300", "40"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WITHIN_S,
    )
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    assert done.stdout.decode().split() == ["rounds=40", "records=2000", "misplaced=0"]
