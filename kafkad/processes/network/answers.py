"""Requests that are answered once and alone: from here, or by the controller, or by the owners of partitions.

Each has its place in its connection's order of replies, and nothing but its own lane starts on the connection before
it is answered. A controller or worker that dies is answered for with a retriable error, or the request is sent again.
"""

from collections.abc import Callable, Generator, Iterator

from kafkad.handlers.pipeline import LocalHandler
from kafkad.handlers.view import BrokerView
from kafkad.processes.network.connection import Connection, Frame, Reply
from kafkad.processes.turns import Turns
from kafkad.wire.api_table import APIS
from kafkad.wire.framing import response_head
from kafkad.wire.primitives import MalformedRequest

Steps = Generator[bool, None, bytes | None]
"""As those of a handler; without a body at the end the answer comes some other way."""


class Answers:
    """Sends single replies, and keeps the requests that wait for a manifest."""

    def __init__(
        self,
        view: BrokerView,
        answered: Callable[[Connection], None],
        refused: Callable[[Connection, str], None],
        turns: Turns,
    ) -> None:
        self._view = view
        self._answered = answered
        self._refused = refused
        self._turns = turns
        self._parked: dict[Connection, tuple[Iterator[None], int]] = {}

    def open(self, connection: Connection, frame: Frame, now_ms: int) -> Reply:
        """Take the next place in the order of replies; until it is answered only what `lane_of` allows begins."""
        reply = Reply(connection, frame.header, now_ms)
        connection.replies.append(reply)
        connection.begin(frame.lane)
        return reply

    def send(self, reply: Reply, body: bytes) -> None:
        connection, header = reply.connection, reply.header
        connection.ended()
        if connection.closed:
            return
        reply.pieces = (response_head(header.api_key, header.version, header.correlation_id, len(body)) + body,)
        self._answered(connection)

    def answer_locally(self, handler: LocalHandler, connection: Connection, frame: Frame, now_ms: int) -> None:
        """Run `handler` now, or begin to. Raises MalformedRequest."""
        reply = self.open(connection, frame, now_ms)
        self._view.advertised = connection.advertised
        answer = handler(frame.view[frame.header.body_at :], frame.header.version, self._view)
        if isinstance(answer, bytes):
            self.send(reply, answer)
        else:
            self.run(answer, reply, len(frame.view))

    def run(self, steps: Steps, reply: Reply, size: int) -> None:
        """Take the first step now, and the others in turn: `size` is that of the request. Raises MalformedRequest."""
        self._view.advertised = reply.connection.advertised
        try:
            waits = next(steps)
        except StopIteration as end:
            self._end(reply, end.value)
            return
        self._later(self._go_on(steps, reply, size), reply, size, waits=waits)

    def _go_on(self, steps: Steps, reply: Reply, size: int) -> Iterator[None]:
        """The steps after the first."""
        connection = reply.connection
        while not connection.closed:
            self._view.advertised = connection.advertised
            try:
                waits = next(steps)
            except StopIteration as end:
                self._end(reply, end.value)
                return
            except MalformedRequest as error:
                name, version = APIS[reply.header.api_key].name, reply.header.version
                self._refused(connection, f"a malformed {name} request (version {version}): {error}")
                return
            if waits:
                self._later(self._go_on(steps, reply, size), reply, size, waits=True)
                return
            yield

    def _later(self, work: Iterator[None], reply: Reply, size: int, *, waits: bool) -> None:
        if waits:
            self._parked[reply.connection] = (work, size)
        else:
            self._turns.add(size, work)

    def _end(self, reply: Reply, body: bytes | None) -> None:
        if body is not None:
            self.send(reply, body)

    def manifest_arrived(self) -> None:
        parked, self._parked = self._parked, {}
        for work, size in parked.values():
            self._turns.add(size, work)

    def connection_lost(self, connection: Connection) -> None:
        self._parked.pop(connection, None)
