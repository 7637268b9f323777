"""The controller's requests to this broker, in the order in which they came.

A request waits for the configurations of topics that are new here, and all later ones wait behind it. Its answer waits
until the local processes have applied what it changed, so that the controller then finds it everywhere.

With the first request of a controller, or to a registration of this broker, the topics are compared with the store's:
of a deletion that ended before that, nobody tells this broker any more.
"""

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from kafkad.core.cluster.control_requests import LeaderAndIsrRequest, UpdateMetadataRequest
from kafkad.core.controller.image import Topic
from kafkad.core.coordination_store import CoordinationError, SessionSuspended
from kafkad.core.hosting.hosting import Hosting
from kafkad.handlers.controller.requests.controller_view import LONGEST_WAIT_MS
from kafkad.processes.controller.cluster.ports import Answered, ControlRequest, ControlResponse
from kafkad.processes.controller.cluster.tree_reader import Configs


@dataclass(frozen=True, slots=True)
class _Waiting:
    version: int
    deadline_ms: int
    answered: Answered
    response: ControlResponse


class HandedRequests:
    """`read_configs` reads the configurations of topics by name, `read_topics` which there are; both call back later.

    `is_connected`: whether the store can be read. Once it can again, call `connected`.
    """

    def __init__(
        self,
        hosting: Hosting,
        read_configs: Callable[[set[str], Callable[["Future[Configs]"], None]], None],
        read_topics: Callable[[Callable[["Future[frozenset[str]]"], None]], None],
        publish: Callable[[], None],
        is_connected: Callable[[], bool],
    ) -> None:
        self._hosting = hosting
        self._read_configs = read_configs
        self._read_topics = read_topics
        self._publish = publish
        self._is_connected = is_connected
        self._queue: deque[tuple[ControlRequest, Answered]] = deque()
        self._is_reading = False
        self._compared = self._told_by
        """For whom the topics were compared with the store's."""
        self._is_comparing = False
        self._waiting: list[_Waiting] = []
        self._now_ms = 0

    def add(self, request: ControlRequest, answered: Answered, now_ms: int) -> None:
        self._now_ms = now_ms
        self._queue.append((request, answered))
        self._go_on({})

    def _go_on(self, configs: Configs) -> None:
        """Carry out what needs nothing more; `configs` are for the first request only."""
        while self._queue and not self._is_reading:
            request, answered = self._queue[0]
            if isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest):
                missing = self._hosting.unknown_topics(request).difference(configs)
                if missing:
                    self._is_reading = True
                    self._read_configs(missing, self._read)
                    return
            self._queue.popleft()
            response = self._carried_out(request, configs)
            configs = {}
            self._publish()
            deadline_ms = self._now_ms + LONGEST_WAIT_MS
            self._waiting.append(_Waiting(self._hosting.image.version, deadline_ms, answered, response))
            self._compare()

    def _read(self, future: "Future[Configs]") -> None:
        self._is_reading = False
        error = future.exception()
        if error is None:
            self._go_on(future.result())
        elif not isinstance(error, CoordinationError):
            raise error
        elif self._is_connected():
            self._go_on({})

    @property
    def _told_by(self) -> tuple[int, int]:
        """The epochs of the controller and of this broker's registration."""
        return self._hosting.controller_epoch, self._hosting.broker_epoch

    def _compare(self) -> None:
        if self._compared != self._told_by and not self._is_comparing:
            self._is_comparing = True
            self._read_topics(partial(self._topics_read, self._told_by, self._hosting.image.topics))

    def _topics_read(
        self, told_by: tuple[int, int], known: Mapping[str, Topic], future: "Future[frozenset[str]]"
    ) -> None:
        self._is_comparing = False
        error = future.exception()
        if error is None:
            self._compared = told_by
            self._hosting.topics_are(future.result(), known)
            self._publish()
        elif not isinstance(error, CoordinationError):
            raise error
        if error is None or (isinstance(error, SessionSuspended) and self._is_connected()):
            self._compare()

    def connected(self) -> None:
        """What could not be read while the session was suspended is read now.

        Unanswered, the controller would wait for its whole timeout, and nobody would lead or follow meanwhile.
        """
        self._go_on({})
        self._compare()

    def give_up(self) -> None:
        """Drop what waits, unanswered: the session is over, and its controller tells the next one everything again."""
        self._queue.clear()
        self._waiting.clear()

    def _carried_out(self, request: ControlRequest, configs: Configs) -> ControlResponse:
        if isinstance(request, LeaderAndIsrRequest):
            return self._hosting.leader_and_isr(request, configs)
        if isinstance(request, UpdateMetadataRequest):
            return self._hosting.update_metadata(request, configs)
        return self._hosting.stop_replica(request)

    def send_ready(self, applied: int, now_ms: int) -> None:
        """`applied` is the version that every live local process has."""
        self._now_ms = now_ms
        ready = [each for each in self._waiting if each.version <= applied or each.deadline_ms <= now_ms]
        self._waiting = [each for each in self._waiting if each.version > applied and each.deadline_ms > now_ms]
        for each in ready:
            each.answered(each.response)

    @property
    def next_deadline_ms(self) -> int | None:
        return min((each.deadline_ms for each in self._waiting), default=None)
