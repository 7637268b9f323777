"""Many records in rounds, while transactions are written and what the table has is deleted and compacted in the log.

KAFKAD_LAKE_RECORDS says how many, by default few enough for every run of the tests.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from bench.brokers.daemon import Kafkad
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient
from kafkad.client.groups import committed_offsets

RECORDS = int(os.environ.get("KAFKAD_LAKE_RECORDS", "40000"))
WITHIN_S = 300.0 + RECORDS / 1_000
PARTITIONS = 3
_KEYS = 1_000
_ROUNDS = 4
_COLUMNS = ["partition", "offset", "key", "value", "timestamp", "timestampType"]
_SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.segment.delete.delay.ms": "50",
    "log.cleaner.backoff.ms": "50",
    "log.initial.task.delay.ms": "0",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


class Lake:
    """A topic, its table, and what was committed to it."""

    def __init__(self, broker: Kafkad, folder: Path, table: str, topic: str, **configs: str) -> None:
        self.broker = broker
        self.topic = topic
        self.committed: set[bytes] = set()
        self._table = table
        self._out = folder / "table"
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic(topic, partitions=PARTITIONS, replication_factor=BROKER_DEFAULT, configs=configs)

    def write(self, count: int) -> None:
        """In transactions, of which a fifth is aborted."""
        chance = Random(self.topic)
        producer = Producer(
            {"bootstrap.servers": self.broker.bootstrap, "transactional.id": self.topic, "linger.ms": 5}
        )
        producer.init_transactions(WITHIN_S)
        number = 0
        while number < count:
            producer.begin_transaction()
            values = [b"%d" % each for each in range(number, min(count, number + chance.randrange(1, 2_000)))]
            for value in values:
                producer.produce(self.topic, value, key=b"%d" % (int(value) % _KEYS), partition=int(value) % PARTITIONS)
                producer.poll(0)
            # librdkafka may end a transaction of which the coordinator knows nothing yet.
            producer.flush(WITHIN_S)
            if chance.random() < 0.2:
                producer.abort_transaction(WITHIN_S)
            else:
                producer.commit_transaction(WITHIN_S)
                self.committed.update(values)
            number += len(values)

    def export(self, verb: str, *options: str) -> str:
        command = [
            *(sys.executable, "-m", "kafkad", "export", verb, "--topic", self.topic, "--out", str(self._out)),
            *("--bootstrap-server", self.broker.bootstrap, "--format", self._table, *options),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def paths(self) -> list[str]:
        return self.export("files").splitlines()

    def delete_exported(self) -> None:
        """From the log, what the table has."""
        with BrokerClient(self.broker.bootstrap) as client:
            ends = committed_offsets(client, f"kafkad-export-{self.topic}")
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        wanted = [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()]
        for future in admin.delete_records(wanted).values():
            future.result(WITHIN_S)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Kafkad]:
    with Kafkad(tmp_path / "broker", _SETTINGS) as running:
        yield running


def rounds_beside(lake: Lake, write: Callable[[], None], source: str, after_each: Callable[[], None]) -> None:
    """Export while it is written, and to the end."""
    writing = threading.Thread(target=write)
    writing.start()
    try:
        rounds = 0
        while writing.is_alive() or rounds < _ROUNDS:
            lake.export("run", "--source", source, "--jobs", "2")
            after_each()
            rounds += 1
    finally:
        writing.join()
    lake.export("run", "--source", source)


def by_place(table: pa.Table) -> pa.Table:
    types = {"timestamp": pa.timestamp("us", "UTC"), "key": pa.binary(), "value": pa.binary()}
    columns = {name: table.column(name).cast(types.get(name, pa.int64())).combine_chunks() for name in _COLUMNS}
    return pa.table(columns).sort_by([("partition", "ascending"), ("offset", "ascending")])


def read_by_all(spark: SparkSession, paths: list[str]) -> pa.Table:
    """The table's rows, which pyarrow, DuckDB and Spark find alike."""
    ours = by_place(pa.concat_tables([pq.ParquetFile(path).read(_COLUMNS) for path in paths]))
    with duckdb.connect() as connection:
        columns = ", ".join(f'"{name}"' for name in _COLUMNS)
        theirs = connection.execute(f"SELECT {columns} FROM read_parquet($1)", [paths]).to_arrow_table()
    assert by_place(theirs).equals(ours)
    assert by_place(spark.read.parquet(*paths).select(*_COLUMNS).toArrow()).equals(ours)
    return ours


def in_log(spark: SparkSession, broker: Kafkad, topic: str) -> pa.Table:
    """What Spark's own source finds there now."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    frame = reader.option("kafka.isolation.level", "read_committed").option("subscribe", topic).load()
    return by_place(frame.select(*_COLUMNS).toArrow())


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("table", "source"), [("delta", "files"), ("parquet", "broker")])
def test_records_that_are_deleted_behind_the_export_are_there_once(
    broker: Kafkad, spark: SparkSession, tmp_path: Path, table: str, source: str
) -> None:
    lake = Lake(broker, tmp_path, table, "events")
    rounds_beside(lake, lambda: lake.write(RECORDS), source, lake.delete_exported)
    rows = read_by_all(spark, lake.paths())
    values = rows.column("value").to_pylist()
    assert len(values) == len(set(values)) and set(values) == lake.committed
    lake.export("verify")


def newest_of_keys(values: Iterable[bytes]) -> dict[int, int]:
    return {number % _KEYS: number for number in sorted(map(int, values))}


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("table", "source"), [("delta", "broker"), ("parquet", "files")])
def test_a_log_that_is_compacted_under_the_export_leaves_its_newest_records(
    broker: Kafkad, spark: SparkSession, tmp_path: Path, table: str, source: str
) -> None:
    configs = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    lake = Lake(broker, tmp_path, table, "state", **configs)
    rounds_beside(lake, lambda: lake.write(RECORDS), source, lambda: None)
    rows = read_by_all(spark, lake.paths())
    values = rows.column("value").to_pylist()
    assert len(values) == len(set(values)) and set(values) <= lake.committed
    assert newest_of_keys(values) == newest_of_keys(lake.committed)
    # Whatever the log still has, the table has, row by row.
    there = in_log(spark, broker, lake.topic)
    known = {tuple(row.values()) for row in rows.to_pylist()}
    assert there.num_rows and {tuple(row.values()) for row in there.to_pylist()} <= known
