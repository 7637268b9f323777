"""The process that owns client connections: framing, order of replies, all reads of records. See `loop`."""

from kafkad.processes.network.loop import NetworkProcess
from kafkad.processes.runtime.child import ChildContext


def main(context: ChildContext) -> None:
    """One incarnation of a network process."""
    NetworkProcess(context).run()
