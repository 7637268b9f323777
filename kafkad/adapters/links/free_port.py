"""Which TCP port can a throw-away broker use?

The port is outside the kernel's range for outgoing connections: a port of that range could go to any client before
the broker binds. Two brokers may still pick the same port, so the caller must retry when the port is taken.
"""

import random
import socket

LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 32_000)
_TRIES = 200


class NoFreePort(Exception):
    """All tried ports are taken."""


def free_port(host: str = LOOPBACK) -> int:
    """A port on which no process listens at this moment."""
    choose = random.SystemRandom()
    for port in choose.sample(_PORTS, _TRIES):
        if _is_free(host, port):
            return port
    raise NoFreePort(f"{_TRIES} ports between {_PORTS.start} and {_PORTS.stop} on {host} are all taken")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
