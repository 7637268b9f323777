"""Who asks in a test, and from where."""

from kafkad.core.request_context import ANONYMOUS, ClientIdentity, ConnectionContext, RequestContext

REACHED = ("reached.example", 9092)
"""Where clients find the broker."""


def a_client(client_id: str = "client", address: str = "127.0.0.1") -> ClientIdentity:
    return ClientIdentity(ANONYMOUS, client_id, address)


def a_context(
    version: int = 0,
    *,
    api_key: int = -1,
    client: ClientIdentity | None = None,
    advertised: tuple[str, int] = REACHED,
    received_ms: int = 0,
) -> RequestContext:
    return RequestContext(
        client or a_client(),
        ConnectionContext("PLAINTEXT", "PLAINTEXT", advertised),
        api_key,
        version,
        correlation_id=1,
        received_ms=received_ms,
    )
