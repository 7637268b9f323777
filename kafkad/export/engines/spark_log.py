"""Spark logs the stack traces of a task that fails, of each attempt. The export says in one line why it has failed: so
those are left out.

Everything else stays, such as executors that were lost, or a task that failed for a reason which nobody has foreseen.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kafkad.export import problems

_OURS = rf"(?s).*\b{problems.__name__}\..*"
"""Messages with an exception of the export in them, also after its job: a task that is killed as another one has
failed ends when it likes, and is told of with the other's stack trace.
"""
_OF_THE_JOB = r"(?s)(Exception in task .*|Task \d+ in stage \S+ failed \d+ times; .*)"
"""Where the job and the tasks are one process, its executor says `Exception in task` of what another message names as
well.
"""


@contextmanager
def without_stack_traces(session: SparkSession) -> Iterator[None]:
    """In the log of the driver, unless somebody has put another library than Spark's there."""
    jvm: Any = session._jvm
    with ExitStack() as added:
        with suppress(Py4JError, TypeError):
            context = jvm.org.apache.logging.log4j.LogManager.getContext(False)
            core = jvm.org.apache.logging.log4j.core
            ours = _denies(core, _OURS)
            # For the next job in this session it is there.
            if context.putObjectIfAbsent(problems.__name__, ours) is None:
                context.addFilter(ours)
            of_the_job = _denies(core, _OF_THE_JOB)
            context.addFilter(of_the_job)
            added.callback(_remove, context, of_the_job)
        yield


def _remove(context: Any, denies: Any) -> None:
    # Spark may be gone.
    with suppress(Py4JError, OSError):
        context.removeFilter(denies)


def _denies(core: Any, messages: str) -> Any:
    result = getattr(core, "Filter$Result")
    return core.filter.RegexFilter.createFilter(messages, None, False, result.DENY, result.NEUTRAL)
