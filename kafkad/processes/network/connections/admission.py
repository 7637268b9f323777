"""The choice of the network process that accepts a new connection, and the start of accepting.

The process with the fewest connections accepts; the others check again a moment later. No connection is accepted before
the process has metadata, before a starting broker has loaded its logs, or while a worker may still read the arena of
the previous incarnation.

The total limit of connections is for clients: brokers always connect at a listener of their own, and then the
connection of the client that was idle for longest is closed (Apache Kafka's protected listener, KIP-402). The accepting
process has about as many clients as any other, so it closes one of its own.
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
"""The limit of accepted connections in one pass; others wait until open connections were served."""
SLACK = 16
"""A process may have this share of its connections more than another one. With many, balance matters less."""


class Admission:
    """Accepts connections from the listening sockets for `clients`."""

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
            self._accept_share(fd, now_ms)

    def accept_now(self, now_ms: int) -> None:
        """Accept now: with very many ready connections, epoll reports a listening socket late."""
        if self.is_open and not self._has_more_than_others():
            for fd in self._acceptor.listening:
                self._accept_share(fd, now_ms)

    def tick(self, now_ms: int, *, has_metadata: bool) -> None:
        """In each pass: open the listeners when the process may accept, and check postponed connections again."""
        if not self.is_open:
            if has_metadata and self._registry.is_seen_by_all(self._key, "worker") and self._are_logs_loaded():
                self.is_open = True
                if not self._is_closed:
                    self._acceptor.open()
        elif self._acceptor.next_check_ms is not None and self._acceptor.next_check_ms <= now_ms:
            for fd in self._acceptor.second_check():
                self._accept_all(fd, now_ms)

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

    def _accept_share(self, fd: int, now_ms: int) -> None:
        """Accept until this process has more connections than the others."""
        for _ in range(ACCEPTS_PER_PASS):
            if not self._accept_one(fd, now_ms) or self._has_more_than_others():
                return

    def _accept_all(self, fd: int, now_ms: int) -> None:
        """Accept for the other processes, too: in a burst, the kernel's queue could overflow."""
        for _ in range(ACCEPTS_PER_PASS):
            if not self._accept_one(fd, now_ms):
                return

    def _accept_one(self, fd: int, now_ms: int) -> bool:
        has_rate = self._acceptor.limits.per_second < NO_LIMIT and not self._acceptor.is_protected(fd)
        if has_rate and self._must_wait(fd, now_ms):
            return False
        accepted = self._acceptor.accept(fd, now_ms)
        if accepted is None:
            return False
        if accepted.exceeded_limit is not None:
            self._close_idlest_client(f"{accepted.exceeded_limit}, closed in favor of a broker's connection")
        self._clients.add(accepted)
        return True

    def _close_idlest_client(self, reason: str) -> None:
        protected = self._acceptor.protected
        others = (each for each in self._clients if each.context.listener not in protected)
        idlest = min(others, key=lambda connection: connection.last_active_ms, default=None)
        if idlest is not None:
            self._clients.close(idlest, reason)

    def _must_wait(self, fd: int, now_ms: int) -> bool:
        """Whether the limit of new connections per second is reached; then the listener pauses until the next one."""
        created = self._counters.sum(CONNECTIONS_CREATED)
        if now_ms >= self._second_ends_ms:
            self._second_ends_ms, self._created_before = now_ms + SECOND_MS, created
        if created - self._created_before < self._acceptor.limits.per_second:
            return False
        self._acceptor.pause(fd, self._second_ends_ms)
        return True

    def _has_more_than_others(self) -> bool:
        own = len(self._clients)
        own -= own // SLACK
        if not own:
            return False
        counters, registry = self._counters, self._registry
        return any(
            counters.block(registry.slot(key))[CONNECTIONS] < own
            for key in registry.role("network")
            if key != self._key and registry.is_live(key)
        )
