"""Quotas of clients: which connections this network process does not read, for how long, and what it reports.

A client's quota holds for the whole broker, and its connections are spread over network processes. So each process
sends its counts to the others, about once a second while clients with quotas have traffic, and decides by the sum.
Otherwise nothing is sent.
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
    """The quota manager of this process. Check `manager.is_unlimited` first: then nothing else has to be called."""

    def __init__(self, manager: QuotaManager, block: CounterBlock, *, has_others: bool) -> None:
        self.manager = manager
        self._block = block
        self._has_others = has_others
        self.next_exchange_ms: int | None = None

    def configure(self, written: Mapping[str, str]) -> None:
        """Apply changed options of the broker."""
        self.manager.configure(written)

    def produced(self, connection: Connection, client: ClientIdentity, size: int, now_ms: int) -> None:
        """Count a Produce of `size` bytes; its connection is muted when that exceeds the quota."""
        self._mute(connection, self.manager.record_produce(client, size, now_ms), now_ms)

    def fetched(self, connection: Connection, client: ClientIdentity, size: int, now_ms: int) -> int:
        """Count a Fetch whose answer would have `size` bytes.

        Returns the milliseconds for which its connection is muted: then it is not counted and has to be answered
        without records.
        """
        pause_ms = self.manager.record_fetch(client, size, now_ms)
        if pause_ms > 0:
            self.manager.unrecord_fetch(client, size, now_ms)
        self._mute(connection, pause_ms, now_ms)
        return pause_ms

    def fetch_limit(self, client: ClientIdentity, most: int) -> int:
        """The most bytes of an answer, `most` at the largest: with more it would be throttled in any case."""
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

    def heard(self, rows: list[QuotaRow], now_ms: int) -> None:
        """Add the counts of another process."""
        for client, produced, fetched in rows:
            self.manager.record_remote(client, produced, fetched, now_ms)
