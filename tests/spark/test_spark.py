"""The export and the data source in a real Spark: the same records as the local engine, through both sources."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import eventually
from kafkad.cli import main
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient
from kafkad_lakehouse.export.coverage import Returned
from kafkad_lakehouse.export.engines.spark import one_in_each_partition, run_in_spark
from kafkad_lakehouse.export.preparation import prepare
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.reading.source import Source
from kafkad_lakehouse.export.request import ExportRequest
from kafkad_lakehouse.export.run import run_export
from kafkad_lakehouse.export.tables import open_sink
from kafkad_lakehouse.export.task import Task
from kafkad_lakehouse.export.writing import Layout
from tests.spark.conftest import SHORT_LIVED

CHECKOUT = Path(__file__).parents[2]
TOPIC = "orders"
COUNT = 20_000
WITHIN_S = 300.0
SOURCES = pytest.mark.parametrize("source", ["broker", "files"])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    with Kafkad(tmp_path_factory.mktemp("broker"), {"log.segment.bytes": "1048576"}) as running:
        with BrokerClient(running.bootstrap) as client:
            client.create_topic(TOPIC, partitions=3, replication_factor=BROKER_DEFAULT, configs={})
        fill(running)
        yield running


def fill(broker: Kafkad) -> None:
    """`COUNT` records, some without key or value, some with headers; and an aborted transaction."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "zstd"})
    for number in range(COUNT):
        producer.produce(
            TOPIC,
            key=b"key %d" % number if number % 3 else None,
            value=b"value %d" % number if number % 5 else None,
            headers=[("name", b"x"), ("none", None)] if number % 7 == 0 else [],
            partition=number % 3,
        )
        producer.poll(0)
    assert producer.flush(WITHIN_S) == 0
    aborted = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "aborted"})
    aborted.init_transactions(WITHIN_S)
    aborted.begin_transaction()
    aborted.produce(TOPIC, value=b"never", partition=0)
    aborted.flush(WITHIN_S)
    aborted.abort_transaction(WITHIN_S)


@pytest.fixture
def load(broker: Kafkad, spark: SparkSession) -> "Load":
    return Load(broker, spark)


class Load:
    """The topic as a DataFrame; `source` files reads the broker's own segments."""

    def __init__(self, broker: Kafkad, spark: SparkSession) -> None:
        self._broker = broker
        self._spark = spark

    def __call__(self, source: str = "broker", columns: str | None = None, **options: str) -> DataFrame:
        reader = self._spark.read.format("kafkad").option("kafka.bootstrap.servers", self._broker.bootstrap)
        if "subscribePattern" not in options:
            reader = reader.option("subscribe", TOPIC)
        if source == "files":
            reader = reader.option("path", str(self._broker.log_dir))
        if columns is not None:
            reader = reader.schema(columns)
        return reader.options(**options).load()


@SOURCES
def test_the_data_source_has_each_committed_record(load: Load, source: str) -> None:
    rows = load(source, includeHeaders="true").collect()
    assert len(rows) == COUNT and len({(row.partition, row.offset) for row in rows}) == COUNT
    numbers = {row.value: row for row in rows if row.value is not None}
    assert len(numbers) == COUNT - COUNT // 5 and b"never" not in numbers
    first = next(row for row in rows if (row.partition, row.offset) == (0, 0))
    assert (first.key, first.value, first.topic, first.timestampType) == (None, None, TOPIC, 0)
    assert [tuple(each) for each in first.headers] == [("name", b"x"), ("none", None)]


def test_log_directories_are_enough(broker: Kafkad, spark: SparkSession) -> None:
    frame = {"path": str(broker.log_dir), "subscribePattern": TOPIC[:-1] + "."}
    deadline_s = time.monotonic() + WITHIN_S
    # The broker writes its checkpoint every few seconds.
    while (count := spark.read.format("kafkad").options(**frame).load().count()) < COUNT:
        assert time.monotonic() < deadline_s
    assert count == COUNT


@SOURCES
def test_metadata_are_the_epoch_of_the_leader_and_the_id_of_the_producer(load: Load, source: str) -> None:
    everything = {"kafka.isolation.level": "read_uncommitted", "includeMetadata": "true"}
    rows = load(source, **everything).collect()
    assert {row.leaderEpoch for row in rows} == {0}
    assert [row.value for row in rows if row.producerId is not None] == [b"never"]
    only = load(source, columns="producerId bigint, offset bigint", **everything).collect()
    assert [tuple(row) for row in only if row.producerId is not None] == [
        (row.producerId, row.offset) for row in rows if row.producerId is not None
    ]


@SOURCES
def test_options_narrow_what_is_read(load: Load, source: str) -> None:
    starts = json.dumps({TOPIC: {"0": 10, "1": 7, "2": -2}})
    ends = json.dumps({TOPIC: {"0": 25, "1": 7, "2": 5}})
    frame = load(source, startingOffsets=starts, endingOffsets=ends, minPartitions="6")
    assert sorted((row.partition, row.offset) for row in frame.collect()) == [
        *((0, offset) for offset in range(10, 25)),
        *((2, offset) for offset in range(5)),
    ]


@SOURCES
def test_a_range_without_records_is_an_empty_frame(load: Load, source: str) -> None:
    nothing = json.dumps({TOPIC: {"0": -2, "1": -2, "2": -2}})
    frame = load(source, endingOffsets=nothing.replace("-2", "0"), startingOffsets=nothing)
    assert frame.columns[:2] == ["key", "value"] and frame.collect() == []


def test_a_schema_of_fewer_columns_reads_these(load: Load) -> None:
    frame = load(columns="offset bigint, value binary")
    assert frame.columns == ["offset", "value"] and frame.count() == COUNT


def test_filters_are_the_business_of_spark(load: Load) -> None:
    """With pushFilters, the count after a filter would be that of the filter (seen in Spark 4.1 and 4.3)."""
    frame = load()
    assert frame.where("offset >= 10").count() < COUNT
    assert frame.count() == COUNT


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribePattern": "("}, "subscribePattern: "),
        ({"colour": "blue"}, "kafkad has no option colour"),
        ({"startingOffsets": "{"}, "startingOffsets: "),
        ({"kafka.security.protocol": "SASL_SSL"}, "kafka.security.protocol: SASL_SSL is not supported"),
        ({"startingOffsets": json.dumps({TOPIC: {"0": 0}})}, f"startingOffsets has no number for {TOPIC}-1"),
        ({"endingOffsets": json.dumps({TOPIC: {"0": 10**9, "1": -1, "2": -1}})}, "failOnDataLoss=false"),
    ],
)
def test_wrong_options_are_named(load: Load, options: dict[str, str], said: str) -> None:
    with pytest.raises(PySparkException) as rejected:
        load(**options).count()
    assert said in str(rejected.value)


def test_spark_submit_exports_twice_and_nothing_is_doubled(broker: Kafkad, tmp_path: Path) -> None:
    """From the segment files, then through the broker."""
    out = tmp_path / "table"
    arguments = ["--topic", TOPIC, "--out", str(out), "--bootstrap-server", broker.bootstrap]

    def submitted(*more: str) -> str:
        command = [
            *(str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"),
            *("--driver-java-options", SHORT_LIVED),
            *("--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"),
            *("--conf", "spark.ui.enabled=false", str(CHECKOUT / "spark" / "export.py"), *arguments, *more),
        ]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, env=environment)
        assert done.returncode == 0, done.stderr[-4_000:]
        return done.stdout

    said = submitted("--json", "--source", "files").splitlines()
    (summary,) = [line for line in said if line.startswith("{")]
    assert json.loads(summary)["records"] == COUNT
    assert "nothing new" in submitted("--source", "broker")
    found = pq.read_table([str(path) for path in out.glob("*.parquet")])
    assert found.num_rows == COUNT
    assert len(set(zip(*(found.column(name).to_pylist() for name in ("partition", "offset")), strict=True))) == COUNT


def test_the_jobs_of_an_export_are_named_in_the_pages_of_spark(
    broker: Kafkad, spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "table"
    arguments = ["--topic", TOPIC, "--out", str(out), "--bootstrap-server", broker.bootstrap, "--engine", "spark"]
    done = CliRunner().invoke(main, ["export", "run", *arguments])
    assert done.exit_code == 0, done.output
    pages = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"

    def named(kind: str) -> list[str]:
        with urlopen(f"{pages}/{kind}", timeout=WITHIN_S) as answer:
            rows = json.load(answer)
        return [row["status"] for row in rows if row.get("description") == f"kafkad export: {TOPIC} to {out}"]

    # They are told of what happens a little later.
    eventually(lambda: set(named("jobs")) == {"SUCCEEDED"}, what="its jobs have the name of the export")
    eventually(lambda: "COMPLETE" in named("stages"), what="their stages, too")


@pytest.mark.parametrize("count", [2, 4, 5])
def test_each_task_of_an_export_is_one_of_spark(spark: SparkSession, count: int) -> None:
    task = Task(source=Source(topic="t"), ranges=(), layout=Layout(out="/t", topic="t", run_id="1"))
    partitions = one_in_each_partition(spark, [task] * count).rdd.glom().collect()
    assert list(map(len, partitions)) == [1] * count


def test_a_run_that_has_nothing_to_read_is_no_job_of_spark(spark: SparkSession) -> None:
    assert list(run_in_spark(spark, [], "all of it was lost")) == []


@pytest.mark.parametrize("table", ["parquet", "delta", "iceberg"])
def test_a_run_of_which_spark_has_lost_an_answer_commits_nothing(
    broker: Kafkad, spark: SparkSession, tmp_path: Path, table: str
) -> None:
    out = tmp_path / "table"
    requested = ExportRequest(topic=TOPIC, out=str(out), name=TOPIC, bootstrap=broker.bootstrap, format=table)
    sink = open_sink(requested)

    def lose_the_last(tasks: Sequence[Task]) -> list[Returned]:
        return list(run_in_spark(spark, tasks, "of which something is lost"))[:-1]

    with pytest.raises(ExportFailed, match="the results of the tasks differ from the plan"):
        run_export(prepare(requested, sink), sink, lose_the_last, lambda _file: None)
    assert sink.state([0]).topic_id is None and not list(out.rglob("*.parquet"))
