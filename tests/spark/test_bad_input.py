"""What goes wrong on the workers of Spark is one line of the export without a stack trace, and the next run goes on."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bench.brokers.daemon import Kafkad
from kafkad.cli import main
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient
from tests.tools.small_disk import SmallDisk

WITHIN_S = 300.0
COUNT = 2_000


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

    def __init__(self, broker: Kafkad, out: Path) -> None:
        self._bootstrap = broker.bootstrap
        self.out = out

    def run(self) -> str:
        asked = ["--topic", "orders", "--out", str(self.out), "--bootstrap-server", self._bootstrap]
        done = CliRunner().invoke(main, ["export", "run", *asked, "--engine", "spark", "--compression", "none"])
        assert done.exit_code in (0, 1), done.output
        assert done.output.count("\n") == 1, done.output
        return done.output

    def rows(self) -> int:
        asked = ["--topic", "orders", "--out", str(self.out), "--bootstrap-server", self._bootstrap]
        done = CliRunner().invoke(main, ["export", "files", *asked])
        return sum(int(pq.ParquetFile(path).metadata.num_rows) for path in done.output.splitlines())


@pytest.fixture
def export(broker: Kafkad, spark: SparkSession, tmp_path: Path) -> Export:
    return Export(broker, tmp_path / "table")


def test_workers_without_pyarrow_are_named(
    export: Export, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.base_prefix}/bin/python3 -S "$@"\n')
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
    export: Export, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
        said = export.run()
    assert "/nowhere/python" in said


def test_a_full_disk_names_the_table(broker: Kafkad, spark: SparkSession, tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "disk", 1 << 20) as disk:
        export = Export(broker, disk.path / "table")
        export.out.mkdir()
        disk.fill(leave=4096)
        said = export.run()
        assert str(export.out) in said and "No space left on device" in said
        disk.free()
        assert f"{COUNT} records" in export.run() and export.rows() == COUNT
