"""Spark logs the stack traces of a task that fails, of each attempt. The export says in one line why it has failed: so
those are left out while its job runs.

Everything else stays, such as executors that were lost, or a task that failed for a reason which nobody has foreseen.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kafkad.export import problems

_TRACES = rf"(?s)(.*\b{problems.__name__}\..*|Exception in task .*|Task \d+ in stage \S+ failed \d+ times; .*)"
"""Messages with an exception of the export in them; where the job and the tasks are one process, its executor says
`Exception in task` of what another message names as well.
"""


@contextmanager
def without_stack_traces(session: SparkSession) -> Iterator[None]:
    """In the log of the driver, unless somebody has put another library than Spark's there."""
    jvm: Any = session._jvm
    with ExitStack() as added:
        with suppress(Py4JError, TypeError):
            context = jvm.org.apache.logging.log4j.LogManager.getContext(False)
            traces = _filter(jvm.org.apache.logging.log4j.core)
            context.addFilter(traces)
            added.callback(_remove, context, traces)
        yield


def _remove(context: Any, traces: Any) -> None:
    # Spark may be gone.
    with suppress(Py4JError, OSError):
        context.removeFilter(traces)


def _filter(core: Any) -> Any:
    result = getattr(core, "Filter$Result")
    return core.filter.RegexFilter.createFilter(_TRACES, None, False, result.DENY, result.NEUTRAL)
