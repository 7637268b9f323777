"""A topic into a table: our data source and export beside Spark's own Kafka source, CPU of everything counted."""

import json
import os
import subprocess
import sys
import tempfile
from random import Random

from confluent_kafka import Producer

from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from bench.brokers.jars import spark_kafka_jars
from bench.client_rows import ClientFailed
from bench.figures import Figure, cost, rate
from bench.raw_rows import topic
from bench.scale import Scale

_PARTITIONS = 4
_SMALL = 20_000
_TIMEOUT_S = 1_800
_CORES = 2
_OF_ANY_BROKER = (
    "Spark's source to noop",
    "Spark's source to Parquet",
    "data source through the broker to noop",
    "export through the broker to Parquet, Spark",
    "export through the broker to Parquet",
)
_OF_FILES = (
    "data source from files to noop",
    "export from files to Parquet, Spark",
    "export from files to Delta, Spark",
    "export from files to Parquet",
    "export from files to Delta",
)


def lake(
    broker: RunningBroker, scale: Scale, row: str, *, record_size: int, codec: str, cores: int = _CORES
) -> list[Figure]:
    """Each way is measured once, after a smaller topic. Needs the extras spark and delta, and Java."""
    records = scale.lake_bytes // record_size
    with topic(broker, "lake", _PARTITIONS) as name, topic(broker, "lake-small", _PARTITIONS) as small:
        _fill(broker, name, records, record_size, codec)
        _fill(broker, small, _SMALL, record_size, codec)
        figures = []
        for way, seconds, client_cpu, broker_cpu in _measured(broker, name, small, cores):
            used = client_cpu + broker_cpu
            figures += [
                rate(row, f"{way}: records", records / seconds / 1e6, "million/s"),
                rate(row, f"{way}: throughput", records * record_size / seconds / 1e6, "MB/s"),
                rate(row, f"{way}: records for a second of CPU", records / used / 1e6, "million"),
                cost(row, f"{way}: CPU of clients", client_cpu, "s"),
                cost(row, f"{way}: CPU of the broker", broker_cpu, "s"),
            ]
    return figures


def _measured(broker: RunningBroker, name: str, small: str, cores: int) -> list[tuple[str, float, float, float]]:
    has_files = isinstance(broker, Kafkad)
    with tempfile.TemporaryDirectory(prefix="kafkad-lake-") as folder:
        asked = {
            "bootstrap": broker.bootstrap,
            "broker_pid": broker.pid,
            "log_dir": str(broker.log_dir) if has_files else None,
            "topic": name,
            "small_topic": small,
            "folder": folder,
            "jars": [str(jar) for jar in spark_kafka_jars()],
            "cores": cores,
            "ways": [*_OF_ANY_BROKER, *(_OF_FILES if has_files else ())],
        }
        command = [sys.executable, "-m", "bench.lake.job", json.dumps(asked)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment)
    if done.returncode:
        raise ClientFailed(done.stderr[-2_000:])
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return [(str(way), float(seconds), float(clients), float(broker_)) for way, seconds, clients, broker_ in rows]


def _fill(broker: RunningBroker, name: str, records: int, size: int, codec: str) -> None:
    """JSON whose fields repeat as real ones do, in batches of 16 KB."""
    chance = Random(0)
    starts = [f'{{"city":"{chance.choice("ABCD")}{each % 97}","price":{chance.random():.6f},' for each in range(997)]
    padding = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz ", k=size))
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": codec,
            "batch.size": 16_384,
            "linger.ms": 50,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for number in range(records):
        partition, key = number // 100 % _PARTITIONS, b"key %12d" % (number % 100_000)
        start = starts[number % 997] + f'"id":{number},"text":"'
        value = (start + padding[: max(size - len(start) - 2, 0)] + '"}').encode()
        while True:
            try:
                producer.produce(name, value, key=key, partition=partition)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise ClientFailed("records were not delivered")
