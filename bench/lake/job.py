"""Measure several ways to read a topic in one Spark session: `python -m bench.lake JSON`.

Each way runs first on a small topic, then on the measured topic. CPU is measured for this process with the JVM and all
workers, and separately for the broker.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.host import cpu_of_tree
from kafkad_lakehouse.export.coverage import Returned
from kafkad_lakehouse.export.engines.local import run_here
from kafkad_lakehouse.export.engines.spark import run_in_spark
from kafkad_lakehouse.export.preparation import prepare
from kafkad_lakehouse.export.request import ExportRequest
from kafkad_lakehouse.export.run import run_export
from kafkad_lakehouse.export.tables import open_sink
from kafkad_lakehouse.export.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeRequest:
    """The arguments of the job; `log_dir` is None for a broker without reading its files."""

    bootstrap: str
    broker_pid: int
    log_dir: str | None
    topic: str
    small_topic: str
    folder: str
    jars: list[str]
    cores: int
    ways: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one way."""

    way: str
    began: float
    seconds: float
    client_cpu: float
    broker_cpu: float


class Job:
    """The ways by name; each reads a whole topic."""

    def __init__(self, request: LakeRequest, spark: SparkSession) -> None:
        self._request = request
        self._spark = spark
        self.ways: dict[str, Callable[[str], None]] = {
            "Spark's source to noop": lambda topic: _drop(self._kafka(topic)),
            "Spark's source to Parquet": lambda topic: self._store(self._kafka(topic)),
            "data source through the broker to noop": lambda topic: _drop(self._kafkad(topic)),
            "data source from files to noop": lambda topic: _drop(self._kafkad(topic, path=request.log_dir or "")),
            "export through the broker to Parquet, Spark": lambda topic: self._export(topic, "broker", "parquet"),
            "export from files to Parquet, Spark": lambda topic: self._export(topic, "files", "parquet"),
            "export from files to Delta, Spark": lambda topic: self._export(topic, "files", "delta"),
            "export through the broker to Parquet": lambda topic: self._export(topic, "broker", "parquet", here=True),
            "export from files to Parquet": lambda topic: self._export(topic, "files", "parquet", here=True),
            "export from files to Delta": lambda topic: self._export(topic, "files", "delta", here=True),
        }

    def measure(self, way: str) -> Cost:
        work = self.ways[way]
        self._emptied(lambda: work(self._request.small_topic))
        before, broker_before, started = self._used(), self._broker(), time.perf_counter()
        self._emptied(lambda: work(self._request.topic))
        return Cost(
            way=way,
            began=started,
            seconds=time.perf_counter() - started,
            client_cpu=self._used() - before,
            broker_cpu=self._broker() - broker_before,
        )

    def _used(self) -> float:
        return cpu_of_tree(os.getpid()).total

    def _broker(self) -> float:
        return cpu_of_tree(self._request.broker_pid).total

    def _emptied(self, work: Callable[[], None]) -> None:
        shutil.rmtree(self._out, ignore_errors=True)
        work()

    @property
    def _out(self) -> Path:
        return Path(self._request.folder, "table")

    def _kafka(self, topic: str) -> DataFrame:
        return self._load("kafka", topic)

    def _kafkad(self, topic: str, **options: str) -> DataFrame:
        return self._load("kafkad", topic, minPartitions=str(2 * self._request.cores), **options)

    def _load(self, kind: str, topic: str, **options: str) -> DataFrame:
        reader = self._spark.read.format(kind).option("kafka.bootstrap.servers", self._request.bootstrap)
        return reader.option("subscribe", topic).options(**options).load()

    def _store(self, frame: DataFrame) -> None:
        frame.write.option("compression", "zstd").parquet(str(self._out))

    def _export(self, topic: str, source: str, table: str, *, here: bool = False) -> None:
        request = self._request
        export_request = ExportRequest(
            topic=topic,
            out=str(self._out),
            name=topic,
            bootstrap=request.bootstrap,
            format=table,
            source=source,
            log_dirs=(request.log_dir,) if request.log_dir and source == "files" else (),
            jobs=request.cores,
        )

        def run_tasks(tasks: Sequence[Task]) -> Iterator[Returned]:
            return run_here(tasks, request.cores) if here else run_in_spark(self._spark, tasks, "bench")

        sink = open_sink(export_request)
        run_export(prepare(export_request, sink), sink, run_tasks, lambda _file: None)


def _drop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def main() -> None:
    request = LakeRequest(**json.loads(sys.argv[1]))
    local: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(request.jars),
        "spark.sql.session.timeZone": "UTC",
    }
    session = SparkSession.builder.master(f"local[{request.cores}]").config(map=local).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    job = Job(request, session)
    for way in request.ways:
        cost = job.measure(way)
        print(json.dumps([cost.way, cost.began, cost.seconds, cost.client_cpu, cost.broker_cpu]), flush=True)
    session.stop()
