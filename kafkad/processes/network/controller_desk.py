"""The network process and the controller: requests it answers, topics it creates on demand, the metadata it sends."""

from collections.abc import Callable

from kafkad.core.errors import ErrorCode
from kafkad.processes.network.answers import Answers
from kafkad.processes.network.connection import Connection, Frame, Reply
from kafkad.wire.controller_messages import (
    AdminReply,
    AdminRequest,
    AutoCreated,
    AutoCreateWanted,
    ControllerMessage,
    SnapshotWanted,
    pack_message,
)

CreatedTopics = Callable[[dict[str, int]], None]
"""Called with the error code of each topic that was asked for."""


class ControllerDesk:
    """What this process has asked the controller and not heard of yet.

    Nothing is lost when the controller is replaced: every open question is put to the new life again. All of
    them may be asked twice, as creating what is there already has its own answer.
    """

    def __init__(self, answers: Answers, refused: Callable[[Connection, str], None]) -> None:
        self._answers = answers
        self._refused = refused
        self._send: Callable[[bytes], None] | None = None
        self._next_token = 1
        self._requests: dict[int, tuple[Reply, bytes]] = {}
        self.held_bytes = 0
        """The size of the requests that are not answered."""
        self._asked_again: set[int] = set()
        self._creations: dict[int, tuple[CreatedTopics, bytes, frozenset[str]]] = {}

    def connected(self, send: Callable[[bytes], None], have_version: int) -> None:
        """There is a link to a (new) life of the controller."""
        self._send = send
        send(pack_message(SnapshotWanted(have_version)))
        for token in [token for token in self._requests if token in self._asked_again]:
            # It saw two lives of the controller end: it may be what ends them.
            reply = self._taken(token)
            assert reply is not None
            self._refused(reply.connection, "the controller ended twice while it answered this request")
        self._asked_again = set(self._requests)
        for _reply, message in self._requests.values():
            send(message)
        for _done, message, _names in self._creations.values():
            send(message)

    def disconnected(self) -> None:
        self._send = None

    def ask_snapshot(self, have_version: int) -> None:
        if self._send is not None:
            self._send(pack_message(SnapshotWanted(have_version)))

    def tell(self, message: ControllerMessage) -> None:
        """Say something that needs no answer; a controller that is being replaced finds out by itself."""
        if self._send is not None:
            self._send(pack_message(message))

    def forward(self, connection: Connection, frame: Frame, now_ms: int) -> None:
        """Let the controller answer."""
        header = frame.header
        reply = self._answers.open(connection, frame, now_ms)
        token = self._token()
        body = bytes(frame.view[header.body_at :])
        message = pack_message(
            AdminRequest(token, header.api_key, header.version, header.client_id, connection.peer, body)
        )
        self._requests[token] = (reply, message)
        self.held_bytes += len(message)
        if self._send is not None:
            self._send(message)

    def create_topics(self, names: frozenset[str], done: CreatedTopics) -> None:
        """Have topics created that a Metadata request named; identical questions under way are asked once."""
        for token, (earlier, message, asked) in self._creations.items():
            if asked == names:
                self._creations[token] = (_both(earlier, done), message, asked)
                return
        token = self._token()
        message = pack_message(AutoCreateWanted(token, sorted(names)))
        self._creations[token] = (done, message, names)
        if self._send is not None:
            self._send(message)

    def heard(self, message: ControllerMessage) -> None:
        """An answer. One to a question nobody has any more (asked twice) is ignored."""
        match message:
            case AdminReply(token, body, reason):
                reply = self._taken(token)
                if reply is None:
                    return
                if body is None:
                    self._refused(reply.connection, reason)
                else:
                    self._answers.send(reply, body)
            case AutoCreated(token, errors):
                waiting = self._creations.pop(token, None)
                if waiting is not None:
                    waiting[0](errors)
            case _:
                raise AssertionError(f"a controller does not say {type(message).__name__}")

    def _taken(self, token: int) -> Reply | None:
        reply, message = self._requests.pop(token, (None, b""))
        self.held_bytes -= len(message)
        return reply

    def _token(self) -> int:
        self._next_token += 1
        return self._next_token

    def fail_creations(self) -> None:
        """The broker stops: nobody will create these topics."""
        for done, _message, names in self._creations.values():
            done(dict.fromkeys(names, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        self._creations.clear()


def _both(first: CreatedTopics, second: CreatedTopics) -> CreatedTopics:
    def both(errors: dict[str, int]) -> None:
        first(errors)
        second(errors)

    return both
