"""Resolves host names, and normalizes addresses with several forms."""

import ipaddress
import socket

_MAPPED = "::ffff:"


def without_mapping(host: str) -> str:
    """The IPv4 address of an IPv4-mapped IPv6 address, as in dual-stack listeners; other addresses unchanged."""
    return host.removeprefix(_MAPPED) if "." in host else host


def address_of(host: str) -> str | None:
    """The address in the kernel's form; None for an unknown name. May query a name server."""
    try:
        address = ipaddress.ip_address(host)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return str(mapped or address)
    except ValueError:
        pass
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return str(socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)[0][4][0])
        except OSError:
            continue
    return None
