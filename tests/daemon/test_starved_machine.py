"""A machine that can't give what the broker asks for: one line, and either no start or another try; never its end.

Real processes, as the kernel's own limits are set. That of processes does not bind root: the broker then runs as a
user of its own.
"""

import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from tests.daemon.supervised import TrivialBroker
from tests.tools.stranger import STRANGER, as_stranger


@pytest.fixture
def start(folder: Path, brokers: list[TrivialBroker]) -> Callable[..., TrivialBroker]:
    """A broker as that user, with soft limits; not waited for."""

    def started(limits: dict[int, int] | None = None) -> TrivialBroker:
        if STRANGER is not None:
            os.chown(folder, STRANGER, STRANGER)
        brokers.append(TrivialBroker(folder, limits=limits, is_stranger=True))
        return brokers[-1]

    return started


def limit(broker: TrivialBroker, name: str, soft: int) -> None:
    """Another soft limit for its supervisor alone, which is the user's own right."""
    command = ["prlimit", "--pid", str(broker.pid), f"--{name}={soft}:"]
    subprocess.run(as_stranger(command), check=True)


def descriptors(broker: TrivialBroker) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


@pytest.mark.parametrize("most", [1, 2])
def test_start_that_finds_no_room_for_a_process_is_one_line_and_leaves_nothing(
    start: Callable[..., TrivialBroker], most: int
) -> None:
    """With room for two, one is there already and stops in order, unless it has come so far that it wants a thread."""
    broker = start({resource.RLIMIT_NPROC: most})
    assert broker.wait_for_end() == 2
    lines = broker.log().splitlines()
    (said,) = (line for line in lines if "CRITICAL" in line)
    assert "stopping the broker: " in said and "(ulimit -u, TasksMax=, pids.max)" in said
    assert "Traceback" not in broker.log()
    assert broker.is_marked_clean() or "can't start more threads" in broker.log(), broker.log()


def test_worker_that_dies_while_no_process_may_be_started_lives_again_when_one_may(
    start: Callable[..., TrivialBroker],
) -> None:
    broker = start().wait_until_serving()
    worker, others = broker.pid_of("worker-0"), {process.pid for process in broker.tree()[1:]}
    at_rest = descriptors(broker)
    limit(broker, "nproc", 1)
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: broker.log().count("can't start worker-0") >= 3, what="three tries")
    assert descriptors(broker) < at_rest, "failed tries leave nothing open"
    assert {process.pid for process in broker.tree()[1:]} == others - {worker}, "nobody else has ended"
    limit(broker, "nproc", resource.getrlimit(resource.RLIMIT_NPROC)[0])
    broker.wait_for("worker-0 2 ready")
    broker.wait_for("worker-0 2 got hello from network-0 1")
    assert "Traceback" not in broker.log()
    assert descriptors(broker) == at_rest
    broker.signal(signal.SIGTERM)
    assert broker.wait_for_end() == 0
    assert broker.is_marked_clean()


def test_worker_that_dies_while_no_file_may_be_opened_lives_again_when_one_may(
    start: Callable[..., TrivialBroker],
) -> None:
    broker = start().wait_until_serving()
    worker = broker.pid_of("worker-0")
    limit(broker, "nofile", 3)
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: broker.log().count("can't start worker-0") >= 3, what="three tries")
    limit(broker, "nofile", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    broker.wait_for("worker-0 2 ready")
    assert "Traceback" not in broker.log()


def test_process_that_gets_no_thread_is_tried_again(start: Callable[..., TrivialBroker]) -> None:
    """The supervisor may still fork; what it forks may not start the threads of its messages."""
    broker = start().wait_until_serving()
    threads = {process.pid: _threads(process.pid) for process in broker.tree()}
    worker = broker.pid_of("worker-0")
    limit(broker, "nproc", sum(threads.values()) - threads[worker] + 1)
    os.kill(worker, signal.SIGKILL)
    said = "ERROR worker-0 exiting: can't start more threads"
    eventually(lambda: broker.log().count(said) >= 2, what="two tries")
    assert "worker-0 exited with exit code 71 (2 times within ten minutes); restarting it in" in broker.log()
    assert "Traceback" not in broker.log()
    limit(broker, "nproc", resource.getrlimit(resource.RLIMIT_NPROC)[0])
    broker.wait_for("network-0 1 replaced worker-0")


def _threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def is_greeted(broker: TrivialBroker) -> bool:
    """Whichever life of the worker it is that the second network process meets."""
    broker.says_anything_within(0.01)
    return any(re.fullmatch(r"worker-0 \d+ got hello from network-0 2", line) for line in broker.lines)


def test_process_that_gets_no_socket_is_tried_again(start: Callable[..., TrivialBroker]) -> None:
    broker = start().wait_until_serving()
    (sockets,) = (broker.folder / "run").iterdir()
    sockets.chmod(0o500)
    os.kill(broker.pid_of("network-0"), signal.SIGKILL)
    said = f"ERROR worker-0 exiting: can't create a socket in {sockets}: Permission denied"
    eventually(lambda: broker.log().count(said) >= 2, what="two tries")
    assert "Traceback" not in broker.log()
    sockets.chmod(0o700)
    eventually(lambda: is_greeted(broker), what="a worker with a socket for the network process")
    broker.signal(signal.SIGTERM)
    assert broker.wait_for_end() == 0


def test_broker_that_has_served_outlives_any_number_of_deaths(folder: Path, brokers: list[TrivialBroker]) -> None:
    broker = TrivialBroker(folder, environment={"FAILURES_ALLOWED": "2"})
    brokers.append(broker)
    broker.wait_until_serving()
    for incarnation in range(1, 5):
        broker.wait_for(f"worker-0 {incarnation} ready")
        os.kill(broker.pid_of("worker-0"), signal.SIGKILL)
    broker.wait_for("worker-0 5 ready")
    assert "worker-0 exited with SIGKILL; restarting it in 0 ms" in broker.log()
    assert "worker-0 exited with SIGKILL (4 times within ten minutes); restarting it in" in broker.log()
    assert "worker-1 exited" not in broker.log()
