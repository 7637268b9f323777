"""A thread resolves host names, so that the event loop does not wait for a name server.

A numeric address is resolved without a thread. The threads are daemons, so a slow name server delays no exit.
"""

import socket
import threading
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address

from kafkad.adapters.links.event_queue import EventQueue
from kafkad.processes.runtime.event_loop import EventLoop

Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]
Resolved = Callable[[list[Address], str], None]
"""Called in the loop with the addresses, or with an empty list and the error as text."""


class NameResolution:
    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._results: EventQueue[Callable[[], None]] | None = None

    def resolve(self, host: str, port: int, resolved: Resolved) -> None:
        """`resolved` is called at once for a numeric address, else in a later pass of the loop."""
        if _is_numeric(host):
            addresses, problem = _lookup(host, port)
            resolved(addresses, problem)
            return
        if self._results is None:
            self._results = EventQueue()
            self._loop.watch(self._results.fileno(), self._deliver)
        results = self._results

        def lookup() -> None:
            results.put(partial(resolved, *_lookup(host, port)))

        threading.Thread(target=lookup, name=f"resolve {host}", daemon=True).start()

    def _deliver(self, _events: int) -> None:
        assert self._results is not None, "only an existing queue is watched"
        for deliver in self._results.drain():
            deliver()

    def close(self) -> None:
        if self._results is not None:
            self._loop.unwatch(self._results.fileno())
            self._results.close()
            self._results = None


def _is_numeric(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _lookup(host: str, port: int) -> tuple[list[Address], str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        return [], f"the host name can't be resolved: {error}"
    return [(family, address) for family, _type, _protocol, _name, address in found], ""  # type: ignore[misc]
