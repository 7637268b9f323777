"""Many records in rounds, while transactions are written, what the table has is deleted and compacted in the log, and
values get another field in the middle.

There are `lake_records`.
"""

import json
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
from tests.amounts import amount

RECORDS = amount("lake_records")
WITHIN_S = 300.0 + RECORDS / 1_000
PARTITIONS = 3
_KEYS = 1_000
_ROUNDS = 4
_COLUMNS = ["partition", "offset", "key", "value", "timestamp", "timestampType"]
_PARSED = {"n": pa.int64(), "note": pa.string()}
_NARROW = {"properties": {"n": {"type": "integer"}}}
_WIDE = {"properties": {"n": {"type": "integer"}, "note": {"type": "string"}}}
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
        self._schema = folder / "schema.json"
        self._schema.write_text(json.dumps(_NARROW))
        self._is_wide = threading.Event()
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic(topic, partitions=PARTITIONS, replication_factor=BROKER_DEFAULT, configs=configs)

    def write(self, count: int) -> None:
        """In transactions, of which a fifth is aborted. The second half has wider values, once the schema says so."""
        chance = Random(self.topic)
        producer = Producer(
            {"bootstrap.servers": self.broker.bootstrap, "transactional.id": self.topic, "linger.ms": 5}
        )
        producer.init_transactions(WITHIN_S)
        number = 0
        while number < count:
            is_wide = number >= count // 2
            assert not is_wide or self._is_wide.wait(WITHIN_S), "the schema was not changed"
            producer.begin_transaction()
            numbers = range(number, min(count, number + chance.randrange(1, 2_000)))
            values = [value_of(each, is_wide=is_wide) for each in numbers]
            for each, value in zip(numbers, values, strict=True):
                producer.produce(self.topic, value, key=b"%d" % (each % _KEYS), partition=each % PARTITIONS)
                producer.poll(0)
            # librdkafka may end a transaction of which the coordinator knows nothing yet.
            producer.flush(WITHIN_S)
            if chance.random() < 0.2:
                producer.abort_transaction(WITHIN_S)
            else:
                producer.commit_transaction(WITHIN_S)
                self.committed.update(values)
            number += len(values)

    def widen(self) -> None:
        self._schema.write_text(json.dumps(_WIDE))
        self._is_wide.set()

    def run(self, source: str) -> None:
        self.export("run", "--source", source, "--jobs", "2", "--value", "json", "--schema-file", str(self._schema))

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
            lake.run(source)
            after_each()
            rounds += 1
            if rounds == _ROUNDS // 2:
                lake.widen()
    finally:
        writing.join()
    lake.run(source)


def value_of(number: int, *, is_wide: bool) -> bytes:
    return b'{"n": %d, "note": "wide"}' % number if is_wide else b'{"n": %d}' % number


def by_place(table: pa.Table) -> pa.Table:
    types = {"timestamp": pa.timestamp("us", "UTC"), "key": pa.binary(), "value": pa.binary(), **_PARSED}
    columns = {
        name: table.column(name).cast(types.get(name, pa.int64())).combine_chunks() for name in table.column_names
    }
    return pa.table(columns).sort_by([("partition", "ascending"), ("offset", "ascending")])


def rows_of(path: str) -> pa.Table:
    """Of one file, which was perhaps written before its values had another field."""
    table = pq.ParquetFile(path).read([*_COLUMNS, "value_parsed"])
    parsed = table.column("value_parsed").combine_chunks()
    fields = [
        parsed.field(name) if name in parsed.type.names else pa.nulls(table.num_rows, kind)
        for name, kind in _PARSED.items()
    ]
    return pa.table([*table.select(_COLUMNS).columns, *fields], names=[*_COLUMNS, *_PARSED])


def read_by_all(spark: SparkSession, paths: list[str]) -> pa.Table:
    """The table's rows, which pyarrow, DuckDB and Spark find alike."""
    ours = by_place(pa.concat_tables([rows_of(path) for path in paths]))
    names = [*_COLUMNS, *(f"value_parsed.{name}" for name in _PARSED)]
    with duckdb.connect() as connection:
        # Some of the names are words of SQL.
        query = f"SELECT {', '.join(f't.{name}' for name in names)} FROM read_parquet($1, union_by_name = true) t"
        theirs = connection.execute(query, [paths]).to_arrow_table()
    assert by_place(theirs).equals(ours)
    frame = spark.read.option("mergeSchema", "true").parquet(*paths)
    assert by_place(frame.select(*names).toArrow()).equals(ours)
    expected = [json.loads(value) for value in ours.column("value").to_pylist()]
    assert ours.select(list(_PARSED)).to_pylist() == [{"note": None, **each} for each in expected]
    assert {each.get("note") for each in expected} == {None, "wide"}
    return ours.select(_COLUMNS)


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
    return {number % _KEYS: number for number in sorted(json.loads(value)["n"] for value in values)}


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
