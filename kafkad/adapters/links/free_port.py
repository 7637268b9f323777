"""Finds a free TCP port for a temporary broker.

The port is outside the kernel's range for outgoing connections, so that no client gets it before the broker binds.
Another broker may still take the port, so callers must retry.
"""

import random
import socket

LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 32_000)
_TRIES = 200


class NoFreePort(Exception):
    """All tried ports are in use."""


def free_port(host: str = LOOPBACK) -> int:
    """A port without a listening process at this moment. Raises NoFreePort."""
    choose = random.SystemRandom()
    for port in choose.sample(_PORTS, _TRIES):
        if _is_free(host, port):
            return port
    raise NoFreePort(f"{_TRIES} ports between {_PORTS.start} and {_PORTS.stop} on {host} are all in use")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
