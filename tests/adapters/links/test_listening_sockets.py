"""Sockets that the service manager hands over are taken for their addresses; a process of its own receives them."""

import select
import socket
import subprocess
import sys
from contextlib import ExitStack

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.links.listening_sockets import backlog_of, bind_listener, start_listening

NO_LIMIT = 2**31 - 1
_RECEIVER = """
import os
from kafkad.adapters.links.listening_sockets import InheritedSockets

os.environ["LISTEN_PID"] = str(os.getpid() + OTHER)
inherited = InheritedSockets()
taken = inherited.take("127.0.0.1", PORT)
port = taken.getsockname()[1] if taken else None
print(port, inherited.take("127.0.0.1", 1), inherited.close(), "LISTEN_FDS" in os.environ)
"""


def _receive(ports: list[int], wanted: int, *, other: int = 0) -> str:
    """A process with listening sockets at 3, 4, …, as systemd starts it, that wants one of them."""
    sockets = [bind_listener("127.0.0.1", port) for port in ports]
    start_listening(sockets, 5)
    wanted = wanted or sockets[0].getsockname()[1]
    numbers = [sock.fileno() for sock in sockets]
    moves = "import os, sys; " + "".join(f"os.dup2(int(sys.argv[{i + 1}]) , {i + 3}); " for i in range(len(ports)))
    program = moves + _RECEIVER.replace("PORT", str(wanted)).replace("OTHER", str(other)).strip()
    done = subprocess.run(
        [sys.executable, "-c", program.replace("; \n", "\n"), *map(str, numbers)],
        env={"LISTEN_FDS": str(len(ports)), "LISTEN_FDNAMES": "a:b"},
        pass_fds=numbers,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    for sock in sockets:
        sock.close()
    return done.stdout + done.stderr


def test_socket_of_the_address_is_taken_and_the_rest_is_named() -> None:
    said = _receive([0, 0], 0)
    assert said.split()[1:] == ["None", "['b']", "False"]
    assert said.split()[0].isdecimal()


def test_socket_of_another_address_is_not_taken() -> None:
    assert _receive([0], 2) == "None None ['a'] False\n"


def test_sockets_for_another_process_are_left_alone() -> None:
    assert _receive([0], 0, other=1) == "None None [] False\n"


def test_burst_of_newcomers_is_kept_until_somebody_accepts() -> None:
    """Beyond the kernel's queue a newcomer's first packet is dropped, and the next one comes a second later."""
    newcomers = 500
    with bind_listener("127.0.0.1", 0) as listening, ExitStack() as stack:
        start_listening([listening], backlog_of(50, NO_LIMIT))
        connected: set[int] = set()
        poll = select.poll()
        for _ in range(newcomers):
            newcomer = stack.enter_context(socket.socket())
            newcomer.setblocking(False)
            newcomer.connect_ex(listening.getsockname())
            poll.register(newcomer, select.POLLOUT)
        # Nobody accepts: those for whom there is no room are never connected, however long they are waited for.
        while len(connected) < newcomers and (ready := poll.poll(5_000)):
            for fd, _ in ready:
                connected.add(fd)
                poll.unregister(fd)
        assert len(connected) == newcomers


def test_queue_is_what_is_asked_for_or_a_second_of_newcomers() -> None:
    assert backlog_of(50, NO_LIMIT) == 1_024
    assert backlog_of(2_000, NO_LIMIT) == 2_000
    assert backlog_of(50, 200) == 200
    assert backlog_of(50, 0) == 50
