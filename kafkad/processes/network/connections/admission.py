"""Which network process takes a new connection, and from when on?

The one with the fewest connections does; the others look again a moment later. No connection is accepted before the
process has metadata, before a starting broker has loaded its logs, or while a worker may still read the arena of the
previous incarnation.

Limits on all connections together are for clients: where brokers have a listener of their own, they connect there at
any time, and the client that was idle for longest loses its place (Apache Kafka's protected listener, KIP-402). The
process that accepts has about as many clients as any other, so it closes one of its own.
"""

from kafkad.adapters.shared_memory.process_registry import ProcessState
from kafkad.core.metrics.catalogue import CONNECTIONS, CONNECTIONS_CREATED
from kafkad.core.supervision.broker_state import BrokerState
from kafkad.processes.network.connections.acceptor import NO_LIMIT, Acceptor
from kafkad.processes.network.connections.clients import Clients
from kafkad.processes.runtime.child import ChildContext

NOT_YET_MS = 2
SECOND_MS = 1_000
ACCEPTS_PER_PASS = 64
"""Connections accepted in one pass; more wait for the next pass, after the requests of open connections."""
SLACK = 16
"""One process may have more connections than another by this share of its own. With many, balance matters less."""


class Admission:
    """Between the listening sockets and the connections of this process."""

    def __init__(self, context: ChildContext, acceptor: Acceptor, clients: Clients) -> None:
        self._key = context.key
        self._registry = context.registry
        self._counters = context.counters
        self._acceptor = acceptor
        self._clients = clients
        self.is_open = False
        self._is_closed = False
        self._second_ends_ms = 0
        self._created_before = 0

    def add_pending(self, fd: int, now_ms: int) -> None:
        """A connection waits at a listening socket."""
        if self._has_more_than_others():
            self._acceptor.postpone(fd, now_ms)
        else:
            self._take(fd, now_ms)

    def look(self, now_ms: int) -> None:
        """Take newcomers now: with very many ready connections, a listening socket would wait long for its turn."""
        if self.is_open and not self._has_more_than_others():
            for fd in self._acceptor.listening:
                self._take(fd, now_ms)

    def tick(self, now_ms: int, *, has_metadata: bool) -> None:
        """In each pass: open when it is time, and look again at connections that were left to others."""
        if not self.is_open:
            if has_metadata and self._registry.is_seen_by_all(self._key, "worker") and self._are_logs_loaded():
                self.is_open = True
                if not self._is_closed:
                    self._acceptor.open()
        elif self._acceptor.next_check_ms is not None and self._acceptor.next_check_ms <= now_ms:
            for fd in self._acceptor.second_check():
                self._take_all(fd, now_ms)

    def _are_logs_loaded(self) -> bool:
        """As in Apache Kafka, a starting broker loads its logs first; a running one waits for no worker."""
        if self._registry.broker_state not in (BrokerState.STARTING, BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN):
            return True
        return all(self._registry.state(key) == ProcessState.READY for key in self._registry.role("worker"))

    def next_deadline_ms(self, now_ms: int) -> int | None:
        return self._acceptor.next_check_ms if self.is_open else now_ms + NOT_YET_MS

    def close(self) -> None:
        """Accept no further connections."""
        self._is_closed = True
        self._acceptor.close()

    def _take(self, fd: int, now_ms: int) -> None:
        """Accept until this process has more connections than the others."""
        for _ in range(ACCEPTS_PER_PASS):
            if not self._take_one(fd, now_ms) or self._has_more_than_others():
                return

    def _take_all(self, fd: int, now_ms: int) -> None:
        """The other processes had their chance; if all waited longer, a burst could overflow the kernel's queue."""
        for _ in range(ACCEPTS_PER_PASS):
            if not self._take_one(fd, now_ms):
                return

    def _take_one(self, fd: int, now_ms: int) -> bool:
        has_rate = self._acceptor.limits.per_second < NO_LIMIT and not self._acceptor.is_protected(fd)
        if has_rate and self._must_wait(fd, now_ms):
            return False
        accepted = self._acceptor.accept(fd, now_ms)
        if accepted is None:
            return False
        if accepted.takes_place is not None:
            self._close_idlest_client(f"{accepted.takes_place}, and a broker needs the place")
        self._clients.add(accepted)
        return True

    def _close_idlest_client(self, reason: str) -> None:
        protected = self._acceptor.protected
        others = (each for each in self._clients if each.context.listener not in protected)
        idlest = min(others, key=lambda connection: connection.last_active_ms, default=None)
        if idlest is not None:
            self._clients.close(idlest, reason)

    def _must_wait(self, fd: int, now_ms: int) -> bool:
        """Whether the limit of new connections a second is reached. Then others wait until the second is over."""
        created = self._counters.sum(CONNECTIONS_CREATED)
        if now_ms >= self._second_ends_ms:
            self._second_ends_ms, self._created_before = now_ms + SECOND_MS, created
        if created - self._created_before < self._acceptor.limits.per_second:
            return False
        self._acceptor.pause(fd, self._second_ends_ms)
        return True

    def _has_more_than_others(self) -> bool:
        mine = len(self._clients)
        mine -= mine // SLACK
        if not mine:
            return False
        counters, registry = self._counters, self._registry
        return any(
            counters.block(registry.slot(key))[CONNECTIONS] < mine
            for key in registry.role("network")
            if key != self._key and registry.is_live(key)
        )
