"""The receiver of a coordinator's reply: a client behind a network process, or the broker itself.

Plain and slotted, because one is made for each request. Both have `reply` and `refuse`, of which one is called once.
When ten thousand members of a group are answered together, most answers are encoded in steps. One that can't be encoded
is replaced by UNKNOWN_SERVER_ERROR: what the request has changed is consistent by then, and its shard goes on.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.errors import ErrorCode
from kafkad.handlers.coordinators.requests.apis_of_coordinators import COORDINATED
from kafkad.handlers.coordinators.requests.routing import without_large_fields
from kafkad.handlers.requests.failures import log_failure
from kafkad.processes.runtime.turns import Turns
from kafkad.wire.api_table import unencodable
from kafkad.wire.primitives import UnencodableMessage
from kafkad.wire.processes.coordinator_messages import CoordinatorReply, CoordinatorRequest, pack_coordination
from kafkad.wire.steps import Reading

AT_ONCE = 100
"""Answers of one pass that are encoded at once: some two milliseconds."""
A_STEP = 20


class NetworkIncarnation:
    """A network process until it dies: the same ids mean other requests to the next one, which gets no old answers."""

    __slots__ = ("_peer", "_send", "is_dead")

    def __init__(self, send: Callable[[ProcessKey, bytes], object], peer: ProcessKey) -> None:
        self._send = send
        self._peer = peer
        self.is_dead = False

    def send(self, frame: bytes) -> None:
        if not self.is_dead:
            self._send(self._peer, frame)


class ClientResponse:
    """The reply is encoded for the request's API. `packing` encodes a large reply in steps."""

    __slots__ = ("_api", "_context", "_log_rate_limit", "_packing", "_part_id", "_request", "asker")

    def __init__(
        self,
        asker: NetworkIncarnation,
        message: CoordinatorRequest,
        request: Any,
        packing: Turns,
        log_rate_limit: LogRateLimit,
    ) -> None:
        self._packing = packing
        self._log_rate_limit = log_rate_limit
        self._part_id = message.part_id
        self._api = COORDINATED[message.context.api_key]
        self._context = message.context
        self._request = without_large_fields(message.context.api_key, request)
        self.asker: NetworkIncarnation | None = asker

    def reply(self, reply: object) -> None:
        version = self._context.version
        large = self._api.pack_in_steps(reply, version)
        if large is not None:
            size, packing = large
            self._packing.add(size, self._in_steps(packing))
            return
        try:
            body = self._api.module.pack(reply, version)
        except UnencodableMessage as error:
            self._answer_instead(error)
            return
        self._answer(body)

    def _in_steps(self, packing: Reading[bytes]) -> Iterator[None]:
        try:
            body = yield from packing
        except UnencodableMessage as error:
            self._answer_instead(error)
            return
        self._answer(body)

    def _answer_instead(self, error: UnencodableMessage) -> None:
        context = self._context
        log_failure(self._log_rate_limit, context, unencodable(context.api_key, context.version, error))
        self.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def refuse(self, code: ErrorCode) -> None:
        try:
            body = self._api.module.reject(self._request, self._context.version, code)
        except UnencodableMessage as error:
            self._answer(None, str(error))
            return
        self._answer(body)

    def _answer(self, body: bytes | None, reason: str = "") -> None:
        assert self.asker is not None
        self.asker.send(pack_coordination(CoordinatorReply(self._part_id, body, reason)))


class InternalResponse:
    """`reply` is called with the reply, or with the code of a refusal."""

    __slots__ = ("asker", "reply")

    def __init__(self, answered: Callable[[object], None]) -> None:
        self.asker: NetworkIncarnation | None = None
        self.reply = answered

    def refuse(self, code: ErrorCode) -> None:
        self.reply(code)


Answer = ClientResponse | InternalResponse


class PendingResponses:
    """The requests that wait, by token; the first answers of a pass are encoded at once, others in turn."""

    def __init__(self, send: Callable[[ProcessKey, bytes], object]) -> None:
        self._send = send
        self._pending: dict[int, Answer] = {}
        self._next_token = 1
        self._askers: dict[ProcessKey, NetworkIncarnation] = {}
        self._turns = Turns()
        """Replies that are too large, or too many, to be encoded at once."""
        self._line: deque[tuple[Answer, object]] = deque()
        self._left = AT_ONCE
        self.log_rate_limit = LogRateLimit()
        """About requests that failed."""

    @property
    def is_busy(self) -> bool:
        return bool(self._turns)

    def of_client(self, peer: ProcessKey, message: CoordinatorRequest, request: Any) -> ClientResponse:
        asker = self._askers.get(peer)
        if asker is None:
            asker = self._askers[peer] = NetworkIncarnation(self._send, peer)
        return ClientResponse(asker, message, request, self._turns, self.log_rate_limit)

    def add(self, answer: Answer) -> int:
        """Its token."""
        token = self._next_token
        self._next_token += 1
        self._pending[token] = answer
        return token

    def reply(self, token: int, reply: object) -> None:
        answer = self._pending.pop(token, None)
        if answer is None:
            return
        if self._left > 0:
            self._left -= 1
            answer.reply(reply)
            return
        if not self._line:
            self._turns.add(0, self._resume())
        self._line.append((answer, reply))

    def refuse(self, token: int, code: ErrorCode) -> None:
        answer = self._pending.pop(token, None)
        if answer is not None:
            answer.refuse(code)

    def network_lost(self, network: ProcessKey) -> None:
        """Drop its answers; its requests are finished, as when a client disconnects."""
        asker = self._askers.pop(network, None)
        if asker is not None:
            asker.is_dead = True
            self._pending = {token: row for token, row in self._pending.items() if row.asker is not asker}

    def work(self, budget_s: float) -> None:
        """At the end of a pass."""
        self._left = AT_ONCE
        self._turns.work(budget_s)

    def _resume(self) -> Iterator[None]:
        line = self._line
        while line:
            for _ in range(min(A_STEP, len(line))):
                answer, reply = line.popleft()
                answer.reply(reply)
            yield
