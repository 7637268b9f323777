"""The network process: wait, receive requests, pass them to their request handlers, send replies.

It owns its connections and reads the logs; it never writes a log.
"""

from functools import partial

from kafkad.adapters.links.messaging import PeerChange, PeerGone
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.descriptor_ring import LARGEST_MESSAGE, full_fence
from kafkad.adapters.shared_memory.process_registry import CONTROLLER, ProcessKey
from kafkad.config import BrokerConfig
from kafkad.core.controller.deltas import MetadataDelta
from kafkad.core.controller.image import MetadataImage
from kafkad.core.metrics.catalogue import ARENA_EXHAUSTED, ARENA_SIZE, ARENA_USED
from kafkad.processes.network.assembly import Assembly
from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.connections.connection_maintenance import ConnectionMaintenance
from kafkad.processes.network.connections.graceful_close import next_abandoned_ms
from kafkad.processes.network.dispatch import RequestHandlers
from kafkad.processes.network.worker_messages import WorkerMessages
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.child_process import ChildProcess
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.wire.processes.controller_messages import Applied, QuotaCounts, unpack_message
from kafkad.wire.processes.descriptors import APPEND, WATCH, frames_of
from kafkad.wire.processes.follower_progress import FOLLOWER_FETCHED

_APPEND, _WATCH = bytes((APPEND,)), bytes((WATCH,))
_FOLLOWER_FETCHED = bytes((FOLLOWER_FETCHED,))
_NEVER_MS = 2**62


class NetworkProcess(ChildProcess):
    """One incarnation of a network process: its loop, and all events except requests."""

    def __init__(self, context: ChildContext) -> None:
        self._slot = context.registry.slot(context.key)
        self._block = context.block
        self._block[ARENA_SIZE] = context.arenas[context.key.index].size
        self._now_ms = monotonic_ms()
        self._due_ms = 0.0
        """The next deadline of all parts; computed before each wait."""
        self._stop_at_ms: int | None = None
        falls_asleep = partial(context.registry.leave_pass, self._slot)
        loop = EventLoop(self.on_others, falls_asleep=falls_asleep, wakes_up=self.woke, block=context.block)
        super().__init__(context, loop)
        self.open_links(with_rings=True)
        self._assembly = assembly = Assembly(loop, self.peers, context, self._now_ms)
        self._turns = assembly.turns
        self.acceptor = assembly.acceptor
        self.clients = assembly.clients
        self.clients.on_closed = self._connection_closed
        self.maintenance = ConnectionMaintenance(
            self.clients, context.config.network.connections_max_idle_ms, self._now_ms
        )
        self._admission = assembly.admission
        self._peer_log = assembly.peer_log
        self.logs = assembly.logs
        self.copy = assembly.copy
        self.request_handlers: RequestHandlers = assembly.request_handlers
        self._worker_messages = WorkerMessages(assembly.request_handlers, assembly.logs, context.table)
        self._workers = context.registry.role("worker")

    def run_pass(self, timeout_ms: float) -> None:
        """Run one pass. Its end sends all ready messages and replies."""
        self.loop.run_once(timeout_ms)
        if self.loop.is_crowded:
            self._admission.accept_now(self._now_ms)
        self.tick(self._now_ms)

    # Events.

    def woke(self) -> None:
        """A pass begins; the clock is read once for the whole pass."""
        self.registry.enter_pass(self._slot)
        self.clients.now_ms = self._now_ms = monotonic_ms()

    def on_others(self, fd: int, events: int) -> None:
        """Handle the events of a connection or a listening socket."""
        connection = self.clients.get(fd)
        if connection is not None:
            self.clients.handle(connection, events)
        elif self.acceptor.is_listener(fd):
            self.clients.now_ms = self._now_ms = monotonic_ms()
            self._admission.add_pending(fd, self._now_ms)

    def handle(self, peer: ProcessKey, frame: bytes) -> None:
        if peer.role == "worker":
            self._worker_messages.handle(frame, self._now_ms)
            return
        message = unpack_message(frame)
        if isinstance(message, QuotaCounts):
            self.request_handlers.throttle.handle(message.rows, self._now_ms)
        else:
            self.request_handlers.controller.handle(message)

    def metadata_changed(self, before: MetadataImage, delta: MetadataDelta) -> None:
        moved = self.copy.apply(self.image, delta)
        self.request_handlers.view.image = self.image
        for slot in moved.removed:
            self.logs.forget(slot)
        if moved.changed or moved.removed:
            self.request_handlers.fetch.metadata_changed(moved.changed, moved.removed)

    def metadata_applied(self) -> None:
        super().metadata_applied()
        self.notify_controller(Applied(self.image.version))

    def configure(self, config: BrokerConfig) -> None:
        if config is not self.config:
            super().configure(config)
            self.maintenance.set_max_idle(config.network.connections_max_idle_ms, self._now_ms)
            self._assembly.reconfigure(config)

    def peer_changed(self, change: PeerChange) -> None:
        if change.peer.role == "worker":
            self._worker_changed(change)
        elif change.peer == CONTROLLER:
            self._controller_changed(change)

    def _worker_changed(self, change: PeerChange) -> None:
        index = change.peer.index
        self.request_handlers.produce.worker_lost(index)
        self.request_handlers.owners.worker_lost(index)
        self.request_handlers.coordinators.worker_lost(index)
        self.logs.owner_lost()
        if not isinstance(change, PeerGone):
            self.request_handlers.produce.reachable[index] = True
            self.request_handlers.fetch.worker_replaced(index, self._now_ms)
            self.request_handlers.responses.manifest_arrived()

    def _controller_changed(self, change: PeerChange) -> None:
        if isinstance(change, PeerGone):
            self.request_handlers.controller.disconnected()
        else:
            self.request_handlers.controller.connected(partial(self._send, CONTROLLER), self._now_ms)

    # The work of every pass.

    def tick(self, now_ms: int) -> None:
        self._worker_messages.tick(now_ms)
        if now_ms >= self._due_ms or not (self.maintenance.is_calm and self._admission.is_open):
            self._tick_all(now_ms)
        if self._turns:
            self._turns.work()
        self.clients.flush()
        self._send_outgoing()
        self.peers.flush_rings()
        self._count()
        # After the replies are sent: no other event may wake this process before the deadline.
        if self._stop_at_ms is not None and (now_ms >= self._stop_at_ms or self.clients.is_quiet()):
            self.is_done = True

    def _tick_all(self, now: int) -> None:
        """Tick the parts that have work only at a deadline or while a connection waits."""
        fetch_deadline_ms = self.request_handlers.fetch.next_deadline_ms
        if fetch_deadline_ms is not None and fetch_deadline_ms <= now:
            self.request_handlers.fetch.expire(now)
        controller_deadline_ms = self.request_handlers.controller.next_deadline_ms
        if controller_deadline_ms is not None and controller_deadline_ms <= now:
            self.request_handlers.controller.expire(now)
        exchange_ms = self.request_handlers.throttle.next_exchange_ms
        if exchange_ms is not None and exchange_ms <= now:
            self._exchange_counts()
        if self._peer_log.next_ms is not None:
            self._peer_log.tick(now)
        self._admission.tick(now, has_metadata=not self.copy.is_empty)
        self.maintenance.tick(now)

    def _exchange_counts(self) -> None:
        rows = self.request_handlers.throttle.take_counts()
        if rows:
            self.notify_controller(QuotaCounts(rows))

    def _count(self) -> None:
        reader, block = self.clients.reader, self._block
        if not len(self.request_handlers.produce):
            reader.reuse_window()
        block[ARENA_USED] = reader.used_bytes
        if reader.places.times_starved:
            block[ARENA_EXHAUSTED] += reader.places.times_starved
            reader.places.times_starved = 0

    def _send_outgoing(self) -> None:
        request_handlers = self.request_handlers
        for worker, key in enumerate(self._workers):
            appends = request_handlers.produce.outgoing[worker]
            if appends:
                self._send_all(key, _APPEND, appends)
            watches = request_handlers.fetch.outgoing[worker]
            if watches:
                self._send_all(key, _WATCH, watches, wakes=False)
                full_fence()
                if request_handlers.fetch.watches.has_changes(worker):
                    self.peers.wake(key)
        progress = request_handlers.fetch.watches.progress
        if progress:
            self._send_progress(progress)

    def _send_progress(self, progress: dict[int, list[bytes]]) -> None:
        """Send the fetch offsets of followers to the owners of the partitions."""
        for worker, entries in progress.items():
            self._send_all(self._workers[worker], _FOLLOWER_FETCHED, entries)
        progress.clear()

    def _send_all(self, peer: ProcessKey, kind: bytes, entries: list[bytes], *, wakes: bool = True) -> None:
        """Send one message, or several if one would not fit into the ring: the link would break the order."""
        for frame in frames_of(kind, entries, LARGEST_MESSAGE):
            self.peers.send(peer, frame, wakes=wakes)
        entries.clear()

    def _send(self, peer: ProcessKey, frame: bytes) -> None:
        self.peers.send(peer, frame)

    def next_deadline_ms(self) -> float | None:
        request_handlers = self.request_handlers
        if self._turns or request_handlers.fetch.is_busy or self.maintenance.is_busy:
            self._due_ms = 0.0
            return 0
        deadlines = (
            request_handlers.fetch.next_deadline_ms,
            request_handlers.controller.next_deadline_ms,
            request_handlers.throttle.next_exchange_ms,
            self._admission.next_deadline_ms(self._now_ms),
            self._peer_log.next_ms,
            self.maintenance.next_deadline_ms(self._now_ms),
            self._stop_at_ms,
            next_abandoned_ms(self.clients, self._now_ms) if self._stop_at_ms is not None else None,
        )
        self._due_ms = due_ms = min((each for each in deadlines if each is not None), default=_NEVER_MS)
        return due_ms if due_ms < _NEVER_MS else None

    def _connection_closed(self, connection: Connection) -> None:
        self.request_handlers.fetch.connection_closed(connection)
        self.request_handlers.responses.connection_closed(connection)
        self.request_handlers.coordinators.connection_closed(connection)
        self.request_handlers.controller.connection_closed(connection)
        self.acceptor.closed(connection.host)

    # Stopping.

    def stop(self, deadline_ms: int) -> None:
        """Accept no new connections and requests. Pending requests are completed until shortly before the deadline."""
        self._stop_at_ms = max(self._now_ms, deadline_ms - STOP_MARGIN_MS)
        self._admission.close()
        self.clients.stop_reading()
        self.request_handlers.controller.end()
        self.request_handlers.fetch.respond_to_all(self._now_ms)
        self.request_handlers.coordinators.respond_to_all()

    def finish(self) -> bool:
        self.clients.close_gracefully()
        self._peer_log.close()
        self._assembly.close()
        return True


STOP_MARGIN_MS = 500
