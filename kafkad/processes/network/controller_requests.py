"""The network process and the controller: requests it answers, topics it creates on demand, the metadata it sends."""

from collections.abc import Callable

from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.timeouts import patience_ms, timed_out
from kafkad.processes.network.answers import Answers
from kafkad.processes.network.connections.connection import Connection, Frame, Reply
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.controller_messages import (
    AdminReply,
    AdminRequest,
    AutoCreated,
    AutoCreateWanted,
    ControllerMessage,
    SnapshotWanted,
    pack_message,
    unpack_message,
)

CreatedTopics = Callable[[dict[str, int]], None]
"""Called with the error code of each topic that was asked for."""
CREATION_MS = 10_000
"""How long whoever wants a topic made waits for a controller: it asks again."""
MOST_INCARNATIONS = 2
_KILLER = "the controller ended twice while it answered this request"


class _Question:
    """What was asked and is not answered. `deadline_ms` is known while there is no controller."""

    __slots__ = ("asked_ms", "deadline_ms", "incarnations", "message", "names", "reply", "waiting")

    def __init__(self, message: bytes, asked_ms: int, reply: Reply | None, names: frozenset[str]) -> None:
        self.message = message
        self.asked_ms = asked_ms
        self.reply = reply
        """Of a request that the controller answers; otherwise these are topics to be made:"""
        self.names = names
        self.waiting: list[tuple[Connection, CreatedTopics]] = []
        self.deadline_ms = 0
        self.incarnations = 0
        """How many of the controller it was put to."""


class ControllerRequests:
    """What this process has asked the controller and not heard of yet.

    Nothing is lost when the controller is replaced: every open question whose time is not over is put to the new
    incarnation again. All of them may be asked twice, as creating what is there already has its own answer. Nobody
    waits for what a connection asked that is gone: it is not asked again.
    """

    def __init__(self, answers: Answers, refused: Callable[[Connection, str], None]) -> None:
        self._answers = answers
        self._refused = refused
        self._send: Callable[[bytes], None] | None = None
        self._is_last = False
        """No other controller will come."""
        self._next_token = 1
        self._questions: dict[int, _Question] = {}
        self._creations: dict[frozenset[str], int] = {}
        """Tokens of questions for topics: identical ones are asked once."""
        self._by_connection: dict[Connection, set[int]] = {}
        self.held_bytes = 0
        """The size of the questions that are not answered."""

    def connected(self, send: Callable[[bytes], None], have_version: int, now_ms: int) -> None:
        """There is a link to a (new) incarnation of the controller."""
        if self._send is not None:
            self.disconnected()
        send(pack_message(SnapshotWanted(have_version)))
        self.expire(now_ms)
        self._send = send
        for token, question in list(self._questions.items()):
            if question.incarnations == MOST_INCARNATIONS:
                # It saw them all end: it may be what ends them.
                self._give_up(token, _KILLER)
        for question in self._questions.values():
            self._put(question, send)

    def disconnected(self) -> None:
        """The controller is gone; another incarnation of it comes as a rule at once."""
        self._send = None
        for token, question in list(self._questions.items()):
            self._wait(token, question)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `expire` has work to do: nobody waits for a controller that is not there longer than he said."""
        if self._send is not None or not self._questions:
            return None
        return min(question.deadline_ms for question in self._questions.values())

    def expire(self, now_ms: int) -> None:
        """Answer those whose time is over; what was asked is not done any more, unless the last incarnation did it."""
        if self._send is None:
            late = [token for token, question in self._questions.items() if question.deadline_ms <= now_ms]
            for token in late:
                self._time_out(token)

    def connection_lost(self, connection: Connection) -> None:
        for token in self._by_connection.pop(connection, ()):
            question = self._questions[token]
            question.waiting = [row for row in question.waiting if row[0] is not connection]
            if not question.waiting:
                self._taken(token)

    def ask_snapshot(self, have_version: int) -> None:
        if self._send is not None:
            self._send(pack_message(SnapshotWanted(have_version)))

    def tell(self, message: ControllerMessage) -> None:
        """Say something that needs no answer; a controller that is being replaced finds out by itself."""
        if self._send is not None:
            self._send(pack_message(message))

    def forward(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """Let the controller answer."""
        reply = self._answers.open(connection, frame, context)
        token = self._token()
        message = pack_message(AdminRequest(token, context, bytes(frame.body)))
        self._by_connection.setdefault(connection, set()).add(token)
        self._ask(token, _Question(message, context.received_ms, reply, frozenset()))

    def create_topics(self, connection: Connection, names: frozenset[str], done: CreatedTopics, now_ms: int) -> None:
        """Have topics created that a request on `connection` named; identical questions under way are asked once."""
        known = self._creations.get(names)
        token = self._token() if known is None else known
        self._by_connection.setdefault(connection, set()).add(token)
        if known is not None:
            self._questions[known].waiting.append((connection, done))
            return
        self._creations[names] = token
        question = _Question(pack_message(AutoCreateWanted(token, sorted(names))), now_ms, None, names)
        question.waiting.append((connection, done))
        self._ask(token, question)

    def _ask(self, token: int, question: _Question) -> None:
        self._questions[token] = question
        self.held_bytes += len(question.message)
        if self._send is not None:
            self._put(question, self._send)
        else:
            self._wait(token, question)

    def _put(self, question: _Question, send: Callable[[bytes], None]) -> None:
        question.incarnations += 1
        send(question.message)

    def heard(self, message: ControllerMessage) -> None:
        """An answer. One to a question nobody has any more (asked twice, or given up) is ignored."""
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

    def _wait(self, token: int, question: _Question) -> None:
        """For another controller, if one will come."""
        self._note_deadline(token, question)
        if self._is_last:
            self._time_out(token)

    def _note_deadline(self, token: int, question: _Question) -> None:
        """Only now is the request looked into: mostly there is a controller, which does."""
        if question.reply is None:
            question.deadline_ms = question.asked_ms + CREATION_MS
            return
        request = _request_of(question)
        try:
            patience = patience_ms(request.context.api_key, request.context.version, memoryview(request.body))
        except MalformedRequest as error:
            self._give_up(token, str(error))
            return
        question.deadline_ms = question.asked_ms + patience

    def _time_out(self, token: int) -> None:
        question = self._taken(token)
        if question is None:
            return
        if question.reply is None:
            _refuse_creation(question)
            return
        request = _request_of(question)
        body = timed_out(request.context.api_key, request.context.version, memoryview(request.body))
        self._answers.send(question.reply, body)

    def _give_up(self, token: int, reason: str) -> None:
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
        """The broker stops: topics that somebody has named are not made any more, and no other controller comes."""
        self._is_last = True
        for token in list(self._creations.values()):
            self._give_up(token, "")
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
