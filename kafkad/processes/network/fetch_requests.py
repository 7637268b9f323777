"""Fetch in the network process: sessions, delayed fetches, and the watches that complete them.

Each fetch is one generator, `FetchRequests._steps`. It reads the request, measures the partitions of its session until
the fetch may be answered, and builds the response. It yields

- after a few hundred partitions: other requests wait for one step at most. Partitions that change during the steps are
  measured again, so that no change is missed;
- when there is too little to send: then it waits for an event of its session (`fetch_watches`) or its deadline.

Of each size only few large requests are read and answered at once; the others are queued.
"""

from collections.abc import Iterator
from typing import Final

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.metrics.catalogue import (
    FETCH_SESSION_EVICTIONS,
    FETCH_SESSIONS,
    PURGATORY_FETCH,
    error_index,
)
from kafkad.core.request_context import RequestContext
from kafkad.core.sessions.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    UNKNOWN,
    FetchSession,
)
from kafkad.core.sessions.session_cache import SessionCache
from kafkad.core.waiting.size_classes import SizeClasses
from kafkad.core.waiting.timing_wheel import TimingWheel
from kafkad.handlers.fetch import FetchEvaluator
from kafkad.handlers.partitions.fetch_access import updates_of
from kafkad.handlers.partitions.fetch_measure import Measure
from kafkad.handlers.partitions.leader_hints import hints_of_fetch
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.failures import reason_to_close
from kafkad.processes.network.connections.clients import Clients
from kafkad.processes.network.connections.connection import Connection, Reply
from kafkad.processes.network.connections.frames import Frame
from kafkad.processes.network.connections.throttle import Throttle
from kafkad.processes.network.fetch_counts import FetchCounts, Traffic
from kafkad.processes.network.fetch_watches import FetchWatches
from kafkad.processes.network.pending_fetch import PendingFetch
from kafkad.processes.runtime.turns import Turns
from kafkad.wire.framing import response_head
from kafkad.wire.messages.fetch import (
    TOPIC_IDS_FROM,
    Piece,
    length_of,
    pack_response,
)
from kafkad.wire.messages.fetch_request import FetchRequest, read_request
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.steps import STEP

CHECKS_PER_PASS = 64
"""Sessions that are checked in one pass: thousands may wait for one partition."""
AT_ONCE: Final = 400
"""Partitions in one step of measuring or responding: about two milliseconds."""
LARGE_BYTES: Final = 8 * 1024
"""Smaller requests are read within a millisecond."""
IN_PROGRESS_BYTES = 256 * 1024
"""The limit of large requests in progress at once.

Each partition is several objects until the response is sent, and the garbage collector visits all of them.
"""
MANIFEST_TIMEOUT_MS: Final = 1_000
"""How long a fetch waits for a manifest, for any max_wait_ms. Owners respond at once unless they load logs."""
_ROW_BYTES = 32
"""The size of a partition in a request."""
_NO_BYTES = memoryview(b"")
_NO_STEPS: Iterator[None] = iter(())


class FetchRequests:
    """All fetch sessions and pending fetches of this process."""

    def __init__(
        self,
        *,
        watches: FetchWatches,
        evaluator: FetchEvaluator,
        cache: SessionCache,
        throttle: Throttle,
        block: CounterBlock,
        traffic: Traffic,
        column: int,
        max_bytes: int,
        now_ms: int,
        clients: Clients,
        turns: Turns,
        view: BrokerView,
    ) -> None:
        self.watches = watches
        self.outgoing = watches.outgoing
        self._evaluator = evaluator
        self._cache = cache
        self._throttle = throttle
        self._block = block
        self._counts = FetchCounts(block, traffic, column)
        self.max_bytes = max_bytes
        self._view = view
        self._clients = clients
        self._turns = turns
        self._now_ms = now_ms
        self._sizes: SizeClasses[PendingFetch] = SizeClasses(IN_PROGRESS_BYTES)
        self._deadlines: TimingWheel[PendingFetch] = TimingWheel(start_ms=now_ms)
        self._waiting: dict[Connection, PendingFetch] = {}
        """At most one for a connection, as a Fetch is exclusive on it."""
        self._waiting_by_session: dict[FetchSession, list[PendingFetch]] = {}
        self._waiting_for_manifest: dict[PendingFetch, None] = {}
        self._to_check: dict[FetchSession, None] = {}
        """Sessions with moved offsets, in the order of the moves."""
        self._is_stopping = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_expiration_ms()

    @property
    def is_busy(self) -> bool:
        """Whether the next pass has work already."""
        return bool(self._to_check)

    @property
    def held_bytes(self) -> int:
        """The total size of the large requests without a response, except those that wait for records."""
        return self._sizes.held_bytes

    def start(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """Complete the fetch now, or later."""
        reply, size = Reply(connection, context), len(frame.view)
        connection.replies.append(reply)
        connection.exclusive_in_flight = True
        fetch = PendingFetch(reply, size)
        fetch.steps = self._steps(fetch, frame.view, frame.header.body_at)
        if size > LARGE_BYTES:
            fetch.is_large = True
            if self._sizes.begin(size, fetch):
                self._turns.add(size, self._remaining_steps(fetch))
        else:
            self._continue(fetch)

    # The steps of a fetch.

    def _continue(self, fetch: PendingFetch) -> None:
        """Take the next step now; the steps that follow it take turns with other work."""
        if self._step(fetch):
            dirty = 0 if fetch.session is None else len(fetch.session.dirty)
            self._turns.add(max(fetch.size, _ROW_BYTES * dirty), self._remaining_steps(fetch))

    def _remaining_steps(self, fetch: PendingFetch) -> Iterator[None]:
        while self._step(fetch):
            yield

    def _step(self, fetch: PendingFetch) -> bool:
        """Take one step. False if the fetch waits or has ended."""
        connection, context = fetch.reply.connection, fetch.reply.context
        if connection.closed:
            self._end(fetch)
            return False
        try:
            for _ in fetch.steps:
                if not fetch.is_waiting:
                    return True
                self._leave_sizes(fetch)
                return False
        except MalformedRequest as malformed:
            connection.keep_replies(len(connection.replies) - 1)
            connection.exclusive_in_flight = False
            self._clients.reject(connection, reason_to_close(context, malformed))
        except MemoryError:
            self._clients.close(connection, f"not enough memory for a Fetch of {fetch.size} bytes")
        except Exception as bug:  # noqa: BLE001  a Fetch only reads. The client starts another session.
            self._clients.close(connection, reason_to_close(context, bug))
        self._end(fetch)
        return False

    def _end(self, fetch: PendingFetch) -> None:
        """The fetch has a response, or will have none."""
        # Each refers to the other.
        fetch.steps = _NO_STEPS
        self._waiting_for_manifest.pop(fetch, None)
        for rows in fetch.unsent.values():
            for row in rows:
                if row.records is not None:
                    row.records.release()
        session = fetch.session
        if session is not None:
            self._end_tracking(fetch, session)
            if not self._cache.reply_session_id(session):
                self._unbind(session)
                self._block[FETCH_SESSIONS] = len(self._cache)
        self._leave_sizes(fetch)

    def _leave_sizes(self, fetch: PendingFetch) -> None:
        """The fetch waits or has ended: start queued requests."""
        if fetch.is_large:
            fetch.is_large = False
            for queued in self._sizes.end(fetch.size):
                self._turns.add(queued.size, self._remaining_steps(queued))

    def _steps(self, fetch: PendingFetch, frame: memoryview, body_at: int) -> Iterator[None]:
        """The whole fetch. Raises MalformedRequest."""
        reply, context = fetch.reply, fetch.reply.context
        request = yield from read_request(frame, body_at, context.version)
        # The memory of the request is free while the fetch waits.
        frame = _NO_BYTES
        try:
            session = self._session(fetch, request)
            for rows, forgotten, is_last in updates_of(request):
                for slot in session.update(rows, forgotten):
                    self.watches.unbind(session, slot)
                if not is_last:
                    yield
            self._begin(fetch, request, session)
        except KafkaError as error:
            self._block[error_index(error.code)] += 1
            body = yield from pack_response(context.version, [], 0, error.code)
            self._send(reply, body)
            return
        while True:
            measure = self._new_measure(fetch, session)
            while self._measure_next(fetch, session, measure):
                yield
            if self._is_enough(fetch, session, measure):
                break
            while self._watch_next(fetch, measure):
                yield
            if not self._end_tracking(fetch, session):
                self._wait(fetch, session)
                yield
                if fetch.is_over and not self._must_measure_again(fetch, session, measure):
                    break
        error_code, throttle_ms = self._rejection(fetch, session, measure)
        if not (error_code or throttle_ms):
            self._open(fetch, session, measure)
            while self._add_next(fetch, session, measure):
                yield
        topics, session_id = list(fetch.unsent.items()), self._cache.reply_session_id(session)
        hints = hints_of_fetch(measure, context, self._view) if topics else None
        body = yield from pack_response(context.version, topics, throttle_ms, error_code, session_id, hints)
        fetch.unsent = {}
        self._send(reply, body)

    # The request and its session.

    def _session(self, fetch: PendingFetch, request: FetchRequest) -> FetchSession:
        """A full request has a new session, which is not open yet. Raises KafkaError."""
        context = fetch.reply.context
        fetch.is_full = request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
        if not fetch.is_full:
            return self._resumed(request, context)
        closed = self._cache.begin_full(request.session_id)
        if closed is not None:
            self._unbind(closed)
        uses_topic_ids = context.version >= TOPIC_IDS_FROM
        return FetchSession((), context.received_ms, uses_topic_ids=uses_topic_ids)

    def _resumed(self, request: FetchRequest, context: RequestContext) -> FetchSession:
        uses_topic_ids = context.version >= TOPIC_IDS_FROM
        return self._cache.resume(request.session_id, request.session_epoch, uses_topic_ids=uses_topic_ids)

    def _begin(self, fetch: PendingFetch, request: FetchRequest, session: FetchSession) -> None:
        """The request is read. Raises KafkaError if another request has used or closed the session meanwhile."""
        context = fetch.reply.context
        if not fetch.is_full:
            self._resumed(request, context)
            self._cache.updated(session, context.received_ms)
        self._evaluator.set_reader(session, request, context)
        most = self.max_bytes
        if request.replica_id < 0:
            # Client quotas do not apply to followers, as in Apache Kafka: a throttled replica would leave the ISR.
            most = self._throttle.fetch_limit(context.client, most)
        fetch.begin(request, session, most)

    # Measuring.

    def _new_measure(self, fetch: PendingFetch, session: FetchSession) -> Measure:
        """For the partitions that may have changed. If they take several steps, later changes are tracked."""
        fetch.is_stale, fetch.done = False, 0
        fetch.keys = list(session.dirty)
        if len(fetch.keys) > AT_ONCE:
            fetch.changes = session.track_changes()
        return Measure(session.isolation, fetch.absent)

    def _measure_next(self, fetch: PendingFetch, session: FetchSession, measure: Measure) -> bool:
        """Measure the next partitions; True if there are more."""
        keys = fetch.keys
        if len(keys) > AT_ONCE:
            keys = [key for key in keys[fetch.done : fetch.done + AT_ONCE] if key in session.partitions]
        self._evaluator.measure(session, keys, measure, fetch.max_bytes)
        if measure.follower_states:
            self.watches.report(session, measure.follower_states, self._now_ms)
            measure.follower_states.clear()
        # Before the response, which omits these partitions as unchanged and may be sent much later.
        for slot, upper in measure.quiet_slots:
            self.watches.watch(slot, upper, measure.isolation)
        measure.quiet_slots.clear()
        if measure.needs_manifest:
            self._waiting_for_manifest[fetch] = None
        return fetch.advance(AT_ONCE, len(fetch.keys))

    def _is_enough(self, fetch: PendingFetch, session: FetchSession, measure: Measure) -> bool:
        """Whether the fetch may be answered. If not, set its deadline."""
        if fetch.absent is None:
            fetch.absent = frozenset(measure.absent)
        if not measure.awaits_manifest and (
            measure.is_urgent
            or measure.bytes_found >= fetch.min_bytes
            or fetch.max_wait_ms <= 0
            or len(session.partitions) == len(measure.absent)
        ):
            return True
        wait_ms = max(fetch.max_wait_ms, MANIFEST_TIMEOUT_MS if measure.awaits_manifest else 0)
        fetch.deadline_ms = fetch.reply.context.deadline_ms(wait_ms)
        return fetch.is_over or self._is_stopping or self._now_ms >= fetch.deadline_ms

    def _watch_next(self, fetch: PendingFetch, measure: Measure) -> bool:
        """Watch the next partitions that have records, but too few; True if there are more."""
        if measure.awaits_manifest:
            return False
        for slot, upper in measure.readable_slots[fetch.done : fetch.done + AT_ONCE]:
            self.watches.watch(slot, upper, measure.isolation)
        return fetch.advance(AT_ONCE, len(measure.readable_slots))

    def _must_measure_again(self, fetch: PendingFetch, session: FetchSession, measure: Measure) -> bool:
        """Measured records may be deleted by now; new records, or a new high watermark for followers, are included."""
        return measure.bytes_found > 0 or fetch.is_from_follower or session in self._to_check

    def _end_tracking(self, fetch: PendingFetch, session: FetchSession) -> bool:
        """Whether the session has changed since its measurement began."""
        changes, fetch.changes = fetch.changes, None
        if changes is None:
            return False
        session.end_tracking(changes)
        return bool(changes) or fetch.is_stale

    # Events while fetches wait.

    def _wait(self, fetch: PendingFetch, session: FetchSession) -> None:
        fetch.is_waiting = True
        self._deadlines.add(fetch)
        self._waiting[fetch.reply.connection] = fetch
        self._waiting_by_session.setdefault(session, []).append(fetch)
        self._block[PURGATORY_FETCH] = len(self._waiting)

    def _stop_waiting(self, fetch: PendingFetch) -> None:
        session = fetch.session
        assert session is not None, "a fetch waits for its session"
        fetch.is_waiting = False
        self._deadlines.cancel(fetch)
        del self._waiting[fetch.reply.connection]
        waiting = self._waiting_by_session[session]
        waiting.remove(fetch)
        if not waiting:
            del self._waiting_by_session[session]
        self._waiting_for_manifest.pop(fetch, None)
        self._block[PURGATORY_FETCH] = len(self._waiting)

    def _resume(self, fetch: PendingFetch) -> None:
        self._stop_waiting(fetch)
        self._continue(fetch)

    def _finish(self, fetch: PendingFetch) -> None:
        """Respond with the available records."""
        fetch.is_over = True
        self._resume(fetch)

    def moved(self, keys: list[int]) -> None:
        """Owners notified moved offsets; `keys` are from `watch_key`."""
        self._to_check.update(dict.fromkeys(self.watches.moved(keys)))

    def tick(self, now_ms: int) -> None:
        """In each pass, after its messages: check the sessions with moved offsets."""
        self._now_ms = now_ms
        for _ in range(min(CHECKS_PER_PASS, len(self._to_check))):
            session = next(iter(self._to_check))
            del self._to_check[session]
            for fetch in list(self._waiting_by_session.get(session, ())):
                self._resume(fetch)

    def manifest_arrived(self, now_ms: int) -> None:
        """Measure again; from now on a fetch waits for at most the client's max_wait_ms."""
        self._now_ms = now_ms
        waiting, self._waiting_for_manifest = self._waiting_for_manifest, {}
        for fetch in waiting:
            if fetch.is_waiting:
                self._resume(fetch)
            else:
                fetch.is_stale = True

    def metadata_changed(self, changed: list[int], removed: list[int]) -> None:
        """Measure the fetches of changed and removed partitions again."""
        self._to_check.update(dict.fromkeys(self.watches.changed(changed + removed)))
        for slot in removed:
            for session in self.watches.remove(slot):
                key = session.by_slot.get(slot)
                if key is not None:
                    session.bind(session.partitions[key], UNKNOWN)

    def worker_replaced(self, worker: int, now_ms: int) -> None:
        """A worker died: request its watches and manifests again."""
        self._to_check.update(dict.fromkeys(self.watches.owner_lost(worker)))
        self.manifest_arrived(now_ms)

    def respond_to_all(self, now_ms: int) -> None:
        """The broker stops: complete all fetches at once, with the available records."""
        self._now_ms = now_ms
        self._is_stopping = True
        for fetch in self._deadlines.clear():
            self._finish(fetch)

    def expire(self, now_ms: int) -> None:
        self._now_ms = now_ms
        for fetch in self._deadlines.advance(now_ms):
            self._finish(fetch)

    def connection_closed(self, connection: Connection) -> None:
        fetch = self._waiting.get(connection)
        if fetch is not None:
            self._stop_waiting(fetch)
            self._end(fetch)

    # Responses.

    def _rejection(self, fetch: PendingFetch, session: FetchSession, measure: Measure) -> tuple[int, int]:
        """The error code and the throttle time in ms. With one of them, the response has no partitions."""
        if session.epoch != fetch.session_epoch:
            # Another request has continued the session.
            self._block[error_index(ErrorCode.INVALID_FETCH_SESSION_EPOCH)] += 1
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0
        if fetch.is_from_follower or self._throttle.manager.is_unlimited:
            return ErrorCode.NONE, 0
        # As in Apache Kafka: a session keeps its changes for later, a full request gets no session.
        connection, client = fetch.reply.connection, fetch.reply.context.client
        return ErrorCode.NONE, self._throttle.fetched(connection, client, measure.bytes_found, self._now_ms)

    def _open(self, fetch: PendingFetch, session: FetchSession, measure: Measure) -> None:
        if fetch.is_full:
            self._cache.open(session, fetch.request_epoch, self._now_ms)
        for evicted in self._cache.take_evicted():
            self._unbind(evicted)
            self._block[FETCH_SESSION_EVICTIONS] += 1
        self._block[FETCH_SESSIONS] = len(self._cache)
        if len(measure.results) > AT_ONCE and fetch.changes is None:
            fetch.changes = session.track_changes()

    def _add_next(self, fetch: PendingFetch, session: FetchSession, measure: Measure) -> bool:
        """Add the next measured partitions to the response; True if there are more."""
        results = measure.results
        if len(results) > AT_ONCE:
            results = results[fetch.done : fetch.done + AT_ONCE]
        self._evaluator.add_to_response(session, measure, results, fetch.unsent, full=fetch.is_full)
        self._counts.count_response(measure, results)
        return fetch.advance(AT_ONCE, len(measure.results))

    def _send(self, reply: Reply, body: list[Piece]) -> None:
        connection, context = reply.connection, reply.context
        size = length_of(body)
        head = response_head(context.api_key, context.version, context.correlation_id, size)
        first = body[0]
        assert isinstance(first, bytes)
        body[0] = head + first
        connection.exclusive_in_flight = False
        connection.complete_reply(reply, body, len(head) + size)
        self._clients.reply_ready(connection)

    # Closed sessions.

    def _unbind(self, session: FetchSession) -> None:
        """Remove the watches of all its partitions."""
        slots = list(session.by_slot)
        for slot in slots[:AT_ONCE]:
            self.watches.unbind(session, slot)
        if len(slots) > AT_ONCE:
            self._turns.add(_ROW_BYTES * len(slots), self._unbinding(session, slots[AT_ONCE:]))

    def _unbinding(self, session: FetchSession, slots: list[int]) -> Iterator[None]:
        for first in range(0, len(slots), STEP):
            for slot in slots[first : first + STEP]:
                self.watches.unbind(session, slot)
            yield
