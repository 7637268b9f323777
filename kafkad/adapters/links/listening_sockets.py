"""The listening sockets of the broker, bound once by the supervisor and inherited by all network processes."""

import errno
import os
import socket
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from typing import Any

from kafkad.adapters.links.port_holder import describe_holder

MIN_BACKLOG = 1_024
"""The minimum length of the kernel's queue of connections: one client can fill Kafka's 50 between two passes, and
clients that find the queue full retry after a second. A longer queue would take long to serve; `net.core.somaxconn`
limits it too.
"""


class CannotListen(Exception):
    """The broker can't listen on an address; the message is one line with the reason, for the administrator."""


def bind_listener(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet; an empty host binds all interfaces. Raises `CannotListen`."""
    try:
        family, address = _resolve(host, port)
    except socket.gaierror as unknown_host:
        raise CannotListen(f"can't listen on {host}:{port}: unknown host name") from unknown_host
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not host else 1)
        listening.bind(address)
        # Several processes accept from the socket: accept must not block if another process was faster.
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise CannotListen(_reason(host, port, error)) from error
    return listening


class InheritedSockets:
    """Listening sockets from the service manager (sd_listen_fds(3)), each for one address.

    They are from socket units, or were stored by the broker before a restart. `close` closes the unused ones.
    """

    _FIRST_FD = 3

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        self._sockets: dict[str, socket.socket] = {}
        count = int(environment.pop("LISTEN_FDS", "0"))
        names = environment.pop("LISTEN_FDNAMES", "").split(":")
        if environment.pop("LISTEN_PID", "") != str(os.getpid()):
            return
        for index in range(count):
            end = socket.socket(fileno=self._FIRST_FD + index)
            end.set_inheritable(False)
            self._sockets[names[index] if index < len(names) else str(index)] = end

    def take(self, host: str, port: int) -> socket.socket | None:
        """The socket bound to this address; None if the caller must bind one."""
        try:
            family, address = _resolve(host, port)
        except socket.gaierror:
            # `bind_listener` reports this error.
            return None
        for name, end in self._sockets.items():
            if end.family == family and end.getsockname()[:2] == tuple(address[:2]):
                del self._sockets[name]
                end.setblocking(False)
                return end
        return None

    def close(self) -> list[str]:
        """Close the unused sockets; returns their names."""
        unused = list(self._sockets)
        for end in self._sockets.values():
            # The service manager has a copy for a moment; shutdown stops all copies from listening, so that another
            # address with the same port can be bound at once.
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._sockets.clear()
        return unused


def kept_name(host: str, port: int) -> str:
    """The name of a socket that the service manager stores; colons are not allowed."""
    return f"{host}-{port}".replace(":", ".")


def backlog_of(configured: int, per_second: int) -> int:
    """The length of the kernel's queue, at least `configured`; `per_second` connections are accepted per second."""
    return max(configured, min(MIN_BACKLOG, per_second))


def start_listening(sockets: Sequence[socket.socket], backlog: int) -> None:
    """Start to listen: the kernel completes connections from now on. Raises `CannotListen`."""
    for listening in sockets:
        host, port = listening.getsockname()[:2]
        try:
            # Two sockets with SO_REUSEADDR may bind the same port; only one can listen.
            listening.listen(backlog)
        except OSError as error:
            raise CannotListen(_reason(host, port, error)) from error


def _resolve(host: str, port: int) -> tuple[int, tuple[Any, ...]]:
    if not host:
        return (socket.AF_INET6, ("::", port)) if socket.has_dualstack_ipv6() else (socket.AF_INET, ("", port))
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return family, address


def _reason(host: str, port: int, error: OSError) -> str:
    place = f"{host or '*'}:{port}"
    if error.errno == errno.EADDRINUSE:
        holder = describe_holder(port) or "another process"
        return f"can't listen on {place}: the port is taken by {holder}; stop it or choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"can't listen on {place}: this host has no such address"
    if error.errno == errno.EACCES:
        return f"can't listen on {place}: ports below 1024 need a privilege that this user does not have"
    return f"can't listen on {place}: {error.strerror}"
