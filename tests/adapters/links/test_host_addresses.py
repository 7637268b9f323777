"""Hosts as the kernel shows their addresses."""

import pytest

from kafkad.adapters.links.host_addresses import address_of, without_mapping


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("localhost", "127.0.0.1"),
        ("nobody.invalid", None),
    ],
)
def test_host_stands_for_one_address(host: str, address: str | None) -> None:
    assert address_of(host) == address


@pytest.mark.parametrize(
    ("shown", "meant"), [("::ffff:10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("10.0.0.1", "10.0.0.1")]
)
def test_address_of_ipv4_is_itself_whichever_socket_it_came_by(shown: str, meant: str) -> None:
    assert without_mapping(shown) == meant
