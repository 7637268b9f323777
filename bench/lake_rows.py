"""Export a topic to a table: kafkad's data source and export, compared with Spark's own Kafka source.

CPU of all processes is counted, and a slow producer measures its latency meanwhile.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from confluent_kafka import Producer

from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from bench.brokers.jars import spark_kafka_jars
from bench.client_rows import ClientFailed
from bench.connection import Connection
from bench.figures import Figure, cost, rate
from bench.raw_rows import topic
from bench.replies import check_produce
from bench.requests import produce, record_batch
from bench.scale import Scale

_PARTITIONS = 4
_SMALL = 20_000
_TIMEOUT_S = 1_800
_PRODUCED_A_SECOND = 50
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


def lake(broker: RunningBroker, scale: Scale, row: str, *, record_size: int, codec: str, cores: int) -> list[Figure]:
    """Measure each way once, after a run with a smaller topic. Needs the extras spark and delta, and Java."""
    records = scale.lake_bytes // record_size
    with (
        topic(broker, "lake", _PARTITIONS) as name,
        topic(broker, "lake-small", _PARTITIONS) as small,
        topic(broker, "lake-beside", 1) as beside,
    ):
        _fill(broker, name, records, record_size, codec)
        _fill(broker, small, _SMALL, record_size, codec)
        figures = []
        with _producing(broker.port, beside) as produced:
            measured = _measured(broker, name, small, cores)
        for way, began, seconds, client_cpu, broker_cpu in measured:
            used = client_cpu + broker_cpu
            figures += [
                rate(row, f"{way}: records", records / seconds / 1e6, "million/s"),
                rate(row, f"{way}: throughput", records * record_size / seconds / 1e6, "MB/s"),
                rate(row, f"{way}: records for a second of CPU", records / used / 1e6, "million"),
                cost(row, f"{way}: CPU of clients", client_cpu, "s"),
                cost(row, f"{way}: CPU of the broker", broker_cpu, "s"),
                cost(row, f"{way}: produce p99 beside it", _p99(produced, began, began + seconds), "ms"),
            ]
    return figures


@contextmanager
def _producing(port: int, name: str) -> Iterator[list[tuple[float, float]]]:
    """Produce small requests at a steady rate; yields the due time and the latency in milliseconds of each."""
    seen: list[tuple[float, float]] = []
    stop = threading.Event()
    request = produce(name, {0: record_batch(1, 100)})

    def send() -> None:
        with Connection(port) as connection:
            due = time.perf_counter()
            while not stop.wait(max(due - time.perf_counter(), 0)):
                connection.socket.sendall(request)
                check_produce(connection.reply())
                seen.append((due, (time.perf_counter() - due) * 1_000))
                due += 1 / _PRODUCED_A_SECOND

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def _p99(produced: list[tuple[float, float]], began: float, ended: float) -> float:
    """The p99 of the requests that were due in this time."""
    milliseconds = sorted(took for due, took in produced if began <= due < ended)
    if not milliseconds:
        raise ClientFailed("nothing was acknowledged beside a run")
    return milliseconds[len(milliseconds) * 99 // 100]


def _measured(broker: RunningBroker, name: str, small: str, cores: int) -> list[tuple[str, float, float, float, float]]:
    has_files = isinstance(broker, Kafkad)
    with tempfile.TemporaryDirectory(prefix="kafkad-lake-") as folder:
        request = {
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
        # Pins the job with the JVM and its workers; the broker has the remaining cores.
        pinned = ["taskset", "--cpu-list", ",".join(map(str, range(cores)))]
        command = [*pinned, sys.executable, "-m", "bench.lake", json.dumps(request)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment)
    if done.returncode:
        raise ClientFailed(done.stderr[-2_000:])
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return [
        (str(way), float(began), float(seconds), float(clients), float(broker_))
        for way, began, seconds, clients, broker_ in rows
    ]


def _fill(broker: RunningBroker, name: str, records: int, size: int, codec: str) -> None:
    """Produce JSON with realistically repeated fields, in batches of 16 KB."""
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
