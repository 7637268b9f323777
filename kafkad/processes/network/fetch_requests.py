"""Fetch in the network process: sessions, delayed fetches, and the watches that complete them.

A fetch with too few bytes waits here until an offset in its session moves (`fetch_watches`). Requests with very many
partitions are read, measured and completed in steps (`large_fetches`).
"""

from collections.abc import Iterator

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.metrics.catalogue import (
    FETCH_SESSION_EVICTIONS,
    FETCH_SESSIONS,
    PURGATORY_FETCH,
    error_index,
)
from kafkad.core.request_context import RequestContext
from kafkad.core.sessions.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_REPLICA, UNKNOWN, FetchSession
from kafkad.core.sessions.session_cache import SessionCache
from kafkad.core.waiting.purgatory import Purgatory
from kafkad.handlers.fetch import FetchEvaluator
from kafkad.handlers.partitions.fetch_access import rows_of
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
from kafkad.processes.network.large_fetches import AT_ONCE, LARGE_BYTES, LargeFetches, session_of
from kafkad.processes.network.waiting_fetch import MANIFEST_TIMEOUT_MS, WaitingFetch
from kafkad.processes.runtime.turns import Turns
from kafkad.wire.framing import response_head
from kafkad.wire.messages.fetch import TOPIC_IDS_FROM, Piece, length_of, pack_response
from kafkad.wire.messages.fetch_request import FetchRequest, read_in_steps, read_request

CHECKS_PER_PASS = 64
"""Sessions that are checked in one pass: thousands may wait for one partition."""


class FetchRequests:
    """All fetch sessions and waiting fetches of this process."""

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
        self._large = LargeFetches(self, turns, evaluator, watches, cache, self._counts, clients, view)
        self._now_ms = now_ms
        self._purgatory: Purgatory[WaitingFetch, FetchRequests] = Purgatory(view=self, start_ms=now_ms)
        self._waiting_for_manifest: dict[WaitingFetch, None] = {}
        self._to_check: dict[FetchSession, None] = {}
        """Sessions with moved offsets, in the order of the moves."""
        self._waiting: dict[Connection, WaitingFetch] = {}
        """At most one for a connection, as a Fetch is exclusive on it."""
        self._is_stopping = False

    def __len__(self) -> int:
        return len(self._purgatory)

    @property
    def next_deadline_ms(self) -> int | None:
        return self._purgatory.next_expiration_ms()

    @property
    def is_busy(self) -> bool:
        """Whether the next pass has work already."""
        return bool(self._to_check)

    def start(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """Complete the fetch now, or delay it. Raises MalformedRequest."""
        body_at, now_ms = frame.header.body_at, context.received_ms
        if len(frame.view) > LARGE_BYTES:
            reply = Reply(connection, context)
            connection.replies.append(reply)
            connection.exclusive_in_flight = True
            self._large.start(reply, len(frame.view), self._start_in_steps(reply, frame.view, body_at))
            return
        reply, request = Reply(connection, context), read_request(frame.view, body_at, context.version)
        connection.replies.append(reply)
        try:
            session, is_full = self._session(request, context.version, now_ms)
        except KafkaError as error:
            self._reject(reply, error.code)
            return
        self._evaluator.set_reader(session, request, context)
        self._begin(WaitingFetch(reply, connection, request, session, is_full=is_full), now_ms)

    def _reject(self, reply: Reply, code: int) -> None:
        self._block[error_index(code)] += 1
        self._send(reply.connection, reply, pack_response(reply.context.version, [], error=code))

    def _start_in_steps(self, reply: Reply, frame: memoryview, body_at: int) -> Iterator[None]:
        """As `start`, for a large request. Raises MalformedRequest."""
        context, connection = reply.context, reply.connection
        request = yield from read_in_steps(frame, body_at, context.version)
        try:
            resumed = self._resumed(request, context.version)
            started = resumed or FetchSession((), context.received_ms, uses_topic_ids=context.version >= TOPIC_IDS_FROM)
            session = yield from session_of(request, self._cache, self.watches, started, context.received_ms)
        except KafkaError as error:
            self._large.completed(connection)
            connection.exclusive_in_flight = False
            self._reject(reply, error.code)
            return
        self._evaluator.set_reader(session, request, context)
        fetch = WaitingFetch(reply, connection, request, session, is_full=resumed is None)
        self._begin(fetch, self._now_ms)
        if not fetch.is_in_steps:
            self._large.completed(connection)

    def _begin(self, fetch: WaitingFetch, now_ms: int) -> None:
        connection, client = fetch.connection, fetch.reply.context.client
        most = self.max_bytes if fetch.is_from_follower else self._throttle.fetch_limit(client, self.max_bytes)
        fetch.limit(most)
        if not self._purgatory.try_complete_else_watch(fetch):
            connection.exclusive_in_flight = True
            self._waiting[connection] = fetch
            self._block[PURGATORY_FETCH] = len(self._waiting)
            return
        self._finish(fetch, now_ms)

    def _session(self, request: FetchRequest, version: int, now_ms: int) -> tuple[FetchSession, bool]:
        session = self._resumed(request, version)
        if session is None:
            return FetchSession(rows_of(request), now_ms, uses_topic_ids=version >= TOPIC_IDS_FROM), True
        forgotten = [(topic, index) for topic, indexes in request.forgotten for index in indexes]
        for slot in session.update(rows_of(request), forgotten):
            self.watches.unbind(session, slot)
        self._cache.updated(session, now_ms)
        return session, False

    def _resumed(self, request: FetchRequest, version: int) -> FetchSession | None:
        """The session to resume; None for a full request, which closes the named session. Raises KafkaError."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            closed = self._cache.begin_full(request.session_id)
            if closed is not None:
                self._large.unbind(closed)
            return None
        uses_ids = version >= TOPIC_IDS_FROM
        return self._cache.resume(request.session_id, request.session_epoch, uses_topic_ids=uses_ids)

    def is_enough(self, fetch: WaitingFetch) -> bool:
        """Measure again; True when the fetch can be completed before its deadline."""
        session = fetch.session
        if fetch.is_in_steps or len(session.dirty) > AT_ONCE:
            self._large.measure(fetch)
            return False
        measure = fetch.measured = self._evaluator.measure(session, fetch.max_bytes, fetch.absent)
        if measure.follower_states:
            self.watches.report(session, measure.follower_states, self._now_ms)
        if self._is_stopping:
            return True
        isolation = measure.isolation
        # Before the response, which omits these partitions as unchanged and may be sent much later.
        for slot, upper in measure.quiet_slots:
            self.watches.watch(slot, upper, isolation)
        if measure.needs_manifest:
            self._waiting_for_manifest[fetch] = None
        is_found = self.is_found(fetch, measure)
        if not is_found and not (measure.needs_manifest and not measure.has_content):
            for slot, upper in measure.readable_slots:
                self.watches.watch(slot, upper, isolation)
        return is_found

    def is_found(self, fetch: WaitingFetch, measure: Measure) -> bool:
        return fetch.is_found(measure) or self._is_stopping

    # Events while fetches wait.

    def moved(self, keys: list[int]) -> None:
        """Owners notified moved offsets; `keys` are from `watch_key`."""
        self._to_check.update(dict.fromkeys(self.watches.moved(keys)))

    def tick(self, now_ms: int) -> None:
        """In each pass, after its messages: check the sessions with moved offsets."""
        self._now_ms = now_ms
        for _ in range(min(CHECKS_PER_PASS, len(self._to_check))):
            session = next(iter(self._to_check))
            del self._to_check[session]
            for fetch in self._purgatory.check_and_complete(session):
                self._finish(fetch, now_ms)

    def manifest_arrived(self, now_ms: int) -> None:
        waiting, self._waiting_for_manifest = self._waiting_for_manifest, {}
        for fetch in waiting:
            if fetch.is_in_steps:
                fetch.is_stale = True
            elif self._purgatory.cancel(fetch):
                # Measure all partitions again; from now on the fetch waits for at most the client's max_wait_ms.
                self._begin(fetch.restarted(), now_ms)

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
        self._is_stopping = True
        for fetch in self._purgatory.clear():
            self._finish_late(fetch, now_ms)

    def expire(self, now_ms: int) -> None:
        for fetch in self._purgatory.expire(now_ms):
            self._finish_late(fetch, now_ms)

    def _finish_late(self, fetch: WaitingFetch, now_ms: int) -> None:
        measured = fetch.measured
        is_follower = fetch.session.replica_id != NO_REPLICA
        if measured is None or measured.bytes_found or is_follower or fetch.session in self._to_check:
            # Measured records may be deleted by now; new records, or a new high watermark for followers, are included.
            fetch.check(self)
        if not fetch.is_in_steps:
            self._finish(fetch, now_ms)

    def connection_closed(self, connection: Connection) -> None:
        fetch = self._waiting.get(connection)
        if fetch is not None:
            self._stop_waiting(fetch)
            self._purgatory.cancel(fetch)
            self.release(fetch)

    def _stop_waiting(self, fetch: WaitingFetch) -> None:
        self._waiting_for_manifest.pop(fetch, None)
        if self._waiting.pop(fetch.connection, None) is not None:
            self._block[PURGATORY_FETCH] = len(self._waiting)

    # Responses.

    def _finish(self, fetch: WaitingFetch, now_ms: int) -> None:
        try:
            self._respond(fetch, now_ms)
        except Exception as error:  # noqa: BLE001  see `fail`
            self.fail(fetch, fetch.error or error)

    def fail(self, fetch: WaitingFetch, error: Exception) -> None:
        """Close the connection after a bug: a Fetch only reads. The client then starts another session."""
        self._purgatory.cancel(fetch)
        self._stop_waiting(fetch)
        self.release(fetch)
        self._clients.close(fetch.connection, reason_to_close(fetch.reply.context, error))

    def _respond(self, fetch: WaitingFetch, now_ms: int) -> None:
        session, measure = fetch.session, fetch.measured
        assert measure is not None and fetch.error is None
        if len(measure.results) > AT_ONCE:
            self._large.respond(fetch)
            return
        self._stop_waiting(fetch)
        self._now_ms = now_ms
        if not self.is_rejected(fetch):
            topics = self._evaluator.response(session, measure, full=fetch.is_full)
            self._counts.count_response(measure, measure.results)
            context, session_id = fetch.reply.context, self._cache.reply_session_id(session)
            hints = hints_of_fetch(measure, context, self._view)
            self.respond(fetch, pack_response(context.version, topics, session_id=session_id, hints=hints))

    def is_rejected(self, fetch: WaitingFetch) -> bool:
        """True when the fetch was completed without records: its session has moved on, or its client is throttled.

        Otherwise its session is open.
        """
        connection, header, measure = fetch.connection, fetch.reply.context, fetch.measured
        assert measure is not None
        if fetch.is_outdated:
            code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            self._block[error_index(code)] += 1
            session_id = self._cache.reply_session_id(fetch.session)
            self.respond(fetch, pack_response(header.version, [], error=code, session_id=session_id))
            return True
        if not (fetch.is_from_follower or self._throttle.manager.is_unlimited):
            pause_ms = self._throttle.fetched(connection, header.client, measure.bytes_found, self._now_ms)
            if pause_ms > 0:
                # Empty, as in Apache Kafka: a session keeps its changes for later, a full request gets no session.
                session_id = self._cache.reply_session_id(fetch.session)
                self.respond(fetch, pack_response(header.version, [], throttle_ms=pause_ms, session_id=session_id))
                return True
        if fetch.is_full:
            self._cache.open(fetch.session, fetch.request.session_epoch, self._now_ms)
        for evicted in self._cache.take_evicted():
            self._large.unbind(evicted)
            self._block[FETCH_SESSION_EVICTIONS] += 1
        self._block[FETCH_SESSIONS] = len(self._cache)
        return False

    def respond(self, fetch: WaitingFetch, body: list[Piece]) -> None:
        fetch.connection.exclusive_in_flight = False
        self._waiting.pop(fetch.connection, None)
        self.release(fetch)
        self._send(fetch.connection, fetch.reply, body)

    def _send(self, connection: Connection, reply: Reply, body: list[Piece]) -> None:
        header = reply.context
        size = length_of(body)
        head = response_head(header.api_key, header.version, header.correlation_id, size)
        first = body[0]
        assert isinstance(first, bytes)
        body[0] = head + first
        connection.complete_reply(reply, body, len(head) + size)
        self._clients.reply_ready(connection)

    def release(self, fetch: WaitingFetch) -> None:
        """Remove the watches of a fetch without a session, or with a closed one."""
        if not self._cache.reply_session_id(fetch.session):
            self._large.unbind(fetch.session)
            self._block[FETCH_SESSIONS] = len(self._cache)

    # Fetches in steps.

    @property
    def held_bytes(self) -> int:
        return self._large.held_bytes

    def keep_waiting(self, fetch: WaitingFetch) -> None:
        timeout_of_ms = MANIFEST_TIMEOUT_MS if fetch.waits_for_manifest else 0
        wait_ms = max(fetch.request.max_wait_ms, timeout_of_ms)
        self._purgatory.set_deadline(fetch, fetch.reply.context.deadline_ms(wait_ms))

    def end_waiting(self, fetch: WaitingFetch) -> None:
        self._purgatory.cancel(fetch)
        self._stop_waiting(fetch)

    def wait_for_manifest(self, fetch: WaitingFetch) -> None:
        self._waiting_for_manifest[fetch] = None
