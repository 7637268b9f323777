"""Fetches with very many partitions are read, measured and completed in steps.

Other requests wait for one step at most. Partitions that move meanwhile are tracked and measured again, so that no
change is missed. Only few large requests are in progress at once; the others are queued.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Protocol

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.sessions.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, FetchSession, PartitionKey
from kafkad.core.sessions.session_cache import SessionCache
from kafkad.core.waiting.size_classes import SizeClasses
from kafkad.handlers.fetch import FetchEvaluator
from kafkad.handlers.partitions.fetch_access import each_row_of
from kafkad.handlers.partitions.fetch_measure import Measure
from kafkad.handlers.partitions.leader_hints import hints_of_fetch
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.failures import reason_to_close
from kafkad.processes.network.connections.clients import Clients
from kafkad.processes.network.connections.connection import Connection, Reply
from kafkad.processes.network.fetch_counts import FetchCounts
from kafkad.processes.network.fetch_watches import FetchWatches
from kafkad.processes.network.waiting_fetch import WaitingFetch
from kafkad.processes.runtime.turns import Turns
from kafkad.wire.messages.fetch import FileSlice, PartitionData, Piece, pack_in_steps
from kafkad.wire.messages.fetch_request import FetchRequest
from kafkad.wire.steps import STEP

AT_ONCE = 400
"""Partitions in one step of measuring or responding: about two milliseconds."""
ROWS_A_STEP = 200
LARGE_BYTES = 8 * 1024
"""Smaller requests are read within a millisecond."""
IN_PROGRESS_BYTES = 256 * 1024
"""The limit of large requests in progress at once.

Each partition is several objects until the response is sent, and the garbage collector visits all of them.
"""
_ROW_BYTES = 32
"""The size of a partition in a request."""
_Steps = Callable[[WaitingFetch, dict[PartitionKey, None]], Iterator[None]]
"""The second argument collects the partitions that change meanwhile."""


class Fetches(Protocol):
    """The functions of all fetches, with and without steps."""

    def is_found(self, fetch: WaitingFetch, measure: Measure) -> bool:
        """Whether this measurement is enough to complete the fetch before its deadline."""

    def keep_waiting(self, fetch: WaitingFetch) -> None: ...

    def end_waiting(self, fetch: WaitingFetch) -> None:
        """The response of the fetch is being built."""

    def is_rejected(self, fetch: WaitingFetch) -> bool:
        """True when the fetch was completed without records: its session has moved on, or its client is throttled.

        Otherwise its session is open.
        """

    def respond(self, fetch: WaitingFetch, body: list[Piece]) -> None: ...

    def fail(self, fetch: WaitingFetch, error: Exception) -> None:
        """Close the connection."""

    def wait_for_manifest(self, fetch: WaitingFetch) -> None: ...

    def release(self, fetch: WaitingFetch) -> None:
        """Remove the watches of its session, unless the session is cached."""


class _Request:
    __slots__ = ("reply", "size", "steps")

    def __init__(self, reply: Reply, size: int, steps: Iterator[None]) -> None:
        self.reply = reply
        self.size = size
        self.steps = steps


class LargeFetches:
    """The steps of all large fetches."""

    def __init__(
        self,
        fetches: Fetches,
        turns: Turns,
        evaluator: FetchEvaluator,
        watches: FetchWatches,
        cache: SessionCache,
        counts: FetchCounts,
        clients: Clients,
        view: BrokerView,
    ) -> None:
        self._view = view
        self._fetches = fetches
        self._turns = turns
        self._evaluator = evaluator
        self._watches = watches
        self._cache = cache
        self._counts = counts
        self._clients = clients
        self._requests: dict[Connection, _Request] = {}
        self._sizes: SizeClasses[_Request] = SizeClasses(IN_PROGRESS_BYTES)

    @property
    def held_bytes(self) -> int:
        """The total size of the large requests without a response, except those that wait for records."""
        return self._sizes.held_bytes

    # Reading requests.

    def start(self, reply: Reply, size: int, steps: Iterator[None]) -> None:
        """Start a request of `size` bytes when the limit allows it; `steps` reads and continues the request."""
        request = _Request(reply, size, steps)
        self._requests[reply.connection] = request
        if self._sizes.begin(size, request):
            self._turns.add(size, self._reading(request))

    def _reading(self, request: _Request) -> Iterator[None]:
        connection = request.reply.connection
        try:
            while not connection.closed:
                yield next(request.steps)
        except StopIteration:
            return
        except MemoryError:
            self._clients.close(connection, f"not enough memory to read a Fetch of {request.size} bytes")
        except Exception as error:  # noqa: BLE001  malformed, or a bug: a Fetch only reads
            self._clients.close(connection, reason_to_close(request.reply.context, error))
        self.completed(connection)

    def completed(self, connection: Connection) -> None:
        """The request is completed, waits for records or lost its client: start queued requests."""
        request = self._requests.pop(connection, None)
        if request is not None:
            for started in self._sizes.end(request.size):
                self._turns.add(started.size, self._reading(started))

    # Measuring.

    def measure(self, fetch: WaitingFetch) -> None:
        """Measure the partitions of the session that may have changed; then complete or delay the fetch."""
        if not fetch.is_in_steps:
            fetch.is_in_steps = True
            self._turns.add(
                _ROW_BYTES * len(fetch.session.dirty),
                self._guarded(fetch, self._measuring, fetch.session.track_changes()),
            )

    def _guarded(self, fetch: WaitingFetch, steps: _Steps, changes: dict[PartitionKey, None]) -> Iterator[None]:
        try:
            yield from steps(fetch, changes)
        except Exception as error:  # noqa: BLE001  see `fail`
            fetch.session.end_tracking(changes)
            self._fetches.fail(fetch, error)
            self.completed(fetch.connection)

    def _measuring(self, fetch: WaitingFetch, changes: dict[PartitionKey, None]) -> Iterator[None]:
        session = fetch.session
        fetch.is_stale = False
        measure = Measure(session.isolation, fetch.absent)
        keys = iter(list(session.dirty))
        while some := list(islice(keys, ROWS_A_STEP)):
            present = [key for key in some if key in session.partitions]
            self._evaluator.measure_more(session, present, measure, fetch.max_bytes)
            if measure.follower_states:
                self._watches.report(session, measure.follower_states, monotonic_ms())
                measure.follower_states.clear()
            # Before the response, which omits these partitions as unchanged and may be sent much later.
            self._watch(measure, measure.quiet_slots)
            measure.quiet_slots.clear()
            if measure.needs_manifest:
                self._fetches.wait_for_manifest(fetch)
            yield
            if self._is_disconnected(fetch, changes):
                return
        if fetch.is_completed or self._fetches.is_found(fetch, measure):
            fetch.measured = measure
            yield from self._responding(fetch, changes)
            return
        readable = iter(measure.readable_slots)
        while some_slots := list(islice(readable, ROWS_A_STEP)):
            self._watch(measure, some_slots)
            yield
            if self._is_disconnected(fetch, changes):
                return
        fetch.measured = measure
        self._wait(fetch, changes)

    def _watch(self, measure: Measure, slots: list[tuple[int, int]]) -> None:
        for slot, upper in slots:
            self._watches.watch(slot, upper, measure.isolation)

    def _wait(self, fetch: WaitingFetch, changes: dict[PartitionKey, None]) -> None:
        """Delay the fetch until there are records. Changes and a deadline in the meantime are handled at once."""
        fetch.is_in_steps = False
        fetch.session.end_tracking(changes)
        if changes or fetch.is_stale or fetch.is_completed:
            self.measure(fetch)
            return
        self.completed(fetch.connection)
        self._fetches.keep_waiting(fetch)

    def _is_disconnected(self, fetch: WaitingFetch, changes: dict[PartitionKey, None]) -> bool:
        """The client has disconnected."""
        if fetch.connection.closed:
            fetch.session.end_tracking(changes)
            self._fetches.release(fetch)
            self.completed(fetch.connection)
            return True
        return False

    # Responses.

    def respond(self, fetch: WaitingFetch) -> None:
        """Build the response from the measurement."""
        fetch.is_in_steps = True
        assert fetch.measured is not None
        size = _ROW_BYTES * len(fetch.measured.results)
        self._turns.add(size, self._guarded(fetch, self._responding, fetch.session.track_changes()))

    def _responding(self, fetch: WaitingFetch, changes: dict[PartitionKey, None]) -> Iterator[None]:
        session, measure = fetch.session, fetch.measured
        assert measure is not None
        self._fetches.end_waiting(fetch)
        if not self._fetches.is_rejected(fetch):
            topics: dict[str | bytes, list[PartitionData]] = {}
            for first in range(0, len(measure.results), ROWS_A_STEP):
                some = measure.results[first : first + ROWS_A_STEP]
                self._evaluator.add_to_response(session, measure, some, topics, full=fetch.is_full)
                self._counts.count_response(measure, some)
                yield
                if self._is_disconnected(fetch, changes):
                    _release(row.records for rows in topics.values() for row in rows)
                    return
            version, session_id = fetch.reply.context.version, self._cache.reply_session_id(session)
            hints = hints_of_fetch(measure, fetch.reply.context, self._view)
            body = yield from pack_in_steps(version, list(topics.items()), session_id=session_id, hints=hints)
            if self._is_disconnected(fetch, changes):
                _release(body)
                return
            self._fetches.respond(fetch, body)
        session.end_tracking(changes)
        self.completed(fetch.connection)

    # Closed sessions.

    def unbind(self, session: FetchSession) -> None:
        """Remove the watches of all its partitions."""
        slots = list(session.by_slot)
        for slot in slots[:AT_ONCE]:
            self._watches.unbind(session, slot)
        if len(slots) > AT_ONCE:
            self._turns.add(_ROW_BYTES * len(slots), self._unbinding(session, slots[AT_ONCE:]))

    def _unbinding(self, session: FetchSession, slots: list[int]) -> Iterator[None]:
        for first in range(0, len(slots), STEP):
            for slot in slots[first : first + STEP]:
                self._watches.unbind(session, slot)
            yield


def _release(pieces: Iterable[Piece | None]) -> None:
    for piece in pieces:
        if isinstance(piece, FileSlice):
            piece.release()


def session_of(
    request: FetchRequest, cache: SessionCache, watches: FetchWatches, started: FetchSession, now_ms: int
) -> Generator[None, None, FetchSession]:
    """`started`, with the partitions of a large request. Raises KafkaError as `SessionCache.resume` does."""
    rows = each_row_of(request)
    while some := list(islice(rows, STEP)):
        started.update(some, ())
        yield
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        return started
    forgotten = ((topic, index) for topic, indexes in request.forgotten for index in indexes)
    while some_keys := list(islice(forgotten, STEP)):
        for slot in started.update((), some_keys):
            watches.unbind(started, slot)
        yield
    # Another request may have used or closed the session meanwhile.
    session = cache.resume(request.session_id, request.session_epoch, uses_topic_ids=started.uses_topic_ids)
    cache.updated(session, now_ms)
    return session
