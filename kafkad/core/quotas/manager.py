"""What the broker asks of a quota manager, whichever plugin it came from."""

from collections.abc import Mapping
from typing import Protocol

from kafkad.core.request_context import ClientIdentity


class QuotaManager(Protocol):
    """Counts what clients produce and fetch, and says how long to leave a connection unread.

    One object per network process (it is copied by the fork), called from that process's loop only: no locks.
    `now_ms` is the monotonic clock. A `client` has a principal, a client id and an address: which of them a limit goes
    by is the manager's choice.
    """

    is_unlimited: bool
    """No client has any limit: nothing else is called then. A plain attribute, read on every request."""

    @property
    def name(self) -> str: ...

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take over the broker's options, as text; again whenever they have changed. Counts are kept."""

    def record_produce(self, client: ClientIdentity, size: int, now_ms: int) -> int:
        """Count `size` bytes of a Produce; milliseconds to throttle, 0 for none."""

    def record_fetch(self, client: ClientIdentity, size: int, now_ms: int) -> int:
        """Count `size` bytes about to be answered to a Fetch; milliseconds to throttle, 0 for none."""

    def unrecord_fetch(self, client: ClientIdentity, size: int, now_ms: int) -> None:
        """Take back what `record_fetch` counted: a throttled Fetch is answered empty."""

    def max_fetch_bytes(self, client: ClientIdentity) -> int | None:
        """More than this in one answer is throttled whatever came before; None for no limit."""

    def drain_local(self) -> list[tuple[ClientIdentity, int, int]]:
        """(client, produced, fetched) counted here since the last call, for the other processes.

        A row may stand for all clients that share a limit, by any identity that has it.
        """

    def record_remote(self, client: ClientIdentity, produced: int, fetched: int, now_ms: int) -> None:
        """Count what another network process has told of; throttles nobody by itself."""
