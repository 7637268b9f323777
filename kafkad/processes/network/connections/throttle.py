"""How fast clients may go: whom this network process leaves unread for how long, and what it tells the others.

A client's limit is one for the whole broker, and its connections land on several network processes. So each
tells the others what it counted, about once a second while there is traffic of limited clients, and judges by
the sum. Nothing is sent otherwise.
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
    """The quota manager of this process. Ask `manager.is_unlimited` first: nothing else costs anything then."""

    def __init__(self, manager: QuotaManager, block: CounterBlock, *, has_others: bool) -> None:
        self.manager = manager
        self._block = block
        self._has_others = has_others
        self.next_exchange_ms: int | None = None

    def configure(self, written: Mapping[str, str]) -> None:
        """The broker's options are these now."""
        self.manager.configure(written)

    def produced(self, connection: Connection, client: ClientIdentity, size: int, now_ms: int) -> None:
        """Count a Produce of `size` bytes; its connection pauses when that was too much."""
        self._mute(connection, self.manager.record_produce(client, size, now_ms), now_ms)

    def fetched(self, connection: Connection, client: ClientIdentity, size: int, now_ms: int) -> int:
        """Count a Fetch that would be answered with `size` bytes.

        Milliseconds that its connection pauses: it is then to be answered without records, and was not counted.
        """
        pause_ms = self.manager.record_fetch(client, size, now_ms)
        if pause_ms > 0:
            self.manager.unrecord_fetch(client, size, now_ms)
        self._mute(connection, pause_ms, now_ms)
        return pause_ms

    def largest_fetch(self, client: ClientIdentity) -> int | None:
        """More than this in one answer would be throttled whatever came before."""
        return self.manager.max_fetch_bytes(client)

    def _mute(self, connection: Connection, pause_ms: int, now_ms: int) -> None:
        if pause_ms > 0:
            self._block[THROTTLED] += 1
            connection.mute(now_ms + pause_ms)
        if self._has_others and self.next_exchange_ms is None:
            self.next_exchange_ms = now_ms + EXCHANGE_MS

    def take_counts(self) -> list[QuotaRow]:
        """What the others should know of. Due at `next_exchange_ms`."""
        self.next_exchange_ms = None
        return [row for row in self.manager.drain_local() if row[1] or row[2]]

    def heard(self, rows: list[QuotaRow], now_ms: int) -> None:
        """What another process has counted."""
        for client, produced, fetched in rows:
            self.manager.record_remote(client, produced, fetched, now_ms)
