"""Sockets, links, threads and files of the machine; only when a process goes on is for the test to say."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any

import zmq

from kafkad.processes.runtime import broker_connections, peers
from tests.one_thread import Patch, ProcessPorts, installed
from tests.simulation.epoll import SimulatedEpoll
from tests.simulation.scheduler import Scheduler, Strand

_TURNED = [(-1, 0)]
"""An event of nobody: the pass is made although nothing has come."""


class TurnedEpoll(SimulatedEpoll):
    """Its process waits until the test turns it, whatever comes meanwhile."""

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        if self._scheduler.current is None:
            return self._real.poll(timeout, maxevents)
        self._scheduler.sleep(self, timeout)
        return self._real.poll(0, maxevents) or _TURNED


class RealPorts(ProcessPorts):
    """What a test makes outside of a process is as it is without them."""

    epoll_type = TurnedEpoll

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._users = 0
        self._installed = ExitStack()

    def install(self) -> None:
        """For a test, or for a broker that a script makes; they stay until the last of these uninstalls them."""
        if not self._users:
            self._installed.enter_context(installed(self.patches()))
        self._users += 1

    def uninstall(self) -> None:
        self._users -= 1
        if not self._users:
            self._installed.close()

    def _threads(self, max_workers: int, thread_name_prefix: str) -> ThreadPoolExecutor:
        threads = ThreadPoolExecutor(max_workers, thread_name_prefix)
        return self.own(threads, threads.shutdown)

    def bury(self, strand: Strand) -> None:
        """What its threads have begun ends, before the files are closed that they were given; nobody hears how."""
        for what in self._belongings.get(strand, ()):
            if isinstance(what, ThreadPoolExecutor):
                what.shutdown(cancel_futures=True)
        super().bury(strand)

    def _context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        return self.own(context, partial(context.destroy, linger=0))

    def patches(self) -> list[Patch]:
        return [
            *super().patches(),
            (peers, "zmq", SimpleNamespace(Context=self._context, MAX_SOCKETS=zmq.MAX_SOCKETS)),
            (broker_connections, "socket", SimpleNamespace(**{**vars(socket), "socket": OwnedSocket})),
        ]


PORTS = RealPorts(Scheduler(0))
"""Those of all processes of a test, of which several brokers may have some."""


class OwnedSocket(socket.socket):
    """It is closed with the process that has made or accepted it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        PORTS.own(self, self.close)

    def accept(self) -> tuple[socket.socket, Any]:
        sock, address = super().accept()
        return OwnedSocket(fileno=sock.detach()), address
