"""What goes wrong on the workers of Spark is one line of the export without a stack trace, and the next run goes on."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import eventually
from kafkad.cli import main
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient
from kafkad_lakehouse.export.engines.spark_log import without_stack_traces
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.table_folder import TableFolder
from tests.lakehouse.export.object_store import (
    BUCKET,
    EXPIRED,
    WITHDRAWN,
    Credentials,
    asking_for,
    object_store,
    settings,
)
from tests.tools.small_disk import SmallDisk

SPARK = Path(__file__).parents[2] / "spark"
WITHIN_S = 300.0
COUNT = 2_000
TRACES = ("Lost task", "Exception in task", "aborting job", "Traceback", "\tat ")
"""What Spark says of a task that failed."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    with Kafkad(tmp_path_factory.mktemp("broker"), {}) as running:
        with BrokerClient(running.bootstrap) as client:
            client.create_topic("orders", partitions=2, replication_factor=BROKER_DEFAULT, configs={})
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for number in range(COUNT):
            producer.produce("orders", b"%d" % number + b"x" * 100, partition=number % 2)
        assert producer.flush(WITHIN_S) == 0
        yield running


class Export:
    """`kafkad export run` in the session of the tests."""

    def __init__(self, broker: Kafkad, out: Path | str, *options: str) -> None:
        self.out = str(out)
        self._asked = ["--topic", "orders", "--out", self.out, "--bootstrap-server", broker.bootstrap, *options]

    def run(self) -> str:
        done = self._invoke("run", "--engine", "spark", "--compression", "none")
        assert done.exit_code in (0, 1), done.output
        assert done.output.count("\n") == 1, done.output
        return done.output

    def maintain(self, *options: str) -> None:
        assert self._invoke("maintain", *options).exit_code == 0

    def paths(self) -> list[str]:
        return self._invoke("files").output.splitlines()

    def stored(self) -> list[str]:
        """All files of records in the folder, whether or not they belong to the table."""
        names = TableFolder(self.out).names(recursive=True)
        return [
            f"{self.out}/{name}" for name in names if name.endswith(".parquet") and not name.startswith("_delta_log")
        ]

    def rows(self) -> int:
        folder = TableFolder(self.out)
        read = [pa.BufferReader(folder.read(path.removeprefix(f"{self.out}/"))) for path in self.paths()]
        return sum(int(pq.ParquetFile(each).metadata.num_rows) for each in read)

    def _invoke(self, verb: str, *options: str) -> Result:
        return CliRunner().invoke(main, ["export", verb, *self._asked, *options])


@pytest.fixture
def logged(spark: SparkSession) -> Iterator[Callable[[], str]]:
    """What the driver of Spark has logged in this test."""
    jvm: Any = spark._jvm
    log4j, writer = jvm.org.apache.logging.log4j, jvm.java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, writer, "logged", False, True)
    appender.start()
    root = log4j.LogManager.getRootLogger()
    root.addAppender(appender)
    yield writer.toString
    root.removeAppender(appender)


@pytest.fixture
def export(broker: Kafkad, spark: SparkSession, tmp_path: Path) -> Export:
    return Export(broker, tmp_path / "table")


def traces(logged: str) -> list[str]:
    return [line for line in logged.splitlines() if any(word in line for word in TRACES)]


def test_workers_without_pyarrow_are_named(
    export: Export, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare"
    # Without the packages of the environment, but with those of the checkout.
    bare.write_text(f'#!/bin/sh\nPYTHONPATH={SPARK}:$PYTHONPATH exec {sys.base_prefix}/bin/python3 -S "$@"\n')
    bare.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setattr(spark.sparkContext, "pythonExec", str(bare))
        said = export.run()
    assert "pyarrow" in said
    assert f"{COUNT} records" in export.run() and export.rows() == COUNT


def test_workers_of_another_python_are_named(
    export: Export, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(spark.sparkContext, "pythonVer", "3.9")
        said = export.run()
    assert "3.9" in said and "PYSPARK_PYTHON" in said
    assert f"{COUNT} records" in export.run() and export.rows() == COUNT


def test_workers_that_can_not_be_started_are_named(
    export: Export, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
        said = export.run()
    assert "/nowhere/python" in said
    # This nobody has foreseen: what Spark knows of it stays.
    assert all(word in logged() for word in ("Lost task", "\tat "))


@pytest.fixture
def credentials(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Credentials]:
    """Those of the workers for an object store; the driver's are others, and stay good."""
    credentials = Credentials()
    with object_store() as port, asking_for(credentials, port) as guarded:
        for name, value in settings(port).items():
            monkeypatch.setenv(name, value)
        for name, value in settings(guarded).items():
            monkeypatch.setitem(spark.sparkContext.environment, name, value)
        yield credentials


def test_credentials_that_the_workers_lose_are_one_line_and_nothing_is_committed(
    broker: Kafkad, credentials: Credentials, logged: Callable[[], str]
) -> None:
    export = Export(broker, f"s3://{BUCKET}/table", "--format", "delta")
    for good_for, refusal in ((0, EXPIRED), (5, WITHDRAWN)):
        credentials.lose(good_for, sys.maxsize, refusal)
        said = export.run()
        assert credentials.asked > good_for, "the run was over before"
        assert said.startswith(f"kafkad: {export.out} can't be ") and "AWS Error" in said
        assert traces(logged()) == []
        assert export.paths() == []
    credentials.good_again()
    assert f"{COUNT} records in 2 files" in export.run() and export.rows() == COUNT
    # What the lost attempts had written is in no table, and goes.
    export.maintain("--older-than", "0")
    assert sorted(export.stored()) == sorted(export.paths())


def test_a_task_that_ends_after_the_job_has_failed_is_not_told_of_with_its_stack_trace(
    spark: SparkSession, tmp_path: Path, logged: Callable[[], str]
) -> None:
    begun, told = tmp_path / "begun", tmp_path / "told"

    def fails_or_stays(numbers: Iterable[int]) -> Iterator[int]:
        for number in numbers:
            if number == 0:
                eventually(begun.exists, within=WITHIN_S, what="the other one has begun")
                raise ExportFailed("the table can't be written")
            begun.touch()
            eventually(told.exists, within=WITHIN_S, what="the job has failed")
            yield number

    context = spark.sparkContext
    context.setJobGroup(str(tmp_path), "one fails, one stays")
    with pytest.raises(PySparkException, match="can't be written"), without_stack_traces(spark):
        context.parallelize(range(2), 2).mapPartitions(fails_or_stays).collect()
    told.touch()
    status = context.statusTracker()
    (job,) = [status.getJobInfo(each) for each in status.getJobIdsForGroup(str(tmp_path))]
    assert job is not None
    stages = [int(each) for each in job.stageIds]
    eventually(
        lambda: all(stage.numActiveTasks == 0 for each in stages if (stage := status.getStageInfo(each))),
        within=WITHIN_S,
        what="the other one has ended",
    )
    assert traces(logged()) == []


def test_a_full_disk_names_the_table(
    broker: Kafkad, spark: SparkSession, tmp_path: Path, logged: Callable[[], str]
) -> None:
    with SmallDisk(tmp_path / "disk", 1 << 20) as disk:
        export = Export(broker, disk.path / "table")
        Path(export.out).mkdir()
        disk.fill(leave=4096)
        said = export.run()
        assert export.out in said and "No space left on device" in said
        assert traces(logged()) == []
        disk.free()
        assert f"{COUNT} records" in export.run() and export.rows() == COUNT
