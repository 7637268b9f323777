"""Find free TCP ports on loopback."""

import os
import random
import socket

_FIRST, _STOP = 10_000, 20_000
_TRIES = 200

_used: set[int] = set()


def free_port() -> int:
    """A free port outside the range of ports for outgoing connections.

    A client could get a port in the kernel's ephemeral range before the broker binds it. `kafkad dev` uses the range
    above this one. Concurrent stages of CI (KAFKAD_TEST_LANE) and processes of pytest-xdist have disjoint parts of the
    range, so none takes the port of a broker that another one restarts. No port is returned twice, because its first
    owner may not have bound it yet.
    """
    ports = [port for port in own_ports() if port not in _used]
    choose = random.SystemRandom()
    for _ in range(_TRIES):
        port = choose.choice(ports)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _used.add(port)
            return port
    raise RuntimeError(f"no free port found in {own_ports()} after {_TRIES} tries")


def own_ports() -> range:
    """The ports of this process, among concurrent test processes."""
    lane, lanes = map(int, os.environ.get("KAFKAD_TEST_LANE", "0/1").split("/"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return range(_FIRST + lane * workers + worker, _STOP, lanes * workers)
