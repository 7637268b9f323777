"""The exceptions of the data source, as in Spark's Kafka source, printed in one line.

Users get an AnalysisException or a StreamingQueryException of Spark, which has the name and the message of the
exception of the data source.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import errors

from kafkad_lakehouse.export.problems import ExportFailed


class IllegalArgumentException(ExportFailed, errors.IllegalArgumentException):
    """An option is invalid."""


@contextmanager
def in_one_line() -> Iterator[None]:
    """Hide the stack trace in Spark's message for errors of an export. Spark's process ends with the exception."""
    try:
        yield
    except ExportFailed:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
