"""The process that owns connections: framing, order of replies, all reads of records. See `shell`."""

from kafkad.processes.child import ChildContext
from kafkad.processes.network.shell import NetworkProcess


def main(context: ChildContext) -> None:
    """One life of a network process."""
    NetworkProcess(context).run()
