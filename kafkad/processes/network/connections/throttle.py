"""Client quotas: throttling connections of this network process, and exchanging counts with the others.

A client's quota holds for the whole broker, and its connections are spread over network processes. So each process
sends its counts to the others, about once a second while clients with quotas have traffic, and throttles by the sum.
"""

from collections.abc import Mapping

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.metrics.catalogue import THROTTLED
from kafkad.core.quotas.manager import QuotaManager
from kafkad.core.request_context import ClientIdentity
from kafkad.processes.network.connections.connection import Connection
from kafkad.wire.processes.controller_messages import QuotaRow

EXCHANGE_MS = 1_000


class Throttle:
    """The quota manager of this process. If `manager.is_unlimited`, no other call is required."""

    def __init__(self, manager: QuotaManager, block: CounterBlock, *, has_others: bool) -> None:
        self.manager = manager
        self._block = block
        self._has_others = has_others
        self.next_exchange_ms: int | None = None

    def configure(self, written: Mapping[str, str]) -> None:
        """Apply changed options of the broker."""
        self.manager.configure(written)

    def produced(self, connection: Connection, client: ClientIdentity, size: int, now_ms: int) -> None:
        """Count a Produce of `size` bytes; mute its connection when the quota is exceeded."""
        self._mute(connection, self.manager.record_produce(client, size, now_ms), now_ms)

    def fetched(self, connection: Connection, client: ClientIdentity, size: int, now_ms: int) -> int:
        """Count a Fetch whose response would have `size` bytes.

        Returns the throttle time of its connection in ms. If it is not 0, the fetch is not counted, and its response
        must have no records.
        """
        pause_ms = self.manager.record_fetch(client, size, now_ms)
        if pause_ms > 0:
            self.manager.unrecord_fetch(client, size, now_ms)
        self._mute(connection, pause_ms, now_ms)
        return pause_ms

    def fetch_limit(self, client: ClientIdentity, most: int) -> int:
        """The byte limit of a response, at most `most`: a larger response would be throttled in any case."""
        if self.manager.is_unlimited:
            return most
        largest = self.manager.max_fetch_bytes(client)
        return most if largest is None else min(most, largest)

    def _mute(self, connection: Connection, pause_ms: int, now_ms: int) -> None:
        if pause_ms > 0:
            self._block[THROTTLED] += 1
            connection.mute(now_ms + pause_ms)
        if self._has_others and self.next_exchange_ms is None:
            self.next_exchange_ms = now_ms + EXCHANGE_MS

    def take_counts(self) -> list[QuotaRow]:
        """The counts for the other processes. Due at `next_exchange_ms`."""
        self.next_exchange_ms = None
        return [row for row in self.manager.drain_local() if row[1] or row[2]]

    def handle(self, rows: list[QuotaRow], now_ms: int) -> None:
        """Add the counts of another process."""
        for client, produced, fetched in rows:
            self.manager.record_remote(client, produced, fetched, now_ms)
