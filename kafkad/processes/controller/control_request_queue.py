"""The queue of the controller's requests to this broker: handled in order, a few milliseconds in each pass.

A request waits for the configurations of new topics, and for the directory of an earlier replica to be renamed; later
requests wait behind it. Its response waits until the local processes have applied the changes, or have failed to: a
replica counts as deleted when its directory is renamed.

After the first request of a controller epoch or a registration, the topics are compared with the store: the controller
sends no StopReplica for deletions that completed earlier.
"""

from collections import deque
from collections.abc import Callable, Generator, Mapping, Set
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic_ns

from kafkad.core.cluster.control_requests import LeaderAndIsrRequest, StopReplicaResponse, UpdateMetadataRequest
from kafkad.core.cluster.request_parts import ControlRequest, ControlResponse, merged_response, split_request
from kafkad.core.controller.image import Topic
from kafkad.core.coordination_store import CoordinationError, SessionSuspended
from kafkad.core.errors import ErrorCode
from kafkad.core.hosting.hosting import Hosting
from kafkad.core.types import TopicPartition
from kafkad.handlers.controller.requests.controller_view import LONGEST_WAIT_MS
from kafkad.processes.controller.ports import OnResponse
from kafkad.processes.controller.replica_removals import ReplicaRemovals
from kafkad.processes.controller.tree_reader import Configs
from kafkad.processes.runtime.turns import STEP_NS

RequestSteps = Generator[None, None, ControlRequest | None]
"""Decodes the request in steps; None: it can't be read, and the error was sent."""
ResponseSteps = Callable[[ControlResponse], Generator[None, None, Callable[[], object]]]
"""Encodes the response in steps; the returned function sends it."""


@dataclass(frozen=True, slots=True)
class _PendingResponse:
    version: int
    deadline_ms: int
    response: ControlResponse
    send: Callable[[], object]
    response_steps: ResponseSteps


class ControlRequestQueue:
    """`read_configs` reads the configurations of topics by name, `read_topics` which there are; both call back later.

    `is_connected`: whether the store can be read. Once it can again, call `connected`. `publish` tells the local
    processes what has changed; `removals` are the deleted replicas whose directories may still have their names.
    """

    def __init__(
        self,
        hosting: Hosting,
        read_configs: Callable[[set[str], Callable[["Future[Configs]"], None]], None],
        read_topics: Callable[[Callable[["Future[frozenset[str]]"], None]], None],
        publish: Callable[[], object],
        removals: ReplicaRemovals,
        is_connected: Callable[[], bool],
    ) -> None:
        self._hosting = hosting
        self._read_configs = read_configs
        self._read_topics = read_topics
        self._publish = publish
        self._removals = removals
        self._is_connected = is_connected
        self._queue: deque[Generator[None, None, None]] = deque()
        """The first request is in progress."""
        self._configs: Configs = {}
        """The configurations for the first request."""
        self._is_reading = False
        self._is_read_due = False
        """Reading the store failed: retry when the session is connected."""
        self._awaits_removal = False
        self._compared = self._epochs
        """The epochs for which the topics were compared with the store."""
        self._is_comparing = False
        self._pending: list[_PendingResponse] = []
        self._now_ms = 0

    def add(self, request: ControlRequest, on_response: OnResponse, now_ms: int) -> None:
        self.add_in_steps(
            _without_steps(request), lambda response: _response_without_steps(on_response, response), now_ms
        )

    def add_in_steps(self, request_steps: RequestSteps, response_steps: ResponseSteps, now_ms: int) -> None:
        """Add a request that is decoded and encoded in steps."""
        self._queue.append(self._handle_in_steps(request_steps, response_steps))
        self.tick(now_ms)

    @property
    def is_under_way(self) -> bool:
        """Whether a request is in progress and does not wait."""
        is_waiting = self._is_reading or self._is_read_due or self._awaits_removal
        return bool(self._queue) and not is_waiting

    def tick(self, now_ms: int) -> None:
        """Continue the request in progress, for the time of one step."""
        self._now_ms = now_ms
        self._awaits_removal = False
        end_ns = monotonic_ns() + STEP_NS
        while self.is_under_way:
            for _ in self._queue[0]:
                break
            else:
                self._queue.popleft()
            if monotonic_ns() >= end_ns:
                return

    def _handle_in_steps(
        self, request_steps: RequestSteps, response_steps: ResponseSteps
    ) -> Generator[None, None, None]:
        request = yield from request_steps
        if request is None:
            return
        configs: Configs = {}
        if isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest):
            missing = self._hosting.unknown_topics(request)
            while missing.difference(configs):
                self._configs, self._is_reading = {}, True
                self._read_configs(missing, self._read)
                yield
                configs = self._configs
        while isinstance(request, LeaderAndIsrRequest) and self._is_being_removed(request):
            self._awaits_removal = True
            yield
        responses = []
        for piece in split_request(request):
            responses.append(self._apply(piece, configs))
            self._publish()
            yield
        version, deadline_ms = self._hosting.image.version, self._now_ms + LONGEST_WAIT_MS
        response = merged_response(responses)
        send = yield from response_steps(response)
        self._pending.append(_PendingResponse(version, deadline_ms, response, send, response_steps))
        self._compare()

    def _is_being_removed(self, request: LeaderAndIsrRequest) -> bool:
        """Whether a replica is added again while a worker may still rename its earlier directory."""
        removals = self._removals.under_way() - self._hosting.unremoved
        return any(
            TopicPartition(topic.topic_name, state.partition_index) in removals
            for topic in (request.topic_states if removals else ())
            for state in topic.partition_states
        )

    def _read(self, future: "Future[Configs]") -> None:
        self._is_reading = False
        error = future.exception()
        if error is None:
            self._configs = future.result()
        elif not isinstance(error, CoordinationError):
            raise error
        self._is_read_due = error is not None and bool(self._queue) and not self._is_connected()
        self.tick(self._now_ms)

    @property
    def _epochs(self) -> tuple[int, int]:
        """The epochs of the controller and of this broker's registration."""
        return self._hosting.controller_epoch, self._hosting.broker_epoch

    def _compare(self) -> None:
        if self._compared != self._epochs and not self._is_comparing:
            self._is_comparing = True
            self._read_topics(partial(self._topics_read, self._epochs, self._hosting.image.topics))

    def _topics_read(
        self, epochs: tuple[int, int], known: Mapping[str, Topic], future: "Future[frozenset[str]]"
    ) -> None:
        self._is_comparing = False
        error = future.exception()
        if error is None:
            self._compared = epochs
            self._hosting.remove_missing_topics(future.result(), known)
            self._publish()
        elif not isinstance(error, CoordinationError):
            raise error
        if error is None or (isinstance(error, SessionSuspended) and self._is_connected()):
            self._compare()

    def connected(self) -> None:
        """The session is connected again: repeat failed reads, so that the controller's request does not time out."""
        self._is_read_due = False
        self.tick(self._now_ms)
        self._compare()

    def abandon(self) -> None:
        """Drop all requests: the session is lost, and the controller sends all again to the next registration."""
        self._queue.clear()
        self._pending.clear()
        self._is_read_due = False

    def _apply(self, request: ControlRequest, configs: Configs) -> ControlResponse:
        if isinstance(request, LeaderAndIsrRequest):
            return self._hosting.leader_and_isr(request, configs)
        if isinstance(request, UpdateMetadataRequest):
            return self._hosting.update_metadata(request, configs)
        return self._hosting.stop_replica(request)

    def send_ready(self, applied: int, now_ms: int) -> None:
        """`applied` is the version that every live local process has."""
        self._now_ms = now_ms
        ready = [each for each in self._pending if each.version <= applied or each.deadline_ms <= now_ms]
        self._pending = [each for each in self._pending if each.version > applied and each.deadline_ms > now_ms]
        is_synced = not any(isinstance(each.response, StopReplicaResponse) for each in ready) or self._removals.sync()
        for each in ready:
            self._respond(each, is_late=each.version > applied, is_synced=is_synced)

    def _respond(self, pending: _PendingResponse, *, is_late: bool, is_synced: bool) -> None:
        """Send the response, with errors for replicas whose directories could not be renamed."""
        unremoved: Set[TopicPartition] = self._hosting.unremoved
        if is_late:
            unremoved = unremoved | self._removals.under_way()
        response = pending.response
        if not is_synced and isinstance(response, StopReplicaResponse):
            unremoved = {TopicPartition(each.topic_name, each.partition_index) for each in response.partition_errors}
        if unremoved and isinstance(response, StopReplicaResponse):
            _run_to_end(pending.response_steps(_without(response, unremoved)))()
        else:
            pending.send()

    @property
    def next_deadline_ms(self) -> int | None:
        if self.is_under_way:
            return self._now_ms
        return min((each.deadline_ms for each in self._pending), default=None)


def _without(response: StopReplicaResponse, unremoved: Set[TopicPartition]) -> StopReplicaResponse:
    """Set an error for replicas that are still on disk: the deletion waits, as for an offline broker."""
    errors = tuple(
        replace(each, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
        if TopicPartition(each.topic_name, each.partition_index) in unremoved
        else each
        for each in response.partition_errors
    )
    return replace(response, partition_errors=errors)


def _run_to_end(steps: Generator[None, None, Callable[[], object]]) -> Callable[[], object]:
    try:
        while True:
            next(steps)
    except StopIteration as finished:
        send: Callable[[], object] = finished.value
        return send


def _without_steps(request: ControlRequest) -> RequestSteps:
    yield from ()
    return request


def _response_without_steps(
    on_response: OnResponse, response: ControlResponse
) -> Generator[None, None, Callable[[], object]]:
    yield from ()
    return partial(on_response, response)
