"""Requests that are alone on their connection: answered here, by the controller or by the owners of partitions.

Each has its place in its connection's order of replies, and only requests of its own class start on the connection
before it is answered. When a controller or worker dies, its requests get a retriable error or are sent again. Expensive
requests are answered in steps, one step of each in turn, and threads make the searches that may wait for a disk. Only
few large requests are begun at once: the others wait undecoded.
"""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from kafkad.core.log.reading.log_reader import FoundOffset, LogReader
from kafkad.core.request_context import RequestContext
from kafkad.core.waiting.size_classes import SizeClasses
from kafkad.handlers.requests.apis_of_network import LocalHandler
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.failures import reason_to_close
from kafkad.handlers.requests.steps import LogSearch, Pause, Waits
from kafkad.processes.network.connections.connection import JOINED_BYTES, Connection, Reply
from kafkad.processes.network.connections.frames import Frame
from kafkad.processes.network.connections.unread_replies import UnreadReplies
from kafkad.processes.runtime.turns import COSTLY_BYTES, Turns
from kafkad.wire.framing import response_head
from kafkad.wire.primitives import MalformedRequest

Result = TypeVar("Result")
Steps = Generator[Waits, Any, bytes | None]
"""The steps of a handler; if they return no body, the answer is sent in another way."""
OffsetCheck = Callable[[LogReader], FoundOffset | None]
Search = Callable[[LogReader, OffsetCheck, Callable[["Future[FoundOffset | None]"], None]], None]
"""Begins a search; its end is reported in the loop."""


class _Stepped:
    """A request that is answered in steps. `size` is the size of the request in bytes."""

    __slots__ = ("next_step", "reply", "size", "steps")

    def __init__(self, steps: Steps, reply: Reply, size: int) -> None:
        self.steps = steps
        self.reply = reply
        self.size = size
        self.next_step: Callable[[], Waits] = partial(next, steps)
        """Takes the next step."""


class Responses:
    """Sends single replies, and continues those that are made in steps."""

    def __init__(
        self,
        view: BrokerView,
        *,
        answered: Callable[[Connection], None],
        refused: Callable[[Connection, str], None],
        unread: UnreadReplies,
        turns: Turns,
        search: Search,
    ) -> None:
        self._view = view
        self._answered = answered
        self._refused = refused
        self._unread = unread
        self._turns = turns
        self._search = search
        self._waiting_for_news: dict[Connection, _Stepped] = {}
        """At most one for a connection, as such a request is alone on it."""
        self._large: SizeClasses[_Stepped] = SizeClasses()

    @property
    def held_bytes(self) -> int:
        """The total size of the large requests that are not answered yet."""
        return self._large.held_bytes

    def open(self, connection: Connection, frame: Frame, context: RequestContext) -> Reply:
        """Take the next place in the order of replies.

        Until it is filled, only requests of its `request_class_of` begin.
        """
        reply = Reply(connection, context)
        connection.replies.append(reply)
        connection.begin(frame.request_class)
        return reply

    def send(self, reply: Reply, body: bytes) -> None:
        connection, context = reply.connection, reply.context
        connection.ended()
        if connection.closed:
            return
        head = response_head(context.api_key, context.version, context.correlation_id, len(body))
        size = len(head) + len(body)
        # A large body is not copied, as it may be cached for equal requests.
        connection.answer(reply, (head + body,) if size <= JOINED_BYTES else (head, body), size)
        self._unread.made(size)
        self._answered(connection)

    def send_made(self, reply: Reply, make: Callable[[], bytes]) -> None:
        """Send what `make` encodes; close the connection if it can't be encoded."""
        body = self.attempt(reply, make)
        if body is not None:
            self.send(reply, body)

    def attempt(self, reply: Reply, act: Callable[[], Result]) -> Result | None:
        """What `act` gives for this request; None: it has failed, and the connection is closed."""
        try:
            return act()
        except Exception as error:  # noqa: BLE001  see `refuse`
            self.refuse(reply, error)
            return None

    def refuse(self, reply: Reply, error: Exception) -> None:
        """The request has met this error, which costs its connection, even if it is a bug: handlers in this process
        only read what others share.
        """
        self._refused(reply.connection, reason_to_close(reply.context, error))

    def respond_locally(
        self, handler: LocalHandler, connection: Connection, frame: Frame, context: RequestContext
    ) -> None:
        """Run `handler` now, or begin to. Raises MalformedRequest."""
        reply = self.open(connection, frame, context)
        answer = handler(frame.body, context, self._view)
        if isinstance(answer, bytes):
            self.send(reply, answer)
        else:
            self.run(answer, reply, len(frame.view))

    def run(self, steps: Steps, reply: Reply, size: int) -> None:
        """Take the first step now, the others in turn. `size` is the size of the request. Raises MalformedRequest."""
        request = _Stepped(steps, reply, size)
        if (size <= COSTLY_BYTES or self._large.begin(size, request)) and self._step(request):
            self._turns.add(size, self._in_turn(request))

    def run_late(self, steps: Steps, reply: Reply, size: int) -> None:
        """The same for a request that has waited for another process: what it raises costs the connection."""
        self.attempt(reply, partial(self.run, steps, reply, size))

    def _in_turn(self, request: _Stepped) -> Iterator[None]:
        """Take steps of a request while it waits for nothing but its turn."""
        try:
            while self._step(request):
                yield
        except Exception as error:  # noqa: BLE001  see `refuse`
            self.refuse(request.reply, error)

    def _step(self, request: _Stepped) -> bool:
        """Take one step; True when the next may follow in its turn. Raises MalformedRequest."""
        connection = request.reply.connection
        if connection.closed:
            # The client has disconnected.
            request.steps.close()
            self._ended(request)
            return False
        try:
            waits = request.next_step()
        except StopIteration as finished:
            self._ended(request)
            if finished.value is not None:
                self.send(request.reply, finished.value)
            return False
        except MemoryError:
            self._ended(request)
            raise MalformedRequest(f"there is no memory to answer its {request.size} bytes") from None
        except Exception:
            self._ended(request)
            raise
        request.next_step = partial(next, request.steps)
        if isinstance(waits, LogSearch):
            self._search(waits.reader, waits.search, partial(self._found, request))
        elif waits is Pause.MANIFEST:
            self._waiting_for_news[connection] = request
        else:
            return True
        return False

    def _ended(self, request: _Stepped) -> None:
        """Make room for other large requests."""
        if request.size > COSTLY_BYTES:
            for begun in self._large.end(request.size):
                self._turns.add(begun.size, self._in_turn(begun))

    def _found(self, request: _Stepped, ended: "Future[Any]") -> None:
        """The search has ended: its result, or its exception, goes to the handler."""
        error = ended.exception()
        if error is not None:
            request.next_step = partial(request.steps.throw, error)
        else:
            request.next_step = partial(request.steps.send, ended.result())
        self._turns.add(request.size, self._in_turn(request))

    def manifest_arrived(self) -> None:
        waiting, self._waiting_for_news = self._waiting_for_news, {}
        for request in waiting.values():
            self._turns.add(request.size, self._in_turn(request))

    def connection_lost(self, connection: Connection) -> None:
        request = self._waiting_for_news.pop(connection, None)
        if request is not None:
            self._ended(request)
