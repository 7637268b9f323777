"""Fetch in the network process: sessions, waiting, and the watches that end the waiting.

A fetch that found too little waits here for its session to be told that something moved (`fetch_watches`).
"""

from collections.abc import Callable, Hashable
from typing import Protocol

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.metrics.catalogue import (
    BYTES_OUT,
    FAILED_FETCH,
    FETCH_SESSION_EVICTIONS,
    FETCH_SESSIONS,
    PURGATORY_FETCH,
    TOTAL_FETCH,
    error_index,
)
from kafkad.core.request_context import RequestContext
from kafkad.core.sessions.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, UNKNOWN, FetchSession
from kafkad.core.sessions.session_cache import SessionCache
from kafkad.core.waiting.purgatory import DelayedOperation, Purgatory
from kafkad.handlers.fetch import READ_COMMITTED, FetchEvaluator, Measure, rows_of
from kafkad.processes.network.connections.connection import Connection, Frame, Reply
from kafkad.processes.network.connections.throttle import Throttle
from kafkad.processes.network.fetch_watches import FetchWatches
from kafkad.wire.framing import response_head
from kafkad.wire.messages.fetch import Piece, length_of, pack_response
from kafkad.wire.messages.fetch_request import FetchRequest, read_request

LOOKS_A_PASS = 64
"""Thousands may wait for one partition: so many of their sessions are looked at before others have their turn."""
MANIFEST_PATIENCE_MS = 1_000
"""Owners answer at once unless they load; for so long a fetch waits for one that does, whatever its own time."""


class Traffic(Protocol):
    """Where bytes are counted by partition; `column` is one that this process alone writes."""

    def add_traffic(self, slot: int, column: int, amount: int) -> None: ...


class WaitingFetch(DelayedOperation[Hashable, "FetchRequests"]):
    """One Fetch that has not been answered; it watches its session."""

    __slots__ = ("connection", "is_full", "max_bytes", "measured", "min_bytes", "reply", "request", "session")

    def __init__(
        self, reply: Reply, connection: Connection, request: FetchRequest, session: FetchSession, *, is_full: bool
    ) -> None:
        super().__init__(keys=(session,), deadline_ms=reply.context.deadline_ms(request.max_wait_ms))
        self.reply = reply
        self.connection = connection
        self.request = request
        self.session = session
        self.is_full = is_full
        self.max_bytes = request.max_bytes
        self.min_bytes = request.min_bytes
        self.measured: Measure | None = None

    def limit(self, max_bytes: int) -> None:
        """No more than this at once, and so no waiting for more."""
        self.max_bytes = min(self.max_bytes, max_bytes)
        self.min_bytes = min(self.min_bytes, self.max_bytes)

    def try_complete(self, view: "FetchRequests") -> bool:
        is_enough = view.is_enough(self)
        if not is_enough and self.wants_manifest:
            # Where its records are is not known yet: too early to say in time that there are none at all.
            self.deadline_ms = max(self.deadline_ms, self.reply.context.deadline_ms(MANIFEST_PATIENCE_MS))
        return is_enough

    @property
    def wants_manifest(self) -> bool:
        measured = self.measured
        return measured is not None and measured.needs_manifest and not measured.has_something_to_say

    def try_complete_key(self, key: Hashable, view: "FetchRequests") -> bool:
        return view.is_enough(self)


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
        answered: Callable[[Connection], None],
    ) -> None:
        self.watches = watches
        self.outgoing = watches.outgoing
        self._evaluator = evaluator
        self._cache = cache
        self._throttle = throttle
        self._block = block
        self._traffic = traffic
        self._column = column
        self.max_bytes = max_bytes
        self._answered = answered
        self._purgatory: Purgatory[WaitingFetch, FetchRequests] = Purgatory(view=self, start_ms=now_ms)
        self._manifests_wanted: set[WaitingFetch] = set()
        self._to_look: dict[FetchSession, None] = {}
        """Sessions of which something moved, the first first."""
        self._waiting: dict[Connection, WaitingFetch] = {}
        """At most one for a connection: a Fetch is alone on it."""
        self._is_stopping = False

    def __len__(self) -> int:
        return len(self._purgatory)

    @property
    def next_deadline_ms(self) -> int | None:
        return self._purgatory.next_expiration_ms()

    @property
    def is_busy(self) -> bool:
        """Whether there is something to do in the next pass already."""
        return bool(self._to_look)

    def start(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """Answer now, or wait. Raises MalformedRequest."""
        request = read_request(frame.view, frame.header.body_at, context.version)
        reply = Reply(connection, context)
        now_ms = context.received_ms
        connection.replies.append(reply)
        try:
            session, is_full = self._session(request, context.version, now_ms)
        except KafkaError as error:
            self._block[error_index(error.code)] += 1
            self._send(connection, reply, pack_response(context.version, [], error=error.code))
            return
        session.read_as(committed=request.isolation_level == READ_COMMITTED)
        self._begin(WaitingFetch(reply, connection, request, session, is_full=is_full), now_ms)

    def _begin(self, fetch: WaitingFetch, now_ms: int) -> None:
        connection = fetch.connection
        self._limit(fetch)
        if not self._purgatory.try_complete_else_watch(fetch):
            connection.exclusive_in_flight = True
            self._waiting[connection] = fetch
            self._block[PURGATORY_FETCH] = len(self._waiting)
            return
        self._finish(fetch, now_ms)

    def _limit(self, fetch: WaitingFetch) -> None:
        fetch.limit(self.max_bytes)
        if not self._throttle.manager.is_unlimited:
            largest = self._throttle.largest_fetch(fetch.reply.context.client)
            if largest is not None:
                fetch.limit(largest)

    def _session(self, request: FetchRequest, version: int, now_ms: int) -> tuple[FetchSession, bool]:
        uses_ids = version >= 13
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            closed = self._cache.begin_full(request.session_id)
            if closed is not None:
                self._lose_interest(closed)
            return FetchSession(rows_of(request), now_ms, uses_topic_ids=uses_ids), True
        session = self._cache.resume(request.session_id, request.session_epoch, uses_topic_ids=uses_ids)
        forgotten = [(topic, index) for topic, indexes in request.forgotten for index in indexes]
        for slot in session.update(rows_of(request), forgotten):
            self.watches.unbind(session, slot)
        self._cache.updated(session, now_ms)
        return session, False

    # What the evaluator and the purgatory ask.

    def is_enough(self, fetch: WaitingFetch) -> bool:
        """Measure again; True when the fetch can be answered before its time."""
        request, session = fetch.request, fetch.session
        measure = fetch.measured = self._evaluator.measure(session, fetch.max_bytes)
        if self._is_stopping:
            return True
        committed = measure.reads_committed
        # Before all else: what the answer says of these is that they are quiet, and it may be late when it leaves.
        for slot, upper in measure.quiet_slots:
            self.watches.watch(slot, upper, committed=committed)
        if measure.needs_manifest:
            self._manifests_wanted.add(fetch)
            if not measure.has_something_to_say:
                return False
        enough = (
            measure.is_urgent
            or measure.bytes_found >= fetch.min_bytes
            or request.max_wait_ms <= 0
            or not session.partitions
        )
        if not enough:
            for slot, upper in measure.readable_slots:
                self.watches.watch(slot, upper, committed=committed)
        return enough

    # What happens meanwhile.

    def moved(self, keys: list[int]) -> None:
        """The owners say that there is something new; `keys` are of `watch_key`."""
        self._to_look.update(dict.fromkeys(self.watches.moved(keys)))

    def go_on(self, now_ms: int) -> None:
        """In each pass, when all news of it were heard: look at the sessions that they are about."""
        for _ in range(min(LOOKS_A_PASS, len(self._to_look))):
            session = next(iter(self._to_look))
            del self._to_look[session]
            for fetch in self._purgatory.check_and_complete(session):
                self._finish(fetch, now_ms)

    def manifest_arrived(self, now_ms: int) -> None:
        waiting, self._manifests_wanted = self._manifests_wanted, set()
        for fetch in waiting:
            if self._purgatory.cancel(fetch):
                # From the beginning: what it waits for now, if for anything, is for the client's own time.
                again = WaitingFetch(
                    fetch.reply, fetch.connection, fetch.request, fetch.session, is_full=fetch.is_full
                )
                self._begin(again, now_ms)

    def metadata_changed(self, changed: list[int], gone: list[int]) -> None:
        """These partitions moved, or their topics were deleted: whoever looks at them looks again."""
        self._to_look.update(dict.fromkeys(self.watches.changed(changed + gone)))
        for slot in gone:
            for session in self.watches.remove(slot):
                key = session.by_slot.get(slot)
                if key is not None:
                    session.bind(session.partitions[key], UNKNOWN)

    def worker_replaced(self, worker: int, now_ms: int) -> None:
        """What the dead worker was asked is forgotten: its watches, and the manifests that fetches wait for."""
        self._to_look.update(dict.fromkeys(self.watches.owner_lost(worker)))
        self.manifest_arrived(now_ms)

    def answer_all(self, now_ms: int) -> None:
        """The broker stops: everybody gets what there is, from now on at once."""
        self._is_stopping = True
        for fetch in self._purgatory.clear():
            self._finish_late(fetch, now_ms)

    def expire(self, now_ms: int) -> None:
        for fetch in self._purgatory.expire(now_ms):
            self._finish_late(fetch, now_ms)

    def _finish_late(self, fetch: WaitingFetch, now_ms: int) -> None:
        if fetch.measured is None or fetch.measured.bytes_found:
            # What was there while it waited may be gone by now.
            self.is_enough(fetch)
        self._finish(fetch, now_ms)

    def connection_lost(self, connection: Connection) -> None:
        fetch = self._waiting.get(connection)
        if fetch is not None:
            self._waits_no_longer(fetch)
            self._purgatory.cancel(fetch)
            self._release(fetch)

    def _waits_no_longer(self, fetch: WaitingFetch) -> None:
        self._manifests_wanted.discard(fetch)
        if self._waiting.pop(fetch.connection, None) is not None:
            self._block[PURGATORY_FETCH] = len(self._waiting)

    # Answering.

    def _finish(self, fetch: WaitingFetch, now_ms: int) -> None:
        connection, session, request = fetch.connection, fetch.session, fetch.request
        connection.exclusive_in_flight = False
        self._waits_no_longer(fetch)
        measure, context = fetch.measured, fetch.reply.context
        assert measure is not None
        if not self._throttle.manager.is_unlimited:
            pause_ms = self._throttle.fetched(connection, context.client, measure.bytes_found, now_ms)
            if pause_ms > 0:
                self._answer_throttled(fetch, pause_ms)
                return
        if fetch.is_full:
            self._open_session(session, request.session_epoch, now_ms)
        topics = self._evaluator.answer(session, measure, full=fetch.is_full)
        self._count(measure)
        body = pack_response(context.version, topics, session_id=self._cache.living_id(session))
        self._release(fetch)
        self._send(connection, fetch.reply, body)

    def _answer_throttled(self, fetch: WaitingFetch, pause_ms: int) -> None:
        """Empty, as in Apache Kafka: a session keeps what it had to say, a full request gets none."""
        session_id = self._cache.living_id(fetch.session)
        body = pack_response(fetch.reply.context.version, [], throttle_ms=pause_ms, session_id=session_id)
        self._release(fetch)
        self._send(fetch.connection, fetch.reply, body)

    def _open_session(self, session: FetchSession, epoch: int, now_ms: int) -> None:
        self._cache.open(session, epoch, now_ms)
        for evicted in self._cache.take_evicted():
            self._lose_interest(evicted)
            self._block[FETCH_SESSION_EVICTIONS] += 1
        self._block[FETCH_SESSIONS] = len(self._cache)

    def _count(self, measure: Measure) -> None:
        block = self._block
        block[TOTAL_FETCH] += len(measure.findings)
        if measure.bytes_found:
            block[BYTES_OUT] += measure.bytes_found
            for finding in measure.findings:
                if finding.place is not None:
                    self._traffic.add_traffic(finding.row.slot, self._column, finding.place.length)
        if measure.is_urgent:
            for finding in measure.findings:
                if finding.error:
                    block[error_index(finding.error)] += 1
                    block[FAILED_FETCH] += finding.error == ErrorCode.KAFKA_STORAGE_ERROR

    def _send(self, connection: Connection, reply: Reply, body: list[Piece]) -> None:
        context = reply.context
        size = length_of(body)
        head = response_head(context.api_key, context.version, context.correlation_id, size)
        first = body[0]
        assert isinstance(first, bytes)
        body[0] = head + first
        connection.answer(reply, body, len(head) + size)
        self._answered(connection)

    def _release(self, fetch: WaitingFetch) -> None:
        """A fetch without a session leaves nothing behind; neither does one whose session has ended."""
        if not self._cache.living_id(fetch.session):
            self._lose_interest(fetch.session)
            self._block[FETCH_SESSIONS] = len(self._cache)

    def _lose_interest(self, session: FetchSession) -> None:
        for slot in session.by_slot:
            self.watches.unbind(session, slot)
