"""Which TCP port can a throw-away broker have?

Chosen outside the range from which the kernel takes the ports of outgoing connections: such a port could
go to any client between this answer and the broker's bind. Two brokers may still pick the same one; whoever
starts a broker with it has to be ready for "taken" and ask again.
"""

import random
import socket

LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 32_000)
_TRIES = 200


class NoFreePort(Exception):
    """Every port that was tried is taken."""


def free_port(host: str = LOOPBACK) -> int:
    """A port on which nobody listens at this moment."""
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
