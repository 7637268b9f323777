"""The addresses that one peer can use: with IPv4 one, with IPv6 usually all 2^64 of a network."""

from ipaddress import IPv6Network

NETWORK_BITS = 64


def network_of(host: str) -> str:
    """`host` itself, or the /64 around an address of IPv6."""
    if ":" not in host:
        return host
    address = host.partition("%")[0]
    return str(IPv6Network((address, NETWORK_BITS), strict=False))
