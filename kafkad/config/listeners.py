"""The listeners of the broker, and their advertised addresses.

Parses `listeners` and related options as Kafka does. Without an advertised address, a listener advertises to each
client the address that the client connected to. Wildcard addresses are never advertised. In a cluster other brokers
advertise the address too, so it is the same for all clients, or the listener is not registered.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from kafkad.core.types import SECURITY_PROTOCOLS

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


class InvalidListeners(ValueError):
    """The listeners are invalid; the message has the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A host and a port; port 0 stands for a free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One address to listen on; an empty host is every interface.

    `advertised` is the advertised address; None is the address that each client connected to. In a cluster a listener
    without an advertised address is not registered.
    """

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"
    advertised: Endpoint | None = None

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(host=self.host, port=self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """The listeners to open, and the names of excluded listeners."""

    served: tuple[Listener, ...]
    excluded: tuple[str, ...]

    def without_advertised(self) -> "Listeners":
        """The same listeners; each client gets the address that it connected to."""
        served = tuple(replace(listener, advertised=None) for listener in self.served)
        return Listeners(served=served, excluded=self.excluded)


def parse_listeners(
    listeners: Iterable[str],
    advertised: Iterable[str] | None,
    protocol_map: str,
    controller_names: Iterable[str] = (),
    host_name: Callable[[], str] | None = None,
) -> Listeners:
    """The listeners to open; the listeners of KRaft controllers are excluded.

    For a broker in a cluster, `host_name` returns the name of this machine.
    """
    protocols = _protocols(protocol_map)
    excluded = {name.upper() for name in controller_names if name}
    bound = _endpoints("listeners", listeners)
    _check_ports(bound)
    advertised_endpoints = _endpoints("advertised.listeners", advertised) if advertised is not None else None
    if advertised_endpoints == {}:
        raise InvalidListeners("advertised.listeners is empty; add an address, or remove the line")
    unknown = sorted(set(advertised_endpoints or ()) - set(bound) - excluded)
    if unknown:
        raise InvalidListeners(f"advertised.listeners names {unknown[0]}, which is not in listeners")
    served = []
    for name, endpoint in bound.items():
        if name not in excluded:
            served.append(_listener(name, endpoint, _protocol(name, protocols), advertised_endpoints, host_name))
    if not served:
        raise InvalidListeners("listeners has no listener for clients; add one, such as PLAINTEXT://:9092")
    return Listeners(served=tuple(served), excluded=tuple(name for name in bound if name in excluded))


def parse_endpoint(text: str) -> Endpoint:
    """Parse `host:port`, as in kafkad's own options."""
    found = re.fullmatch(r"\[?([0-9a-zA-Z\-%._:]*?)\]?:([0-9]{1,5})", text)
    if found is None or int(found[2]) > 65535:
        raise InvalidListeners(f"expected host:port, found {text!r}")
    return Endpoint(host=found[1], port=int(found[2]))


def is_wildcard(host: str) -> bool:
    try:
        return host == "" or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _protocols(protocol_map: str) -> Mapping[str, str]:
    protocols = {}
    for pair in filter(None, (part.strip() for part in protocol_map.split(","))):
        name, _, protocol = (part.strip() for part in pair.rpartition(":"))
        if not name or protocol.upper() not in SECURITY_PROTOCOLS:
            raise InvalidListeners(f"listener.security.protocol.map: expected NAME:PROTOCOL, found {pair!r}")
        protocols[name.upper()] = protocol.upper()
    return protocols


def _endpoints(option: str, written: Iterable[str]) -> dict[str, Endpoint]:
    endpoints: dict[str, Endpoint] = {}
    texts = tuple(written)
    for text in () if texts == ("",) else texts:
        found = _ENDPOINT.fullmatch(text)
        if found is None or not found[1]:
            raise InvalidListeners(f"{option}: expected NAME://host:port, found {text!r}")
        name, port = found[1].upper(), int(found[3])
        if not 0 <= port <= 65535:
            raise InvalidListeners(f"{option}: the port of {text} is not between 0 and 65535")
        if name in endpoints:
            raise InvalidListeners(f"{option}: each listener needs a unique name, but {name} occurs twice")
        endpoints[name] = Endpoint(host=found[2], port=port)
    return endpoints


def _check_ports(endpoints: Mapping[str, Endpoint]) -> None:
    """Two listeners may have the same port only if one has an IPv4 and the other an IPv6 address."""
    by_port: dict[int, list[str]] = {}
    for endpoint in endpoints.values():
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint.host)
    for port, hosts in by_port.items():
        if len(hosts) > 1 and sorted(map(_ip_version, hosts)) != [4, 6]:
            raise InvalidListeners(f"listeners: each listener needs a unique port, but {port} occurs twice")


def _ip_version(host: str) -> int:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _protocol(name: str, protocols: Mapping[str, str]) -> str:
    protocol = protocols.get(name)
    if protocol is None:
        raise InvalidListeners(
            f"listener {name} has no security protocol; add {name}:PLAINTEXT to listener.security.protocol.map"
        )
    if protocol != "PLAINTEXT":
        raise InvalidListeners(f"listener {name} has the security protocol {protocol}, but only PLAINTEXT is supported")
    return protocol


def _listener(
    name: str,
    bound: Endpoint,
    protocol: str,
    advertised_endpoints: Mapping[str, Endpoint] | None,
    host_name: Callable[[], str] | None,
) -> Listener:
    advertised = (
        _advertised(name, bound, advertised_endpoints)
        if host_name is None
        else _registered(name, bound, advertised_endpoints, host_name)
    )
    return Listener(name=name, host=bound.host, port=bound.port, protocol=protocol, advertised=advertised)


def _advertised(name: str, bound: Endpoint, advertised_endpoints: Mapping[str, Endpoint] | None) -> Endpoint | None:
    if advertised_endpoints is None:
        return None if is_wildcard(bound.host) else bound
    endpoint = advertised_endpoints.get(name)
    if endpoint is None or endpoint.host == "":
        return None
    if is_wildcard(endpoint.host):
        raise InvalidListeners(
            f"advertised.listeners: clients can't connect to {endpoint.host}; set a reachable name or address,"
            f" such as {name}://broker.example.org:{endpoint.port}, or remove advertised.listeners:"
            " then each client gets the address that it connected to"
        )
    return endpoint


def _registered(
    name: str, bound: Endpoint, advertised_endpoints: Mapping[str, Endpoint] | None, host_name: Callable[[], str]
) -> Endpoint | None:
    """In a cluster: an empty host is the name of this machine, and None is a listener that is not registered."""
    endpoint = bound if advertised_endpoints is None else advertised_endpoints.get(name)
    if endpoint is None:
        return None
    if endpoint.host == "":
        return replace(endpoint, host=host_name())
    if is_wildcard(endpoint.host):
        raise InvalidListeners(
            f"advertised.listeners: other brokers can't connect to {endpoint.host}; set a name or address that brokers"
            f" and clients can reach, such as {name}://broker.example.org:{endpoint.port}"
        )
    return endpoint
