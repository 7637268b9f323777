"""The process that owns partitions: the only writer of their logs. See `shell`."""

from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.worker.shell import WorkerProcess


def main(context: ChildContext) -> None:
    """One incarnation of a worker."""
    WorkerProcess(context).run()
