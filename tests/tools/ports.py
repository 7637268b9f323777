"""Which TCP port is free on loopback right now?"""

import random
import socket

_PORTS = range(20_000, 32_000)
_TRIES = 200


def free_port() -> int:
    """A port that nobody listens on, outside the range from which outgoing connections get theirs.

    Taken from the kernel's own (ephemeral) range, any client could get it before the broker binds.
    """
    choose = random.SystemRandom()
    for _ in range(_TRIES):
        port = choose.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port found in {_PORTS} after {_TRIES} tries")
