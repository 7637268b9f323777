"""What the data source raises, as Spark's Kafka source does, and how Spark tells it: in one line.

The exception that reaches the user is made by Spark, whatever a data source in Python raises: an AnalysisException, or
a StreamingQueryException. Its text has the name and the text of ours.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import errors

from kafkad.export.problems import ExportFailed


class IllegalArgumentException(ExportFailed, errors.IllegalArgumentException):
    """An option can't be meant."""


@contextmanager
def in_one_line() -> Iterator[None]:
    """Without a stack trace in Spark's text, where the exception says it all. This process of Spark ends with it."""
    try:
        yield
    except ExportFailed:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
