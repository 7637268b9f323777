"""Requests of groups and transactions: they are forwarded to the workers that own the internal partitions.

A request may wait there for minutes (JoinGroup); here it only keeps its place in the order of replies. When a worker
dies, its requests get a retriable error code, as after the failure of a broker.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.coordinators.requests import routing
from kafkad.handlers.coordinators.requests.apis_of_coordinators import COORDINATED
from kafkad.handlers.coordinators.requests.routing import Piece
from kafkad.handlers.partitions.partition_routes import Routing
from kafkad.processes.network.connections.connection import Connection, Reply
from kafkad.processes.network.connections.frames import Frame
from kafkad.processes.network.responses import Responses
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.runtime.turns import Turns
from kafkad.wire.kio_codec import codec
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.coordinator_messages import CoordinatorReply, CoordinatorRequest, pack_coordination

MAX_UNANSWERED = 16
"""The limit of pieces in flight, for all requests in pieces: other requests wait in the ring behind this many only."""
_Pieces = Iterator[tuple[int, Piece, tuple[int, int]]]


class _Open:
    """A pending request, in pieces; `responses` are filled in as they arrive."""

    __slots__ = ("parts", "reply", "responses", "waiting_for")

    def __init__(self, reply: Reply, pieces: int) -> None:
        self.reply = reply
        self.responses: list[bytes] = [b""] * pieces
        self.parts: list[int] = []
        self.waiting_for = pieces


class _Part:
    __slots__ = ("at", "body", "opened", "worker")

    def __init__(self, opened: _Open, at: int, worker: int, body: bytes | None) -> None:
        self.opened = opened
        self.at = at
        self.worker = worker
        self.body = body


class CoordinatorRequests:
    """`workers` are the owners of the coordinators, by index."""

    def __init__(
        self,
        responses: Responses,
        routes: Routing,
        sender: Sender,
        workers: Sequence[ProcessKey],
        turns: Turns,
    ) -> None:
        self._responses = responses
        self._routes = routes
        self._sender = sender
        self._workers = workers
        self._turns = turns
        self._next_part = 1
        self._parts: dict[int, _Part] = {}
        self._by_connection: dict[Connection, dict[_Open, None]] = {}
        self._unanswered: dict[int, int] = {}
        """The worker of each piece in flight, also of requests with closed connections."""
        self._paused: deque[tuple[_Open, _Pieces]] = deque()
        """Requests in pieces that continue when the worker has responded to others."""

    def __len__(self) -> int:
        return len(self._parts)

    def start(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """Pass the request to its coordinators. Raises MalformedRequest."""
        key, version, body = context.api_key, context.version, frame.body
        route = self._routes.by_name.get(routing.topic_of(key))
        partitions = 0 if route is None else len(route.slots)
        name = COORDINATED[key].name
        pieces = routing.split(key, name, version, body, partitions)
        if route is not None and routing.is_for_all_shards(key):
            pieces = [piece for piece in pieces if route.place(piece.partition)[1] >= 0]
        kept = [routing.body_to_keep(key, name, version, piece) for piece in pieces]
        opened = _Open(self._responses.open(connection, frame, context), len(pieces))
        self._by_connection.setdefault(connection, {})[opened] = None
        parts = []
        for at, piece in enumerate(pieces):
            slot, worker = (-1, -1) if route is None else route.place(piece.partition)
            short_id = 0 if route is None else route.short_id
            part_id = self._next_part
            self._next_part += 1
            self._parts[part_id] = _Part(opened, at, worker, kept[at])
            opened.parts.append(part_id)
            parts.append((part_id, piece, (slot, short_id)))
        if not parts:
            self._finish(opened)
            return
        sending = self._send_some(opened, iter(parts))
        for _ in sending:
            self._turns.add(len(body), sending)
            return

    def _send_some(self, opened: _Open, left: _Pieces) -> Iterator[None]:
        """Send the remaining pieces in order. Yields after each piece that had to be encoded; stops when too many are
        in flight."""
        context = opened.reply.context
        is_in_pieces = len(opened.responses) > 1
        for row in left:
            part_id, piece, place = row
            part = self._parts.get(part_id)
            if part is None:
                continue
            if is_in_pieces and len(self._unanswered) >= MAX_UNANSWERED:
                self._paused.append((opened, chain((row,), left)))
                return
            if callable(piece.body):
                encoded = self._responses.attempt(opened.reply, piece.body)
                if encoded is None:
                    continue
                body = part.body = encoded
            else:
                body = piece.body
            request = pack_coordination(CoordinatorRequest(part_id, *place, context, body))
            if is_in_pieces:
                self._unanswered[part_id] = part.worker
            if part.worker < 0 or not self._sender.send(self._workers[part.worker], request):
                self._fail_part(part_id, routing.code_when_lost(context.api_key))
            if callable(piece.body):
                yield
        self._resume()

    def _part_completed(self, part_id: int) -> None:
        """The worker has completed this piece, or has died."""
        if self._unanswered.pop(part_id, None) is not None:
            self._resume()

    def _resume(self) -> None:
        """Continue the next paused request if pieces may be sent."""
        if self._paused and len(self._unanswered) < MAX_UNANSWERED:
            opened, left = self._paused.popleft()
            self._turns.add(len(opened.parts), self._send_some(opened, left))

    def reject(self, connection: Connection, frame: Frame, context: RequestContext, code: ErrorCode) -> None:
        """Reject the request with `code`, without a coordinator. Raises MalformedRequest."""
        api = COORDINATED[context.api_key]
        request = codec(api.name, context.version).decode(frame.body)
        reply = self._responses.open(connection, frame, context)
        self._responses.send_result(reply, partial(api.module.reject, request, context.version, code))

    def handle(self, message: CoordinatorReply) -> None:
        """Handle a response; it is ignored if its request was removed."""
        self._part_completed(message.part_id)
        part = self._parts.pop(message.part_id, None)
        if part is None:
            return
        if message.body is None:
            self._responses.fail(part.opened.reply, MalformedRequest(message.reason))
        else:
            self._complete_part(part, message.body)

    def worker_lost(self, worker: int) -> None:
        """The worker died: its requests get a retriable code. Clients retry with the new coordinator."""
        for part_id in [part_id for part_id, owner in self._unanswered.items() if owner == worker]:
            self._part_completed(part_id)
        for part_id in [part_id for part_id, part in self._parts.items() if part.worker == worker]:
            part = self._parts.get(part_id)
            if part is not None:
                self._fail_part(part_id, routing.code_when_lost(part.opened.reply.context.api_key))

    def connection_closed(self, connection: Connection) -> None:
        for opened in list(self._by_connection.get(connection, ())):
            self._forget(opened)

    def respond_to_all(self) -> None:
        """The broker stops: requests that wait for other members of a group get NOT_COORDINATOR."""
        for part_id in list(self._parts):
            if part_id in self._parts and self._parts[part_id].opened.reply.context.api_key in routing.WAITING:
                self._fail_part(part_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _fail_part(self, part_id: int, code: ErrorCode) -> None:
        part = self._parts.pop(part_id)
        if part.body is None:
            # The piece was not encoded yet: `_send_some` rejects it later.
            self._parts[part_id] = part
            return
        self._part_completed(part_id)
        body = self._responses.attempt(
            part.opened.reply, partial(_rejected, part.body, part.opened.reply.context, code)
        )
        if body is not None:
            self._complete_part(part, body)

    def _complete_part(self, part: _Part, body: bytes) -> None:
        opened = part.opened
        opened.responses[part.at] = body
        opened.waiting_for -= 1
        if opened.waiting_for == 0:
            self._finish(opened)

    def _finish(self, opened: _Open) -> None:
        self._forget(opened)
        context = opened.reply.context
        name = COORDINATED[context.api_key].name
        merge = partial(routing.merge, context.api_key, name, context.version, opened.responses)
        self._responses.send_result(opened.reply, merge)

    def _forget(self, opened: _Open) -> None:
        for part_id in opened.parts:
            self._parts.pop(part_id, None)
        connection = opened.reply.connection
        others = self._by_connection.get(connection)
        if others is not None:
            others.pop(opened, None)
            if not others:
                del self._by_connection[connection]


def _rejected(body: bytes, context: RequestContext, code: ErrorCode) -> bytes:
    api = COORDINATED[context.api_key]
    return api.module.reject(codec(api.name, context.version).decode(memoryview(body)), context.version, code)
