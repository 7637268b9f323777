"""Requests about many partitions: a step of one, then a step of the next, and searches where nobody waits for a disk.

The place of each in its connection's order of replies is kept by `answers`.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from time import monotonic
from typing import Any

from kafkad.core.log.reading import FoundOffset, LogReader
from kafkad.handlers.pipeline import SteppedHandler
from kafkad.handlers.steps import LogSearch, Pause, Steps, Waits
from kafkad.handlers.view import BrokerView
from kafkad.processes.network.answers import Answers
from kafkad.processes.network.connection import Connection, Frame, Reply

PASS_S = 0.005
"""Steps of one loop pass; the one that is under way then is ended."""

Look = Callable[[LogReader], FoundOffset | None]
Search = Callable[[LogReader, Look, Callable[["Future[FoundOffset | None]"], None]], None]
"""Begins a search; its end is told in the loop."""


class _Request:
    __slots__ = ("go_on", "reply", "steps")

    def __init__(self, steps: Steps, reply: Reply) -> None:
        self.steps = steps
        self.reply = reply
        self.go_on: Callable[[], Waits] = partial(next, steps)
        """Makes the next step."""


class SteppedAnswers:
    """The requests that are answered in steps."""

    def __init__(self, answers: Answers, view: BrokerView, search: Search) -> None:
        self._answers = answers
        self._view = view
        self._search = search
        self._ready: deque[_Request] = deque()
        self._waiting_for_news: dict[Connection, _Request] = {}
        """At most one for a connection: such a request is alone on it."""

    @property
    def is_ready(self) -> bool:
        """Whether there is something to do in the next pass already."""
        return bool(self._ready)

    def start(self, handler: SteppedHandler, connection: Connection, frame: Frame, now_ms: int) -> None:
        """Answer now, as far as that is one step. Raises MalformedRequest."""
        header = frame.header
        reply = self._answers.open(connection, frame, now_ms)
        self._step(_Request(handler(frame.view[header.body_at :], header.version, self._view), reply))

    def go_on(self) -> None:
        """In each pass: steps of those that may go on, each in its turn."""
        if not self._ready:
            return
        ends = monotonic() + PASS_S
        while self._ready:
            self._step(self._ready.popleft())
            if monotonic() >= ends:
                return

    def manifest_arrived(self) -> None:
        self._ready.extend(self._waiting_for_news.values())
        self._waiting_for_news.clear()

    def connection_lost(self, connection: Connection) -> None:
        self._waiting_for_news.pop(connection, None)

    def _step(self, request: _Request) -> None:
        if request.reply.connection.closed:
            # Nobody is there any more to hear the answer.
            request.steps.close()
            return
        try:
            waits = request.go_on()
        except StopIteration as finished:
            self._answers.send(request.reply, finished.value)
            return
        request.go_on = partial(next, request.steps)
        if isinstance(waits, LogSearch):
            self._search(waits.reader, waits.look, partial(self._found, request))
        elif waits is Pause.TURN:
            self._ready.append(request)
        else:
            self._waiting_for_news[request.reply.connection] = request

    def _found(self, request: _Request, ended: "Future[Any]") -> None:
        """The search has come to an end: the handler is told its result, or what it raised."""
        error = ended.exception()
        if error is not None:
            request.go_on = partial(request.steps.throw, error)
        else:
            request.go_on = partial(request.steps.send, ended.result())
        self._ready.append(request)
