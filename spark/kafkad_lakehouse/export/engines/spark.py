"""Tasks in Spark: Spark schedules and retries them; rows do not pass through the JVM. A task returns its files."""

import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from kafkad_lakehouse.export import problems
from kafkad_lakehouse.export.coverage import Returned, returned_from_json
from kafkad_lakehouse.export.problems import (
    BrokerUnavailable,
    DataLost,
    ExportFailed,
    NotInstalled,
    RegistryUnavailable,
)
from kafkad_lakehouse.export.task import Task, run_task

try:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

    from kafkad_lakehouse.export.engines.spark_log import without_stack_traces
except ImportError as error:
    raise NotInstalled("spark", "pyspark") from error

_TASKS, _RETURNED = "number int, task binary", "returned string"
_REASON = re.compile(r"(?:Caused by: |.* executor \S+\): )?([A-Za-z_][\w.$]*(?:Error|Exception): .+)")
"""The line of a stack trace with the name of the exception, in Python or Java."""
_OF_WORKERS = ("ModuleNotFoundError", "PYTHON_VERSION_MISMATCH", "Cannot run program")
_ON_WORKERS = (
    "PYSPARK_PYTHON (or spark.pyspark.python) is the Python of the workers: it needs the version of the driver's Python"
    " and an installed kafkad[export]"
)


@contextmanager
def open_session(name: str) -> Iterator[SparkSession]:
    """The session of spark-submit, or a new local session."""
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    session = SparkSession.builder.appName(name).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def run_in_spark(session: SparkSession, tasks: Sequence[Task], name: str) -> Iterator[Returned]:
    """Yield the results of all tasks. Each attempt of a task writes files of other names; only one attempt counts."""
    session.sparkContext.setJobDescription(name)
    if not tasks:
        return
    frame = one_in_each_partition(session, tasks)
    try:
        # A failed attempt has returned nothing.
        with without_stack_traces(session):
            rows = frame.mapInArrow(_write, _RETURNED).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise _to_export_failed(str(error)) from error
    for row in rows:
        yield returned_from_json(row.returned)


def one_in_each_partition(session: SparkSession, tasks: Sequence[Task]) -> DataFrame:
    """One task for each partition, by number.

    `repartition` would put several tasks into one partition, which one core runs one after the other.
    """
    packed = [(number, bytearray(pickle.dumps(task))) for number, task in enumerate(tasks)]
    return session.createDataFrame(packed, _TASKS).repartitionById(len(packed), "number")


def _write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for packed in batch.column("task").to_pylist():
            returned = [each.to_json() for each in run_task(pickle.loads(packed).as_attempt())]
            yield pa.RecordBatch.from_arrays([pa.array(returned, pa.string())], ["returned"])


def _to_export_failed(message: str) -> ExportFailed:
    """The exception of the task, from a line of Spark's stack traces."""
    for line in message.splitlines():
        name, colon, rest = line.strip().partition(": ")
        if colon and name.startswith(f"{problems.__name__}."):
            kind = getattr(problems, name.rpartition(".")[2], ExportFailed)
            return kind(rest) if kind in (BrokerUnavailable, DataLost, RegistryUnavailable) else ExportFailed(rest)
    reasons = [found[1] for line in message.splitlines() if (found := _REASON.match(line.strip())) is not None]
    # Spark's own exceptions only report that a task failed.
    reason = next((each for each in reasons if not each.startswith("org.apache.spark.")), "")
    reason = reason or next(iter([*reasons, *message.splitlines()]), "no reason given")
    hint = f". {_ON_WORKERS}" if any(each in reason for each in _OF_WORKERS) else ""
    return ExportFailed(f"a task failed in Spark: {reason}{hint}")
