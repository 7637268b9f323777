"""The addresses that one peer can use: one with IPv4, usually all 2^64 of a network with IPv6."""

from ipaddress import IPv6Network

NETWORK_BITS = 64


def network_of(host: str) -> str:
    """`host` itself, or the /64 network of an IPv6 address."""
    if ":" not in host:
        return host
    address = host.partition("%")[0]
    return str(IPv6Network((address, NETWORK_BITS), strict=False))
