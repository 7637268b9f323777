"""Requests that are answered once and alone: from here, or by the controller, or by the owners of partitions.

Each has its place in its connection's order of replies, and nothing but its own lane starts on the connection before
it is answered. A controller or worker that dies is answered for with a retriable error, or the request is sent again.
"""

from collections.abc import Callable
from typing import Protocol

from kafkad.handlers.view import BrokerView
from kafkad.processes.network.connection import Connection, Frame, Reply
from kafkad.wire.framing import response_head


class Local(Protocol):
    """A handler that needs nobody else. Raises MalformedRequest."""

    def __call__(self, body: memoryview, version: int, view: BrokerView) -> bytes: ...


class Answers:
    """Sends single replies."""

    def __init__(
        self,
        view: BrokerView,
        answered: Callable[[Connection], None],
    ) -> None:
        self._view = view
        self._answered = answered

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

    def answer_locally(self, handler: Local, connection: Connection, frame: Frame, now_ms: int) -> None:
        """Run `handler` now. Raises MalformedRequest."""
        header = frame.header
        reply = self.open(connection, frame, now_ms)
        self._view.advertised = connection.advertised
        self.send(reply, handler(frame.view[header.body_at :], header.version, self._view))
