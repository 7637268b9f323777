"""What systemd is told, and what it is asked for."""

import os
import socket
from pathlib import Path

from kafkad.adapters.links.listening_sockets import bind_listener, kept_name, start_listening
from kafkad.adapters.operating_system.service_manager import ServiceManager, command_that_lets_in


def test_watchdog_of_another_process_is_not_fed() -> None:
    environment = {"WATCHDOG_USEC": "15000000", "WATCHDOG_PID": str(os.getpid() + 1)}
    assert ServiceManager(environment).watchdog_ms == 0
    assert ServiceManager({**environment, "WATCHDOG_PID": str(os.getpid())}).watchdog_ms == 15000


def test_start_that_takes_long_asks_for_time(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")}).starting_for(30, "recovering 40 %")
        assert manager.recv(100) == b"EXTEND_TIMEOUT_USEC=30000000\nSTATUS=recovering 40 %"


def test_nobody_is_told_without_a_service_manager() -> None:
    with socket.socket() as end:
        ServiceManager({}).keep("name", end)


def test_kept_socket_is_one_that_listens(tmp_path: Path) -> None:
    listening = bind_listener("127.0.0.1", 0)
    start_listening([listening], 5)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, listening:
        manager.bind(str(tmp_path / "notify"))
        ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")}).keep("x", listening)
        note, descriptors, _, _ = socket.recv_fds(manager, 100, 2)
        assert note == b"FDSTORE=1\nFDPOLL=0\nFDNAME=x"
        with socket.socket(fileno=descriptors[0]) as kept:
            assert kept.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1


def test_name_of_a_kept_socket_has_no_colon() -> None:
    assert kept_name("::1", 9092) == "..1-9092"


def test_command_that_lets_a_folder_in_is_for_the_unit_that_runs() -> None:
    command = command_that_lets_in("/srv/a b", {"KAFKAD_UNIT": "kafkad@x.service"})
    assert command is not None
    assert "ReadWritePaths=/srv/a b" in command
    assert ">/etc/systemd/system/kafkad@x.service.d/log-dirs.conf" in command
    assert "ProtectHome" not in command
    assert "ProtectHome=no" in (command_that_lets_in("/home/x", {"KAFKAD_UNIT": "kafkad.service"}) or "")


def test_outside_a_unit_there_is_no_such_command() -> None:
    assert command_that_lets_in("/srv", {}) is None
