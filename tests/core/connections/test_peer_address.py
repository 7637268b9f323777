"""The addresses that one peer can use."""

from kafkad.core.connections.peer_address import network_of


def test_ipv6_peers_are_one_by_their_first_64_bits() -> None:
    assert network_of("2001:db8:0:1:aaaa::1") == network_of("2001:db8:0:1::2") != network_of("2001:db8:0:2::1")
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("10.0.0.1") == "10.0.0.1"
