"""The process that owns connections: framing, order of replies, all reads of records. See `shell`."""

from kafkad.processes.network.shell import NetworkProcess
from kafkad.processes.runtime.child import ChildContext


def main(context: ChildContext) -> None:
    """One incarnation of a network process."""
    NetworkProcess(context).run()
