"""The context of a request for handlers, authorizers and quotas: the client, its connection, the API version.

The constant values of a connection are created once and shared by its requests. All of it is sent over the links
between processes, so these are Structs: frozen, and created and packed at a tenth of a dataclass's cost.
"""

from msgspec import Struct


class KafkaPrincipal(Struct, frozen=True, array_like=True, gc=False):
    """A principal, as ACLs name it: `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = KafkaPrincipal("User", "ANONYMOUS")
"""The principal of all clients on a listener without authentication."""


class ClientIdentity(Struct, frozen=True, array_like=True, gc=False):
    """The identity of a client. Without a client id it is empty."""

    principal: KafkaPrincipal
    client_id: str
    address: str = ""
    """The peer's address, without its port."""


class ClientInformation(Struct, frozen=True, array_like=True, gc=False):
    """The client's software, as the client reports it (KIP-511)."""

    software_name: str
    software_version: str


UNKNOWN_SOFTWARE = ClientInformation("unknown", "unknown")


class ConnectionContext(Struct, frozen=True, array_like=True, gc=False):
    """The constant values of a connection, for all its requests and client ids."""

    listener: str
    security_protocol: str
    advertised: tuple[str, int]
    """The address at which a client of this connection reaches this broker."""
    information: ClientInformation = UNKNOWN_SOFTWARE


class RequestContext(Struct, frozen=True, array_like=True, gc=False):
    """One request without its body. `received_ms` is on the monotonic clock, like all deadlines."""

    client: ClientIdentity
    connection: ConnectionContext
    api_key: int
    version: int
    correlation_id: int
    received_ms: int

    def deadline_ms(self, timeout_ms: int) -> int:
        """The deadline of the response, for the timeout of the request or its API."""
        return self.received_ms + timeout_ms

    @property
    def client_host(self) -> str:
        """The address in Java's format, as groups show it."""
        return "/" + self.client.address


BROKER_ITSELF = RequestContext(ClientIdentity(ANONYMOUS, ""), ConnectionContext("", "", ("", -1)), -1, 0, 0, 0)
"""The context of the broker's own requests."""
