import os
import socket
from pathlib import Path

from kafkad.adapters.links.free_port import free_port
from kafkad.adapters.links.port_holder import describe_holder


def test_own_listener_is_found_with_its_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        holder = describe_holder(listener.getsockname()[1])
    assert holder is not None
    assert holder.endswith(f"(process {os.getpid()})")


def test_listener_on_ipv6_is_found_too() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        holder = describe_holder(listener.getsockname()[1])
    assert holder is not None
    assert f"(process {os.getpid()})" in holder


def test_long_command_line_is_cut_where_it_still_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    row = "   0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1"
    (tmp_path / "net" / "tcp").write_text(f"  sl  local_address\n{row}\n")
    (tmp_path / "7" / "fd").mkdir(parents=True)
    (tmp_path / "7" / "fd" / "3").symlink_to("socket:[4711]")
    (tmp_path / "7" / "cmdline").write_bytes(b"java\0-cp\0" + b"x" * 100 + b"\0kafka.Kafka\0")
    (tmp_path / "7" / "comm").write_text("java\n")
    assert describe_holder(9092, tmp_path) == f"java -cp {'x' * 50}… (process 7)"


def test_free_port_has_no_holder() -> None:
    assert describe_holder(free_port()) is None


def test_connection_from_a_port_does_not_hold_it() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        assert describe_holder(client.getsockname()[1]) is None


def test_process_of_somebody_else_is_told_by_its_user(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    row = "   0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1"
    (tmp_path / "net" / "tcp").write_text(f"  sl  local_address\n{row}\n")
    (tmp_path / "1").mkdir()
    assert describe_holder(9092, tmp_path) == "a process of user root"
