"""Responses of requests that are exclusive on their connection: handled here, by the controller or by partition owners.

Each request has its place in its connection's order of replies; until its response, only requests of its class start on
the connection. When a controller or worker dies, its requests get a retriable error or are sent again. Expensive
requests are handled in steps, round-robin, and threads run the searches that may wait for a disk. Only few large
requests are in progress at once; the others wait undecoded.
"""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from kafkad.core.request_context import RequestContext
from kafkad.core.waiting.size_classes import SizeClasses
from kafkad.handlers.requests.apis_of_network import LocalHandler
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.failures import reason_to_close
from kafkad.handlers.requests.steps import LogSearch, Pause, Waits
from kafkad.processes.network.connections.clients import Clients
from kafkad.processes.network.connections.connection import JOINED_BYTES, Connection, Reply
from kafkad.processes.network.connections.frames import Frame
from kafkad.processes.network.logs.reading_threads import LogSearches
from kafkad.processes.runtime.turns import COSTLY_BYTES, Turns
from kafkad.wire.framing import response_head
from kafkad.wire.primitives import MalformedRequest

Result = TypeVar("Result")
Steps = Generator[Waits, Any, bytes | None]
"""The steps of a handler; they return the body, or None if the response is sent in another way."""


class _Stepped:
    """A request that is handled in steps. `size` is the size of the request in bytes."""

    __slots__ = ("next_step", "reply", "size", "steps")

    def __init__(self, steps: Steps, reply: Reply, size: int) -> None:
        self.steps = steps
        self.reply = reply
        self.size = size
        self.next_step: Callable[[], Waits] = partial(next, steps)
        """Runs the next step."""


class Responses:
    """Sends responses, and runs the steps of requests."""

    def __init__(
        self,
        view: BrokerView,
        *,
        clients: Clients,
        turns: Turns,
        searches: LogSearches,
    ) -> None:
        self._view = view
        self._clients = clients
        self._turns = turns
        self._searches = searches
        self._waiting_for_manifest: dict[Connection, _Stepped] = {}
        """At most one for a connection, as such a request is alone on it."""
        self._large: SizeClasses[_Stepped] = SizeClasses()

    @property
    def held_bytes(self) -> int:
        """The total size of the large requests without a response."""
        return self._large.held_bytes

    def open(self, connection: Connection, frame: Frame, context: RequestContext) -> Reply:
        """Reserve the next place in the order of replies.

        Until it is filled, only requests of the same `request_class_of` start.
        """
        reply = Reply(connection, context)
        connection.replies.append(reply)
        connection.begin(frame.request_class)
        return reply

    def send(self, reply: Reply, body: bytes) -> None:
        connection, context = reply.connection, reply.context
        connection.request_completed()
        if connection.closed:
            return
        head = response_head(context.api_key, context.version, context.correlation_id, len(body))
        size = len(head) + len(body)
        # A large body is not copied, as it may be cached for equal requests.
        connection.complete_reply(reply, (head + body,) if size <= JOINED_BYTES else (head, body), size)
        self._clients.unread.made(size)
        self._clients.reply_ready(connection)

    def send_result(self, reply: Reply, make: Callable[[], bytes]) -> None:
        """Send what `make` encodes; close the connection if it can't be encoded."""
        body = self.attempt(reply, make)
        if body is not None:
            self.send(reply, body)

    def attempt(self, reply: Reply, act: Callable[[], Result]) -> Result | None:
        """The result of `act`; None: it has raised, and the connection is closed."""
        try:
            return act()
        except Exception as error:  # noqa: BLE001  see `fail`
            self.fail(reply, error)
            return None

    def fail(self, reply: Reply, error: Exception) -> None:
        """Close the connection of a failed request, also after a bug: handlers only read shared state."""
        self._clients.close(reply.connection, reason_to_close(reply.context, error))

    def respond_locally(
        self, handler: LocalHandler, connection: Connection, frame: Frame, context: RequestContext
    ) -> None:
        """Run `handler`, or its first step. Raises MalformedRequest."""
        reply = self.open(connection, frame, context)
        response = handler(frame.body, context, self._view)
        if isinstance(response, bytes):
            self.send(reply, response)
        else:
            self.run(response, reply, len(frame.view))

    def run(self, steps: Steps, reply: Reply, size: int) -> None:
        """Run the first step now, the others round-robin. `size` is the request's size. Raises MalformedRequest."""
        request = _Stepped(steps, reply, size)
        if (size <= COSTLY_BYTES or self._large.begin(size, request)) and self._step(request):
            self._turns.add(size, self._run_steps(request))

    def resume(self, steps: Steps, reply: Reply, size: int) -> None:
        """As `run`, for a request that has waited for another process: an error closes the connection."""
        self.attempt(reply, partial(self.run, steps, reply, size))

    def _run_steps(self, request: _Stepped) -> Iterator[None]:
        """Run the steps of a request until it has to wait."""
        try:
            while self._step(request):
                yield
        except Exception as error:  # noqa: BLE001  see `fail`
            self.fail(request.reply, error)

    def _step(self, request: _Stepped) -> bool:
        """Run one step; True when the next one may follow in its turn. Raises MalformedRequest."""
        connection = request.reply.connection
        if connection.closed:
            # The client has disconnected.
            request.steps.close()
            self._completed(request)
            return False
        try:
            waits = request.next_step()
        except StopIteration as finished:
            self._completed(request)
            if finished.value is not None:
                self.send(request.reply, finished.value)
            return False
        except MemoryError:
            self._completed(request)
            raise MalformedRequest(f"not enough memory to handle a request of {request.size} bytes") from None
        except Exception:
            self._completed(request)
            raise
        request.next_step = partial(next, request.steps)
        if isinstance(waits, LogSearch):
            self._searches.begin(waits.reader, waits.search, partial(self._found, request))
        elif waits is Pause.MANIFEST:
            self._waiting_for_manifest[connection] = request
        else:
            return True
        return False

    def _completed(self, request: _Stepped) -> None:
        """Start other large requests."""
        if request.size > COSTLY_BYTES:
            for started in self._large.end(request.size):
                self._turns.add(started.size, self._run_steps(started))

    def _found(self, request: _Stepped, future: "Future[Any]") -> None:
        """The search has completed: pass its result, or its exception, to the handler."""
        error = future.exception()
        if error is not None:
            request.next_step = partial(request.steps.throw, error)
        else:
            request.next_step = partial(request.steps.send, future.result())
        self._turns.add(request.size, self._run_steps(request))

    def manifest_arrived(self) -> None:
        waiting, self._waiting_for_manifest = self._waiting_for_manifest, {}
        for request in waiting.values():
            self._turns.add(request.size, self._run_steps(request))

    def connection_closed(self, connection: Connection) -> None:
        request = self._waiting_for_manifest.pop(connection, None)
        if request is not None:
            self._completed(request)
