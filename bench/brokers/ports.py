"""Which TCP port is free on loopback right now?"""

import os
import random
import socket

_FIRST, _STOP = 10_000, 20_000
_TRIES = 200

_given: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on, outside the range from which outgoing connections get theirs.

    Taken from the kernel's own (ephemeral) range, any client could get it before the broker binds; in the range above
    this one `kafkad dev` finds its ports. Stages of CI that run beside each other (KAFKAD_TEST_LANE) and processes of
    pytest-xdist have a part of it each: none takes the port of a broker that another is about to start again.
    No port is given twice: its first owner may not have bound it yet.
    """
    ports = [port for port in own_ports() if port not in _given]
    choose = random.SystemRandom()
    for _ in range(_TRIES):
        port = choose.choice(ports)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.add(port)
            return port
    raise RuntimeError(f"no free port found in {own_ports()} after {_TRIES} tries")


def own_ports() -> range:
    """Of this process, among all that test at the same time."""
    lane, lanes = map(int, os.environ.get("KAFKAD_TEST_LANE", "0/1").split("/"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return range(_FIRST + lane * workers + worker, _STOP, lanes * workers)
