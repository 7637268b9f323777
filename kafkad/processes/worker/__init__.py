"""The process that owns partitions: the only writer of their logs. See `loop`."""

from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.worker.loop import WorkerProcess


def main(context: ChildContext) -> None:
    """One incarnation of a worker."""
    WorkerProcess(context).run()
