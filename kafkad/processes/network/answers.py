"""Requests that are answered once and alone: from here, or by the controller, or by the owners of partitions.

Each has its place in its connection's order of replies, and nothing but its own lane starts on the connection before
it is answered. A controller or worker that dies is answered for with a retriable error, or the request is sent again.
"""

from collections.abc import Callable
from typing import Protocol

from kafkad.handlers.view import BrokerView, NotYet
from kafkad.processes.network.connection import JOINED_BYTES, Connection, Frame, Reply
from kafkad.processes.network.unread_replies import UnreadReplies
from kafkad.wire.framing import response_head


class Local(Protocol):
    """A handler that needs nobody else. Raises `NotYet` and is run again, and MalformedRequest."""

    def __call__(self, body: memoryview, version: int, view: BrokerView) -> bytes: ...


class Answers:
    """Sends single replies, and keeps the requests that wait for a manifest."""

    def __init__(
        self,
        view: BrokerView,
        answered: Callable[[Connection], None],
        unread: UnreadReplies,
    ) -> None:
        self._view = view
        self._answered = answered
        self._unread = unread
        self._parked: dict[Connection, tuple[Local, Frame, Reply]] = {}

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
        head = response_head(header.api_key, header.version, header.correlation_id, len(body))
        size = len(head) + len(body)
        # A large body may be kept for others who ask the same: it is not copied.
        connection.answer(reply, (head + body,) if size <= JOINED_BYTES else (head, body), size)
        self._unread.made(size)
        self._answered(connection)

    def answer_locally(self, handler: Local, connection: Connection, frame: Frame, now_ms: int) -> None:
        """Run `handler` now, or again when a manifest has come. Raises MalformedRequest."""
        self._try(handler, frame, self.open(connection, frame, now_ms))

    def _try(self, handler: Local, frame: Frame, reply: Reply) -> None:
        self._view.advertised = reply.connection.advertised
        try:
            body = handler(frame.view[frame.header.body_at :], frame.header.version, self._view)
        except NotYet:
            self._parked[reply.connection] = (handler, frame, reply)
            return
        self.send(reply, body)

    def manifest_arrived(self) -> None:
        parked, self._parked = self._parked, {}
        for handler, frame, reply in parked.values():
            self._try(handler, frame, reply)

    def connection_lost(self, connection: Connection) -> None:
        self._parked.pop(connection, None)
