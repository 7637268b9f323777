"""Tasks in Spark: it plans and retries, and the rows do not pass its JVM. Each task returns what it has written."""

import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from kafkad.export import problems
from kafkad.export.coverage import Returned, returned_from_json
from kafkad.export.problems import BrokerAway, DataLost, ExportFailed, NotInstalled, RegistryAway
from kafkad.export.task import Task, run_task

try:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

    from kafkad.export.engines.spark_log import without_stack_traces
except ImportError as error:
    raise NotInstalled("spark", "pyspark") from error

_TASKS, _RETURNED = "number int, task binary", "returned string"
_REASON = re.compile(r"(?:Caused by: |.* executor \S+\): )?([A-Za-z_][\w.$]*(?:Error|Exception): .+)")
"""The line of a stack trace that names what was raised, in Python or Java."""
_OF_WORKERS = ("ModuleNotFoundError", "PYTHON_VERSION_MISMATCH", "Cannot run program")
_ON_WORKERS = (
    "PYSPARK_PYTHON (or spark.pyspark.python) names the Python of the workers: it has the version of the driver's, and"
    " kafkad with its packages"
)


@contextmanager
def open_session(name: str) -> Iterator[SparkSession]:
    """The session of spark-submit, or one of this machine."""
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
    """What all tasks return. A task that Spark repeats writes files of other names, and only one attempt counts."""
    session.sparkContext.setJobDescription(name)
    if not tasks:
        return
    frame = one_in_each_partition(session, tasks)
    try:
        # An attempt that was repeated has returned nothing.
        with without_stack_traces(session):
            rows = frame.mapInArrow(_write, _RETURNED).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise _failure(str(error)) from error
    for row in rows:
        yield returned_from_json(row.returned)


def one_in_each_partition(session: SparkSession, tasks: Sequence[Task]) -> DataFrame:
    """By their numbers: `repartition` lays several of few rows into one partition, which one core does one by one."""
    packed = [(number, bytearray(pickle.dumps(task))) for number, task in enumerate(tasks)]
    return session.createDataFrame(packed, _TASKS).repartitionById(len(packed), "number")


def _write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for packed in batch.column("task").to_pylist():
            returned = [each.to_json() for each in run_task(pickle.loads(packed).as_attempt())]
            yield pa.RecordBatch.from_arrays([pa.array(returned, pa.string())], ["returned"])


def _failure(said: str) -> ExportFailed:
    """The task's own exception, from a line of Spark's stack traces."""
    for line in said.splitlines():
        name, colon, rest = line.strip().partition(": ")
        if colon and name.startswith(f"{problems.__name__}."):
            kind = getattr(problems, name.rpartition(".")[2], ExportFailed)
            return kind(rest) if kind in (BrokerAway, DataLost, RegistryAway) else ExportFailed(rest)
    reasons = [found[1] for line in said.splitlines() if (found := _REASON.match(line.strip())) is not None]
    # Spark's own exceptions say that a task has failed, which is known.
    reason = next((each for each in reasons if not each.startswith("org.apache.spark.")), "")
    reason = reason or next(iter([*reasons, *said.splitlines()]), "no reason given")
    hint = f". {_ON_WORKERS}" if any(each in reason for each in _OF_WORKERS) else ""
    return ExportFailed(f"a task failed in Spark: {reason}{hint}")
