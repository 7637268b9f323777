"""Where does the broker listen, and which address is each client told?

Parses `listeners` and its companions as Kafka does. A listener without an advertised address tells each client the
address that this client connected to; an address that nobody can connect to is never advertised. In a cluster brokers
tell clients of each other, so that there each listener has one address for all, or none.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from kafkad.core.types import SECURITY_PROTOCOLS

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


class InvalidListeners(ValueError):
    """The listeners are wrong; the message says what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A host and a port; port 0 is replaced by the free port that the broker got."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One address to listen on; an empty host is every interface.

    `advertised` is what clients are told; None means the address that each of them connected to. In a cluster a
    listener without one is not registered.
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
    """The listeners that are served, and the names of those that are left out."""

    served: tuple[Listener, ...]
    left_out: tuple[str, ...]

    def untold(self) -> "Listeners":
        """The same without a configured address: each client is told the address it connected to."""
        served = tuple(replace(listener, advertised=None) for listener in self.served)
        return Listeners(served=served, left_out=self.left_out)


def parse_listeners(
    listeners: Iterable[str],
    advertised: Iterable[str] | None,
    protocol_map: str,
    controller_names: Iterable[str] = (),
    own_name: Callable[[], str] | None = None,
) -> Listeners:
    """The listeners to serve, and the names of KRaft controllers' listeners, which are left out.

    `own_name`, of a broker in a cluster, gives the name of this machine.
    """
    protocols = _protocols(protocol_map)
    left_out = {name.upper() for name in controller_names if name}
    bound = _endpoints("listeners", listeners)
    _check_ports(bound)
    told = _endpoints("advertised.listeners", advertised) if advertised is not None else None
    if told == {}:
        raise InvalidListeners("advertised.listeners is empty; write an address, or remove the line")
    foreign_files = sorted(set(told or ()) - set(bound) - left_out)
    if foreign_files:
        raise InvalidListeners(f"advertised.listeners names {foreign_files[0]}, which is not in listeners")
    served = []
    for name, endpoint in bound.items():
        if name not in left_out:
            served.append(_listener(name, endpoint, _protocol(name, protocols), told, own_name))
    if not served:
        raise InvalidListeners("listeners has none that clients could use; add one, such as PLAINTEXT://:9092")
    return Listeners(served=tuple(served), left_out=tuple(name for name in bound if name in left_out))


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
            raise InvalidListeners(f"{option}: each listener needs a name of its own, {name} is there twice")
        endpoints[name] = Endpoint(host=found[2], port=port)
    return endpoints


def _check_ports(endpoints: Mapping[str, Endpoint]) -> None:
    """One port serves two listeners only if one of them is an IPv4 and the other an IPv6 address."""
    by_port: dict[int, list[str]] = {}
    for endpoint in endpoints.values():
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint.host)
    for port, hosts in by_port.items():
        if len(hosts) > 1 and sorted(map(_ip_version, hosts)) != [4, 6]:
            raise InvalidListeners(f"listeners: each listener needs a port of its own, {port} is there twice")


def _ip_version(host: str) -> int:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _protocol(name: str, protocols: Mapping[str, str]) -> str:
    protocol = protocols.get(name)
    if protocol is None:
        raise InvalidListeners(
            f"no security protocol is known for listener {name}; add {name}:PLAINTEXT to listener.security.protocol.map"
        )
    if protocol != "PLAINTEXT":
        raise InvalidListeners(f"listener {name} demands {protocol}, and only PLAINTEXT is served yet")
    return protocol


def _listener(
    name: str,
    bound: Endpoint,
    protocol: str,
    told: Mapping[str, Endpoint] | None,
    own_name: Callable[[], str] | None,
) -> Listener:
    advertised = _advertised(name, bound, told) if own_name is None else _registered(name, bound, told, own_name)
    return Listener(name=name, host=bound.host, port=bound.port, protocol=protocol, advertised=advertised)


def _advertised(name: str, bound: Endpoint, told: Mapping[str, Endpoint] | None) -> Endpoint | None:
    if told is None:
        return None if is_wildcard(bound.host) else bound
    endpoint = told.get(name)
    if endpoint is None or endpoint.host == "":
        return None
    if is_wildcard(endpoint.host):
        raise InvalidListeners(
            f"advertised.listeners: clients can't connect to {endpoint.host}; write a name or address that they"
            f" can reach, such as {name}://broker.example.org:{endpoint.port}, or remove advertised.listeners:"
            " then each client is told the address that it connected to"
        )
    return endpoint


def _registered(
    name: str, bound: Endpoint, told: Mapping[str, Endpoint] | None, own_name: Callable[[], str]
) -> Endpoint | None:
    """In a cluster: an empty host is this machine's name, and who is not told of has no address."""
    endpoint = bound if told is None else told.get(name)
    if endpoint is None:
        return None
    if endpoint.host == "":
        return replace(endpoint, host=own_name())
    if is_wildcard(endpoint.host):
        raise InvalidListeners(
            f"advertised.listeners: other brokers can't connect to {endpoint.host}; write a name or address that they"
            f" and clients can reach, such as {name}://broker.example.org:{endpoint.port}"
        )
    return endpoint
