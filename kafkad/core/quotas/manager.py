"""The interface of the quota manager, from any plugin."""

from collections.abc import Mapping
from typing import Protocol

from kafkad.core.request_context import ClientIdentity


class QuotaManager(Protocol):
    """Counts the traffic of clients, and returns how long to throttle their connections.

    One object per network process (it is copied by the fork), called from that process's loop only: no locks. `now_ms`
    is the monotonic clock. A `client` has a principal, a client id and an address: the manager chooses which of them
    its limits use.
    """

    is_unlimited: bool
    """Whether no client has a limit: then no other method is called. A plain attribute, read on every request."""

    @property
    def name(self) -> str: ...

    def configure(self, settings: Mapping[str, str]) -> None:
        """Apply the broker's options, as text; called again after changes. Counts are kept."""

    def record_produce(self, client: ClientIdentity, size: int, now_ms: int) -> int:
        """Count `size` bytes of a Produce; returns milliseconds to throttle, 0 for none."""

    def record_fetch(self, client: ClientIdentity, size: int, now_ms: int) -> int:
        """Count `size` bytes that a Fetch is about to return; returns milliseconds to throttle, 0 for none."""

    def unrecord_fetch(self, client: ClientIdentity, size: int, now_ms: int) -> None:
        """Undo `record_fetch`: a throttled Fetch gets a response without records."""

    def max_fetch_bytes(self, client: ClientIdentity) -> int | None:
        """A larger response is throttled even after a long idle time; None for no limit."""

    def drain_local(self) -> list[tuple[ClientIdentity, int, int]]:
        """(client, produced, fetched) bytes since the last call, for the other processes.

        A row may represent all clients that share a limit, by the identity of any of them.
        """

    def record_remote(self, client: ClientIdentity, produced: int, fetched: int, now_ms: int) -> None:
        """Count the traffic of another network process; this call throttles no client."""
