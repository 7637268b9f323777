"""Requests of the network process to the controller: client requests, and topics to be auto-created.

When the controller process dies, pending requests are sent to its next incarnation. Only the request that it was
handling gets an error.
"""

import logging
from collections.abc import Callable
from time import monotonic_ns

from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry
from kafkad.core.errors import ErrorCode
from kafkad.core.quoting import logged
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.timeouts import (
    LONGEST_MS,
    interrupted,
    is_between_brokers,
    timed_out,
    timeout_of_ms,
)
from kafkad.processes.network.connections.clients import Clients
from kafkad.processes.network.connections.connection import Connection, Reply
from kafkad.processes.network.connections.frames import Frame
from kafkad.processes.network.responses import Responses
from kafkad.processes.runtime.turns import STEP_NS
from kafkad.wire.api_table import APIS
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage
from kafkad.wire.processes.controller_messages import (
    AdminReply,
    AdminRequest,
    AutoCreated,
    AutoCreateRequest,
    ControllerMessage,
    pack_message,
    unpack_message,
)

log = logging.getLogger(__name__)

CreatedTopics = Callable[[dict[str, int]], None]
"""Called with the error code of each requested topic."""
SLOW_MS = 1_000
"""The controller usually responds sooner. Deadlines are checked only after this time."""
UNKNOWN_MS = float("inf")
LARGE_BYTES = 64 * 1024
"""A larger request is not decoded for its timeout: it gets the longest timeout, and then its connection is closed."""
CREATION_MS = 10_000
"""The timeout of auto-creation for the waiting request; then its client retries."""
_TOKEN_BITS = 32


class _PendingRequest:
    """A pending request. `deadline_ms` is computed only while the controller is missing or slow."""

    __slots__ = ("deadline_ms", "message", "names", "reply", "requested_ms", "waiting")

    def __init__(self, message: bytes, requested_ms: int, reply: Reply | None, names: frozenset[str]) -> None:
        self.message = message
        self.requested_ms = requested_ms
        self.reply = reply
        """Set for a client request; None for an auto-creation of `names`."""
        self.names = names
        self.waiting: list[tuple[Connection, CreatedTopics]] = []
        self.deadline_ms: float = UNKNOWN_MS


class ControllerRequests:
    """The pending requests of this process to the controller.

    When the controller is replaced, pending requests within their timeouts are sent again to the new incarnation. A
    request may be handled twice, as creating an existing topic has its own error code. Requests of closed connections
    are not sent again. The request that the dead controller was handling is not sent again either: its client gets an
    error, because the request may have caused the crash.
    """

    def __init__(
        self,
        responses: Responses,
        clients: Clients,
        registry: ProcessRegistry,
        me: ProcessKey,
        incarnation: int,
    ) -> None:
        """`incarnation` of this process makes its tokens distinct from those of earlier incarnations."""
        self._responses = responses
        self._clients = clients
        self._registry = registry
        self._me = me
        self._send: Callable[[bytes], None] | None = None
        self._is_last = False
        """Whether the broker stops, so that no other controller will start."""
        self._next_token = incarnation << _TOKEN_BITS
        self._pending: dict[int, _PendingRequest] = {}
        self._creations: dict[frozenset[str], int] = {}
        """Tokens of pending auto-creations: identical ones are sent once."""
        self._undated: dict[int, None] = {}
        """Tokens of requests without a computed deadline: each pass computes some, for a few milliseconds."""
        self._by_connection: dict[Connection, set[int]] = {}
        self._check_ms = 0
        """With a controller: the time of the next deadline check."""
        self.held_bytes = 0
        """The total size of the pending requests."""

    def connected(self, send: Callable[[bytes], None], now_ms: int) -> None:
        """A link to a new incarnation of the controller is open."""
        if self._send is not None:
            self.disconnected()
        self.expire(now_ms)
        self._send = send
        self._check_ms = now_ms + SLOW_MS
        for pending in self._pending.values():
            send(pending.message)

    def disconnected(self) -> None:
        """The controller process has died. Usually the next incarnation starts at once."""
        self._send = None
        for token in self._registry.handled(self._me):
            self._interrupt(token)
        if self._is_last:
            for token in list(self._pending):
                self._time_out(token)
        self._undate(lambda _question: True)

    @property
    def next_deadline_ms(self) -> float | None:
        """When `expire` has work: requests are timed out here even if the controller hangs."""
        if not self._pending:
            return None
        if self._undated:
            return 0
        if self._send is not None:
            return self._check_ms
        return min(pending.deadline_ms for pending in self._pending.values())

    def expire(self, now_ms: int) -> None:
        """Respond to requests that have timed out.

        They are not handled later, unless a controller has received them.
        """
        end_ns = monotonic_ns() + STEP_NS
        expired_ms = now_ms
        if self._send is not None:
            if not self._undated:
                if now_ms < self._check_ms:
                    return
                self._check_ms = now_ms + SLOW_MS
                requested_ms = now_ms - SLOW_MS
                self._undate(lambda pending: pending.requested_ms <= requested_ms)
            # The controller applies the timeout as well, and its response has more detail.
            expired_ms -= SLOW_MS
        while self._undated and monotonic_ns() < end_ns:
            token = next(iter(self._undated))
            del self._undated[token]
            self._note_deadline(token, self._pending[token])
        for token in [token for token, pending in self._pending.items() if pending.deadline_ms <= expired_ms]:
            if monotonic_ns() >= end_ns:
                self._check_ms = now_ms
                break
            self._time_out(token)

    def _undate(self, is_meant: Callable[[_PendingRequest], bool]) -> None:
        self._undated.update(
            (token, None)
            for token, pending in self._pending.items()
            if pending.deadline_ms == UNKNOWN_MS and is_meant(pending)
        )

    def connection_closed(self, connection: Connection) -> None:
        for token in self._by_connection.pop(connection, ()):
            pending = self._pending[token]
            pending.waiting = [row for row in pending.waiting if row[0] is not connection]
            if not pending.waiting:
                self._remove(token)

    def forward(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """Forward a client request to the controller."""
        reply = self._responses.open(connection, frame, context)
        token = self._token()
        message = pack_message(AdminRequest(token, context, bytes(frame.body)))
        self._by_connection.setdefault(connection, set()).add(token)
        self._submit(token, _PendingRequest(message, context.received_ms, reply, frozenset()))

    def create_topics(self, connection: Connection, names: frozenset[str], done: CreatedTopics, now_ms: int) -> None:
        """Request the auto-creation of topics for a request on `connection`; identical requests are sent once."""
        existing = self._creations.get(names)
        token = self._token() if existing is None else existing
        self._by_connection.setdefault(connection, set()).add(token)
        if existing is not None:
            self._pending[existing].waiting.append((connection, done))
            return
        self._creations[names] = token
        pending = _PendingRequest(pack_message(AutoCreateRequest(token, sorted(names))), now_ms, None, names)
        pending.waiting.append((connection, done))
        self._submit(token, pending)

    def _submit(self, token: int, pending: _PendingRequest) -> None:
        self._pending[token] = pending
        self.held_bytes += len(pending.message)
        if self._send is not None:
            if len(self._pending) == 1:
                self._check_ms = pending.requested_ms + SLOW_MS
            self._send(pending.message)
        elif self._is_last:
            self._time_out(token)
        else:
            self._note_deadline(token, pending)

    def handle(self, message: ControllerMessage) -> None:
        """Handle a response. Responses to removed requests (sent twice, or aborted) are ignored."""
        match message:
            case AdminReply(token, body, reason):
                pending = self._remove(token)
                if pending is None:
                    return
                assert pending.reply is not None
                if body is None:
                    self._clients.close(pending.reply.connection, reason)
                else:
                    self._responses.send(pending.reply, body)
            case AutoCreated(token, errors):
                pending = self._remove(token)
                for _connection, done in pending.waiting if pending is not None else ():
                    done(errors)
            case _:
                raise AssertionError(f"a controller does not send {type(message).__name__}")

    def _note_deadline(self, token: int, pending: _PendingRequest) -> None:
        """Compute the deadline. The request is decoded for it only now, as usually the controller responds first."""
        if pending.reply is None:
            pending.deadline_ms = float(pending.requested_ms + CREATION_MS)
            return
        if len(pending.message) > LARGE_BYTES:
            pending.deadline_ms = float(pending.requested_ms + LONGEST_MS)
            return
        request = _request_of(pending)
        try:
            timeout_ms = timeout_of_ms(request.context.api_key, request.context.version, memoryview(request.body))
        except MalformedRequest as error:
            self._abandon(token, str(error))
            return
        pending.deadline_ms = float(pending.requested_ms + timeout_ms)

    def _time_out(self, token: int) -> None:
        pending = self._remove(token)
        if pending is None:
            return
        if pending.reply is None:
            _fail_creation(pending)
            return
        self._respond(pending, pending.reply, timed_out, "no controller process handled the request within its timeout")

    def _interrupt(self, token: int) -> None:
        """The controller died while it handled this request."""
        pending = self._remove(token)
        if pending is None:
            return
        if pending.reply is None:
            first = logged(min(pending.names))
            log.error("the controller died while it created %d topic(s), the first is %s", len(pending.names), first)
            _fail_creation(pending)
            return
        context = pending.reply.context
        reason = f"the controller died while it handled {APIS[context.api_key].name} (version {context.version})"
        log.error("%s: %s", pending.reply.connection.peer, reason)
        self._respond(pending, pending.reply, interrupted, reason)

    def _respond(
        self, pending: _PendingRequest, reply: Reply, make: Callable[[int, int, memoryview], bytes], reason: str
    ) -> None:
        """Send the response of `make`, or close the connection with this reason."""
        request = _request_of(pending)
        if is_between_brokers(request.context.api_key) or len(pending.message) > LARGE_BYTES:
            self._clients.close(reply.connection, reason)
            return
        try:
            body = make(request.context.api_key, request.context.version, memoryview(request.body))
        except (MalformedRequest, UnencodableMessage) as error:
            self._clients.close(reply.connection, str(error))
            return
        self._responses.send(reply, body)

    def _abandon(self, token: int, reason: str) -> None:
        pending = self._remove(token)
        if pending is None:
            return
        if pending.reply is None:
            _fail_creation(pending)
        else:
            self._clients.close(pending.reply.connection, reason)

    def _remove(self, token: int) -> _PendingRequest | None:
        pending = self._pending.pop(token, None)
        if pending is None:
            return None
        self._undated.pop(token, None)
        self.held_bytes -= len(pending.message)
        connections = [connection for connection, _ in pending.waiting]
        if pending.reply is None:
            del self._creations[pending.names]
        else:
            connections.append(pending.reply.connection)
        for connection in connections:
            tokens = self._by_connection.get(connection)
            if tokens is not None:
                tokens.discard(token)
                if not tokens:
                    del self._by_connection[connection]
        return pending

    def _token(self) -> int:
        self._next_token += 1
        return self._next_token

    def end(self) -> None:
        """The broker stops: abort auto-creations; no other controller will start."""
        self._is_last = True
        for token in list(self._creations.values()):
            self._abandon(token, "")
        if self._send is None:
            self.disconnected()


def _request_of(pending: _PendingRequest) -> AdminRequest:
    request = unpack_message(pending.message)
    assert isinstance(request, AdminRequest)
    return request


def _fail_creation(pending: _PendingRequest) -> None:
    errors = dict.fromkeys(pending.names, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    for _connection, done in pending.waiting:
        done(errors)
