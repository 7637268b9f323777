"""The supervisor with real processes: killed, stuck, crashing, refused; nothing may be left behind.

Real, for forks, signals, deaths and the sockets of a service manager. What the processes do is played.
"""

import os
import resource
import signal
import socket
from pathlib import Path

import pytest

from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S
from tests.daemon.supervised import TrivialBroker, await_death


def test_every_role_is_named_in_the_process_list(folder: Path, brokers: list[TrivialBroker]) -> None:
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving()
    titles = {process.title for process in broker.tree()[1:]}
    assert titles == {
        "kafkad controller-0",
        "kafkad worker-0",
        "kafkad worker-1",
        "kafkad network-0",
        "kafkad cleaner-0",
        "kafkad reporter-0",
    }


def test_stop_goes_by_stages_and_leaves_the_clean_marker(folder: Path, brokers: list[TrivialBroker]) -> None:
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving().signal(signal.SIGTERM)
    assert broker.wait_for_end() == 0
    stopped = [line.split("-")[0] for line in broker.lines if line.endswith(" stopped")]
    assert stopped == ["network", "cleaner", "worker", "worker", "controller", "reporter"]
    assert broker.is_marked_clean()
    assert list((folder / "run").iterdir()) == []


def test_marker_is_not_written_after_an_unclean_worker(folder: Path, brokers: list[TrivialBroker]) -> None:
    (folder / "worker-1.unclean").touch()
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving().signal(signal.SIGINT)
    assert broker.wait_for_end() == 0
    assert not broker.is_marked_clean()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_the_whole_group_is_one_to_the_supervisor(
    folder: Path, brokers: list[TrivialBroker], number: signal.Signals
) -> None:
    """Ctrl-C reaches every process of the terminal, some service managers signal all as well."""
    broker = TrivialBroker(folder)
    brokers.append(broker)
    for process in reversed(broker.wait_until_serving().tree()):
        os.kill(process.pid, number)
    assert broker.wait_for_end() == 0
    assert "exited with" not in broker.log()
    assert broker.is_marked_clean()


def test_second_interrupt_does_not_cut_the_stop_short(folder: Path, brokers: list[TrivialBroker]) -> None:
    (folder / "network-0.slow").touch()
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving().signal(signal.SIGINT)
    broker.signal(signal.SIGINT)
    broker.signal(signal.SIGTERM)
    os.kill(broker.pid_of("network-0"), signal.SIGKILL)
    assert broker.wait_for_end() == 0
    assert broker.is_marked_clean()


def test_killed_worker_lives_again_and_its_peers_are_told(folder: Path, brokers: list[TrivialBroker]) -> None:
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving()
    os.kill(broker.pid_of("worker-0"), signal.SIGKILL)
    broker.wait_for("worker-0 2 ready")
    # Who looks late sees no moment without a worker.
    broker.wait_for("network-0 1 replaced worker-0 1 2")
    broker.wait_for("controller-0 1 replaced worker-0 1 2")
    broker.wait_for("worker-0 2 got hello from network-0 1")


def test_killed_network_process_talks_to_all_under_its_new_life(folder: Path, brokers: list[TrivialBroker]) -> None:
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving()
    os.kill(broker.pid_of("network-0"), signal.SIGKILL)
    broker.wait_for("worker-0 1 got hello from network-0 2")
    broker.wait_for("worker-1 1 got hello from network-0 2")
    broker.signal(signal.SIGTERM)
    assert broker.wait_for_end() == 0
    assert broker.is_marked_clean()


def test_all_children_killed_at_once_live_again(folder: Path, brokers: list[TrivialBroker]) -> None:
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving()
    for process in broker.tree()[1:]:
        os.kill(process.pid, signal.SIGKILL)
    for key in ("controller-0", "worker-0", "worker-1", "network-0", "cleaner-0", "reporter-0"):
        broker.wait_for(f"{key} 2 ready")
    broker.wait_for("worker-1 2 got hello from network-0 2")


def test_worker_that_is_killed_during_the_stop_makes_it_unclean(folder: Path, brokers: list[TrivialBroker]) -> None:
    (folder / "worker-0.slow").touch()
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving()
    worker = broker.pid_of("worker-0")
    broker.signal(signal.SIGTERM)
    broker.wait_for("worker-1 1 stopped")
    os.kill(worker, signal.SIGKILL)
    assert broker.wait_for_end() == 0
    assert not broker.has_said("worker-0 2 ready")
    assert not broker.is_marked_clean()


def test_child_that_does_not_stop_in_time_is_killed(folder: Path, brokers: list[TrivialBroker]) -> None:
    (folder / "network-0.slow").touch()
    (folder / "worker-1.slow").touch()
    broker = TrivialBroker(folder, environment={"STAGE_MS": "300"})
    brokers.append(broker)
    broker.wait_until_serving().signal(signal.SIGTERM)
    assert broker.wait_for_end() == 0
    lines = [line for line in broker.log().splitlines() if line.endswith(": it has not stopped in time")]
    killed = [line.split()[5].rstrip(":") for line in lines]
    assert len(set(killed)) == len(killed), "each once, however long its end takes"
    # On a machine that stands still others are too late as well.
    assert [each for each in killed if each in ("network-0", "worker-1")] == ["network-0", "worker-1"]
    assert broker.has_said("worker-0 1 stopped") or "worker-0" in killed
    assert not broker.is_marked_clean()


def test_children_hold_no_socket_of_another(folder: Path, brokers: list[TrivialBroker]) -> None:
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving()
    os.kill(broker.pid_of("worker-0"), signal.SIGKILL)
    broker.wait_for("worker-0 2 ready")
    sockets = {process.title: _sockets(process.pid) for process in broker.tree()[1:]}
    names = sorted(sockets)
    shared = {(a, b): sockets[a] & sockets[b] for a in names for b in names if a < b and sockets[a] & sockets[b]}
    assert shared == {}


def test_all_open_files_that_are_allowed_can_be_used(folder: Path, brokers: list[TrivialBroker]) -> None:
    broker = TrivialBroker(folder, limits={resource.RLIMIT_NOFILE: 256})
    brokers.append(broker)
    broker.wait_until_serving()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for process in broker.tree():
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)


def test_crash_loop_stops_the_broker_and_says_why(folder: Path, brokers: list[TrivialBroker]) -> None:
    (folder / "cleaner-0.crash").touch()
    broker = TrivialBroker(folder, environment={"FAILURES_ALLOWED": "2"})
    brokers.append(broker)
    assert broker.wait_for_end() == 1
    assert "cleaner-0 exited 3 times before the broker could serve, last with exit code 70" in broker.log()
    assert "RuntimeError: told to crash" in broker.log()


def test_fatal_word_of_a_child_stops_the_broker(folder: Path, brokers: list[TrivialBroker]) -> None:
    (folder / "controller-0.fatal").touch()
    broker = TrivialBroker(folder)
    brokers.append(broker)
    assert broker.wait_for_end() == 1
    assert "CRITICAL supervisor stopping the broker: controller-0: told to be fatal" in broker.log()


def test_killed_supervisor_leaves_no_process(folder: Path, brokers: list[TrivialBroker]) -> None:
    broker = TrivialBroker(folder)
    brokers.append(broker)
    family = broker.wait_until_serving().tree()
    assert len(family) == 7
    # One that can't notice by itself: only the kernel ends it.
    os.kill(broker.pid_of("worker-0"), signal.SIGSTOP)
    broker.signal(signal.SIGKILL)
    for process in family[1:]:
        await_death(process)


def test_broker_after_a_killed_one_removes_its_sockets(folder: Path, brokers: list[TrivialBroker]) -> None:
    first = TrivialBroker(folder)
    brokers.append(first)
    family = first.wait_until_serving().tree()
    left_over = set((folder / "run").iterdir())
    first.signal(signal.SIGKILL)
    for process in family:
        await_death(process)
    second = TrivialBroker(folder)
    brokers.append(second)
    second.wait_until_serving()
    assert left_over and not left_over & set((folder / "run").iterdir())


def test_taken_port_is_named_with_its_holder(folder: Path, brokers: list[TrivialBroker]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = TrivialBroker(folder, f"listeners=PLAINTEXT://127.0.0.1:{port}")
        brokers.append(broker)
        assert broker.wait_for_end() == 2
    assert f"can't listen on 127.0.0.1:{port}: the port is taken by" in broker.log()
    assert f"(process {os.getpid()})" in broker.log()


def test_log_directory_of_a_running_broker_is_refused(folder: Path, brokers: list[TrivialBroker]) -> None:
    first = TrivialBroker(folder)
    brokers.append(first)
    first.wait_until_serving()
    second = TrivialBroker(folder)
    brokers.append(second)
    assert second.wait_for_end() == 2
    assert f"data is already locked by pid {first.pid}" in second.log()


def test_listener_is_closed_as_soon_as_the_stop_begins(folder: Path, brokers: list[TrivialBroker]) -> None:
    (folder / "worker-0.slow").touch()
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving()
    port = int(next(line for line in broker.lines if line.startswith("serving")).split()[1])
    socket.create_connection(("127.0.0.1", port)).close()
    broker.signal(signal.SIGTERM)
    broker.wait_for("worker-1 1 stopped")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_hangup_reloads_what_can_be_and_names_the_rest(folder: Path, brokers: list[TrivialBroker]) -> None:
    (folder / "server.properties").write_text("log.retention.ms=1000\n")
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving()
    (folder / "server.properties").write_text("log.retention.ms=2000\nsocket.request.max.bytes=1000000\n")
    broker.signal(signal.SIGHUP)
    broker.wait_for("worker-0 1 reload 2000")
    assert "socket.request.max.bytes has changed in the file, but requires a restart" in broker.log()


def test_child_that_hangs_writes_down_where_if_it_can_and_is_killed_and_replaced(
    folder: Path, brokers: list[TrivialBroker]
) -> None:
    (folder / "worker-1.hang").touch()
    broker = TrivialBroker(folder)
    brokers.append(broker)
    broker.wait_until_serving()
    (folder / "worker-1.hang").unlink()
    # One that is stopped can't.
    os.kill(broker.pid_of("worker-0"), signal.SIGSTOP)
    broker.wait_for("worker-0 2 ready")
    broker.wait_for("worker-1 2 ready")
    assert "killing worker-0: its heartbeat has stopped" in broker.log()
    said, stacks = broker.log().split("killing worker-1: its heartbeat has stopped", 1)
    assert "trivial_broker.py" not in said
    assert "in _hang\n" in stacks and "in run_child\n" in stacks
    assert "worker-1 exited with SIGKILL" in stacks
    assert not broker.has_said("network-0 2 ready")


def test_service_manager_is_fed_while_the_children_live(folder: Path, brokers: list[TrivialBroker]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(WITHIN_S)
        environment = {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "900000"}
        broker = TrivialBroker(folder, environment=environment)
        brokers.append(broker)
        broker.wait_until_serving()
        heard: list[bytes] = []
        while heard.count(b"WATCHDOG=1") < 3:
            heard.append(manager.recv(4096))


def test_service_manager_hears_ready_and_stopping(folder: Path, brokers: list[TrivialBroker]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(WITHIN_S)
        broker = TrivialBroker(folder, environment={"NOTIFY_SOCKET": str(folder / "notify")})
        brokers.append(broker)
        _notes_until(manager, b"READY=1\nSTATUS=serving")
        broker.signal(signal.SIGTERM)
        texts = _notes_until(manager, b"STATUS=stopping: reporting the last metrics")
        assert texts[0] == b"STOPPING=1\nSTATUS=stopping: completing pending requests"
        assert broker.wait_for_end() == 0


def test_service_manager_hears_how_far_a_recovery_is_and_waits_for_it(
    folder: Path, brokers: list[TrivialBroker]
) -> None:
    """A partition in a directory that was not stopped cleanly."""
    (folder / "data" / "t-0").mkdir(parents=True)
    (folder / "worker-0.loading").touch()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(WITHIN_S)
        broker = TrivialBroker(folder, environment={"NOTIFY_SOCKET": str(folder / "notify")})
        brokers.append(broker)
        _notes_until(manager, b"STATUS=recovering 40 %")
        _notes_until(manager, b"EXTEND_TIMEOUT_USEC=30000000\nSTATUS=recovering 40 %")


def test_service_manager_hears_how_much_is_left_to_flush(folder: Path, brokers: list[TrivialBroker]) -> None:
    (folder / "worker-0.slow").touch()
    (folder / "worker-1.slow").touch()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(WITHIN_S)
        broker = TrivialBroker(folder, environment={"NOTIFY_SOCKET": str(folder / "notify")})
        brokers.append(broker)
        broker.wait_until_serving().signal(signal.SIGTERM)
        _notes_until(manager, b"STATUS=stopping: flushing 12 partitions")


def test_listening_socket_outlives_a_restart_by_the_service_manager(folder: Path, brokers: list[TrivialBroker]) -> None:
    """It is handed over at the start, and comes back at the next one: who connects in between is served then."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(WITHIN_S)
        port = free_port()
        broker = TrivialBroker(
            folder,
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            environment={"NOTIFY_SOCKET": str(folder / "notify")},
        )
        brokers.append(broker)
        note, descriptors, _, _ = socket.recv_fds(manager, 4096, 4)
        assert note == f"FDSTORE=1\nFDPOLL=0\nFDNAME=127.0.0.1-{port}".encode()
        _notes_until(manager, b"READY=1\nSTATUS=serving")
        broker.signal(signal.SIGTERM)
        assert broker.wait_for_end() == 0
    with socket.socket(fileno=descriptors[0]) as kept, socket.create_connection(("127.0.0.1", port)) as waiting:
        inherited, _ = kept.accept()
        assert inherited.getpeername() == waiting.getsockname()
        inherited.close()


def _notes_until(manager: socket.socket, last: bytes) -> list[bytes]:
    """What is told up to `last`."""
    notes = [manager.recv(4096)]
    while notes[-1] != last:
        notes.append(manager.recv(4096))
    return notes


def _sockets(pid: int) -> set[str]:
    """The sockets that a process has open, by inode."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found
