"""One life of one process: its `main` as it is, with what only this incarnation has, in a strand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from socket import socket
from typing import cast

from kafkad.adapters.links.supervision_channel import Channel
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.metrics.catalogue import GAUGE_INDEXES
from kafkad.processes.cleaner import main as cleaner_main
from kafkad.processes.controller import main as controller_main
from kafkad.processes.fetcher import main as fetcher_main
from kafkad.processes.network.shell import NetworkProcess
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.worker.shell import WorkerProcess
from tests.simulation.ports import Ports
from tests.simulation.scheduler import Strand
from tests.simulation.sockets import BrokerEnd, Door, Port

Process = WorkerProcess | NetworkProcess
Processes = Mapping[str, Callable[[ChildContext], Process]]
"""How the workers and network processes of a run are made."""


@dataclass(slots=True, kw_only=True, eq=False)
class Incarnation:
    """What the supervisor knows of it."""

    key: ProcessKey
    channel: Channel
    strand: Strand | None = None
    process: Process | None = None
    sockets: list[BrokerEnd] = field(default_factory=list)
    is_ready: bool = False
    is_stopped: bool = False
    is_clean: bool = False
    was_killed: bool = False


def live(incarnation: Incarnation, context: ChildContext, ports: Ports, port: Port, processes: Processes) -> None:
    """From the fork to the end, in the strand of `incarnation`."""
    ports.own(context.channel, context.channel.close)
    context.counters.zero(context.registry.slot(context.key), GAUGE_INDEXES)
    match context.key.role:
        case "controller":
            controller_main(context)
        case "cleaner":
            cleaner_main(context)
        case "fetcher":
            fetcher_main(context)
        case role:
            if role == "network":
                door = Door(port, incarnation.sockets.append)
                ports.own(door, door.close)
                # All of a socket that a network process uses of one that listens.
                listener = cast(socket, door)
                context = replace(context, listeners=[(context.config.network.listeners[0], listener)])
            incarnation.process = processes[role](context)
            incarnation.process.run()
