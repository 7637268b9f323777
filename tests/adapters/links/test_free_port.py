import socket
from pathlib import Path

from kafkad.adapters.links.free_port import free_port


def test_free_port_can_be_bound_and_is_none_of_the_kernels_own() -> None:
    lowest_own = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    port = free_port()
    assert port < lowest_own
    with socket.create_server(("127.0.0.1", port)):
        pass
