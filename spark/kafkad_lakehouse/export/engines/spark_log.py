"""Suppress Spark's stack traces of failed tasks in the log: the export prints the reason in one line.

Other messages stay, such as lost executors and unexpected failures of tasks.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kafkad_lakehouse.export import problems

_OURS = rf"(?s).*\b{problems.__name__}\..*"
"""Messages with an exception of the export, also after the end of the job: Spark logs a task that it killed because of
the failure of another task later, with the stack trace of the other task.
"""
_OF_THE_JOB = r"(?s)(Exception in task .*|Task \d+ in stage \S+ failed \d+ times; .*)"
"""In local mode the executor also logs `Exception in task` for each failure."""


@contextmanager
def without_stack_traces(session: SparkSession) -> Iterator[None]:
    """Filter the log of the driver, if it uses log4j 2, which is Spark's default."""
    jvm: Any = session._jvm
    with ExitStack() as added:
        with suppress(Py4JError, TypeError):
            context = jvm.org.apache.logging.log4j.LogManager.getContext(False)
            core = jvm.org.apache.logging.log4j.core
            ours = _deny_filter(core, _OURS)
            # The next job in this session finds the filter.
            if context.putObjectIfAbsent(problems.__name__, ours) is None:
                context.addFilter(ours)
            of_the_job = _deny_filter(core, _OF_THE_JOB)
            context.addFilter(of_the_job)
            added.callback(_remove, context, of_the_job)
        yield


def _remove(context: Any, deny_filter: Any) -> None:
    # Spark may have stopped.
    with suppress(Py4JError, OSError):
        context.removeFilter(deny_filter)


def _deny_filter(core: Any, messages: str) -> Any:
    result = getattr(core, "Filter$Result")
    return core.filter.RegexFilter.createFilter(messages, None, False, result.DENY, result.NEUTRAL)
