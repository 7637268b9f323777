"""Who asks, over which connection, in which version: what every handler, authorizer and quota may know of a request.

What stays the same for a connection is made once and shared by its requests. All of it crosses the links between
processes as it is, so these are Structs: frozen, and made and packed at a tenth of a dataclass's cost.
"""

from msgspec import Struct


class KafkaPrincipal(Struct, frozen=True, array_like=True, gc=False):
    """Who somebody is, as ACLs name them: `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = KafkaPrincipal("User", "ANONYMOUS")
"""Whoever comes to a listener without authentication."""


class ClientIdentity(Struct, frozen=True, array_like=True, gc=False):
    """By which a client is known. A request without a client id has the empty one."""

    principal: KafkaPrincipal
    client_id: str
    address: str = ""
    """The peer's, without its port."""


class ClientInformation(Struct, frozen=True, array_like=True, gc=False):
    """The client's software, by its own account (KIP-511)."""

    software_name: str
    software_version: str


UNKNOWN_SOFTWARE = ClientInformation("unknown", "unknown")


class ConnectionContext(Struct, frozen=True, array_like=True, gc=False):
    """What is the same for all requests of a connection, whatever their client ids."""

    listener: str
    security_protocol: str
    advertised: tuple[str, int]
    """The address at which a client on this connection is told to find this broker."""
    information: ClientInformation = UNKNOWN_SOFTWARE


class RequestContext(Struct, frozen=True, array_like=True, gc=False):
    """One request, but for its body. `received_ms` is on the monotonic clock, on which deadlines are."""

    client: ClientIdentity
    connection: ConnectionContext
    api_key: int
    version: int
    correlation_id: int
    received_ms: int

    def deadline_ms(self, timeout_ms: int) -> int:
        """Until when its answer may take, with the timeout that the request or its API has."""
        return self.received_ms + timeout_ms

    @property
    def client_host(self) -> str:
        """As Java writes an address, and groups show it."""
        return "/" + self.client.address


BROKER_ITSELF = RequestContext(ClientIdentity(ANONYMOUS, ""), ConnectionContext("", "", ("", -1)), -1, 0, 0, 0)
"""Of what no client asks, but the broker."""
