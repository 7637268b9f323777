"""Requests of the network process to the controller: client requests, and topics to be auto-created.

A request is sent to the next incarnation of the controller, except the one that the controller was handling when it
died: that one gets an error.
"""

import logging
from collections.abc import Callable, Iterable
from time import monotonic_ns

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
"""A live controller usually answers sooner. Only after this time are the deadlines of its requests looked at."""
UNKNOWN_MS = float("inf")
LARGE_BYTES = 64 * 1024
"""A larger request is not decoded for its timeout, but waits as long as any, and its connection is closed then."""
CREATION_MS = 10_000
"""How long a request that needs a new topic waits for a controller; then its client retries."""
_TOKEN_BITS = 32


class _Question:
    """An open request. `deadline_ms` is known while there is no controller, or a slow one."""

    __slots__ = ("asked_ms", "deadline_ms", "message", "names", "reply", "waiting")

    def __init__(self, message: bytes, asked_ms: int, reply: Reply | None, names: frozenset[str]) -> None:
        self.message = message
        self.asked_ms = asked_ms
        self.reply = reply
        """Set for a client request that the controller answers; otherwise these topics are created:"""
        self.names = names
        self.waiting: list[tuple[Connection, CreatedTopics]] = []
        self.deadline_ms: float = UNKNOWN_MS


class ControllerRequests:
    """The open requests of this process to the controller.

    When the controller is replaced, open requests within their timeouts are sent again to the new incarnation. Each may
    be sent twice, as creating an existing topic has its own error code. Requests of closed connections are not sent
    again. Nor is the one that the dead controller was handling, as `handled` says: its client gets an error, and no
    second controller can die of it.
    """

    def __init__(
        self,
        answers: Responses,
        refused: Callable[[Connection, str], None],
        handled: Callable[[], Iterable[int]],
        incarnation: int,
    ) -> None:
        """`incarnation` of this process: the tokens of its requests are not those of an earlier one."""
        self._answers = answers
        self._refused = refused
        self._handled = handled
        self._send: Callable[[bytes], None] | None = None
        self._is_last = False
        """The broker stops: no other controller will start."""
        self._next_token = incarnation << _TOKEN_BITS
        self._questions: dict[int, _Question] = {}
        self._creations: dict[frozenset[str], int] = {}
        """Tokens of open requests for topics: identical ones are sent once."""
        self._undated: dict[int, None] = {}
        """Tokens of requests whose deadlines are to be found out: a few milliseconds of that in each pass."""
        self._by_connection: dict[Connection, set[int]] = {}
        self._look_ms = 0
        """With a controller there: when to look who waits for it."""
        self.held_bytes = 0
        """The total size of the open requests."""

    def connected(self, send: Callable[[bytes], None], now_ms: int) -> None:
        """There is a link to a (new) incarnation of the controller."""
        if self._send is not None:
            self.disconnected()
        self.expire(now_ms)
        self._send = send
        self._look_ms = now_ms + SLOW_MS
        for question in self._questions.values():
            send(question.message)

    def disconnected(self) -> None:
        """The controller has died; the next incarnation mostly comes at once."""
        self._send = None
        for token in self._handled():
            self._interrupt(token)
        if self._is_last:
            for token in list(self._questions):
                self._time_out(token)
        self._undate(lambda _question: True)

    @property
    def next_deadline_ms(self) -> float | None:
        """When `expire` has work to do: a request waits no longer than its timeout, whatever the controller does."""
        if not self._questions:
            return None
        if self._undated:
            return 0
        if self._send is not None:
            return self._look_ms
        return min(question.deadline_ms for question in self._questions.values())

    def expire(self, now_ms: int) -> None:
        """Answer requests whose timeout is over.

        They are not carried out later, unless a controller has received them.
        """
        end_ns = monotonic_ns() + STEP_NS
        over_ms = now_ms
        if self._send is not None:
            if not self._undated:
                if now_ms < self._look_ms:
                    return
                self._look_ms = now_ms + SLOW_MS
                asked_ms = now_ms - SLOW_MS
                self._undate(lambda question: question.asked_ms <= asked_ms)
            # The controller keeps to the timeout as well, and its answer says more.
            over_ms -= SLOW_MS
        while self._undated and monotonic_ns() < end_ns:
            token = next(iter(self._undated))
            del self._undated[token]
            self._note_deadline(token, self._questions[token])
        for token in [token for token, question in self._questions.items() if question.deadline_ms <= over_ms]:
            if monotonic_ns() >= end_ns:
                self._look_ms = now_ms
                break
            self._time_out(token)

    def _undate(self, is_meant: Callable[[_Question], bool]) -> None:
        self._undated.update(
            (token, None)
            for token, question in self._questions.items()
            if question.deadline_ms == UNKNOWN_MS and is_meant(question)
        )

    def connection_lost(self, connection: Connection) -> None:
        for token in self._by_connection.pop(connection, ()):
            question = self._questions[token]
            question.waiting = [row for row in question.waiting if row[0] is not connection]
            if not question.waiting:
                self._taken(token)

    def forward(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """Let the controller answer."""
        reply = self._answers.open(connection, frame, context)
        token = self._token()
        message = pack_message(AdminRequest(token, context, bytes(frame.body)))
        self._by_connection.setdefault(connection, set()).add(token)
        self._ask(token, _Question(message, context.received_ms, reply, frozenset()))

    def create_topics(self, connection: Connection, names: frozenset[str], done: CreatedTopics, now_ms: int) -> None:
        """Ask for the topics that a request on `connection` needs; identical open requests are sent once."""
        known = self._creations.get(names)
        token = self._token() if known is None else known
        self._by_connection.setdefault(connection, set()).add(token)
        if known is not None:
            self._questions[known].waiting.append((connection, done))
            return
        self._creations[names] = token
        question = _Question(pack_message(AutoCreateRequest(token, sorted(names))), now_ms, None, names)
        question.waiting.append((connection, done))
        self._ask(token, question)

    def _ask(self, token: int, question: _Question) -> None:
        self._questions[token] = question
        self.held_bytes += len(question.message)
        if self._send is not None:
            if len(self._questions) == 1:
                self._look_ms = question.asked_ms + SLOW_MS
            self._send(question.message)
        elif self._is_last:
            self._time_out(token)
        else:
            self._note_deadline(token, question)

    def handle(self, message: ControllerMessage) -> None:
        """Take an answer. One to a closed request (sent twice, or given up) is ignored."""
        match message:
            case AdminReply(token, body, reason):
                question = self._taken(token)
                if question is None:
                    return
                assert question.reply is not None
                if body is None:
                    self._refused(question.reply.connection, reason)
                else:
                    self._answers.send(question.reply, body)
            case AutoCreated(token, errors):
                question = self._taken(token)
                for _connection, done in question.waiting if question is not None else ():
                    done(errors)
            case _:
                raise AssertionError(f"a controller does not say {type(message).__name__}")

    def _note_deadline(self, token: int, question: _Question) -> None:
        """The request is decoded only now: mostly the controller decodes it first."""
        if question.reply is None:
            question.deadline_ms = float(question.asked_ms + CREATION_MS)
            return
        if len(question.message) > LARGE_BYTES:
            question.deadline_ms = float(question.asked_ms + LONGEST_MS)
            return
        request = _request_of(question)
        try:
            patience = timeout_of_ms(request.context.api_key, request.context.version, memoryview(request.body))
        except MalformedRequest as error:
            self._abandon(token, str(error))
            return
        question.deadline_ms = float(question.asked_ms + patience)

    def _time_out(self, token: int) -> None:
        question = self._taken(token)
        if question is None:
            return
        if question.reply is None:
            _refuse_creation(question)
            return
        self._answer(question, question.reply, timed_out, "no controller process took the request in time")

    def _interrupt(self, token: int) -> None:
        """The controller died while it handled this request."""
        question = self._taken(token)
        if question is None:
            return
        if question.reply is None:
            first = logged(min(question.names))
            log.error("the controller ended while it created %d topic(s), %s first", len(question.names), first)
            _refuse_creation(question)
            return
        context = question.reply.context
        reason = f"the controller ended while it handled {APIS[context.api_key].name} (version {context.version})"
        log.error("%s: %s", question.reply.connection.peer, reason)
        self._answer(question, question.reply, interrupted, reason)

    def _answer(
        self, question: _Question, reply: Reply, make: Callable[[int, int, memoryview], bytes], reason: str
    ) -> None:
        """The answer that `make` gives, or a closed connection with this reason."""
        request = _request_of(question)
        if is_between_brokers(request.context.api_key) or len(question.message) > LARGE_BYTES:
            self._refused(reply.connection, reason)
            return
        try:
            body = make(request.context.api_key, request.context.version, memoryview(request.body))
        except (MalformedRequest, UnencodableMessage) as error:
            self._refused(reply.connection, str(error))
            return
        self._answers.send(reply, body)

    def _abandon(self, token: int, reason: str) -> None:
        question = self._taken(token)
        if question is None:
            return
        if question.reply is None:
            _refuse_creation(question)
        else:
            self._refused(question.reply.connection, reason)

    def _taken(self, token: int) -> _Question | None:
        question = self._questions.pop(token, None)
        if question is None:
            return None
        self._undated.pop(token, None)
        self.held_bytes -= len(question.message)
        connections = [connection for connection, _ in question.waiting]
        if question.reply is None:
            del self._creations[question.names]
        else:
            connections.append(question.reply.connection)
        for connection in connections:
            tokens = self._by_connection.get(connection)
            if tokens is not None:
                tokens.discard(token)
                if not tokens:
                    del self._by_connection[connection]
        return question

    def _token(self) -> int:
        self._next_token += 1
        return self._next_token

    def end(self) -> None:
        """The broker stops: requested topics are not created any more, and no other controller comes."""
        self._is_last = True
        for token in list(self._creations.values()):
            self._abandon(token, "")
        if self._send is None:
            self.disconnected()


def _request_of(question: _Question) -> AdminRequest:
    request = unpack_message(question.message)
    assert isinstance(request, AdminRequest)
    return request


def _refuse_creation(question: _Question) -> None:
    errors = dict.fromkeys(question.names, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    for _connection, done in question.waiting:
        done(errors)
