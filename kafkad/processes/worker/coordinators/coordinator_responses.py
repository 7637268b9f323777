"""The receiver of a coordinator's reply: a client of a network process, or the broker itself.

Slotted, because one is created for each request. Either `reply` or `reject` is called, once. When ten thousand members
of a group get responses in one pass, most are encoded in steps. A response that cannot be encoded is replaced by
UNKNOWN_SERVER_ERROR: the changes by the request are consistent, and its shard continues.
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
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.runtime.turns import Turns
from kafkad.wire.api_table import unencodable
from kafkad.wire.primitives import UnencodableMessage
from kafkad.wire.processes.coordinator_messages import CoordinatorReply, CoordinatorRequest, pack_coordination
from kafkad.wire.steps import Reading

AT_ONCE = 100
"""Responses of one pass that are encoded at once: about two milliseconds."""
A_STEP = 20


class NetworkIncarnation:
    """One incarnation of a network process. The next one reuses ids of requests, and must not get old responses."""

    __slots__ = ("_peer", "_sender", "is_dead")

    def __init__(self, sender: Sender, peer: ProcessKey) -> None:
        self._sender = sender
        self._peer = peer
        self.is_dead = False

    def send(self, frame: bytes) -> None:
        if not self.is_dead:
            self._sender.send(self._peer, frame)


class ClientResponse:
    """The reply is encoded for the request's API. `packing` encodes a large reply in steps."""

    __slots__ = ("_api", "_context", "_log_rate_limit", "_packing", "_part_id", "_request", "network")

    def __init__(
        self,
        network: NetworkIncarnation,
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
        self.network: NetworkIncarnation | None = network

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
            self._reply_unknown_error(error)
            return
        self._send_reply(body)

    def _in_steps(self, packing: Reading[bytes]) -> Iterator[None]:
        try:
            body = yield from packing
        except UnencodableMessage as error:
            self._reply_unknown_error(error)
            return
        self._send_reply(body)

    def _reply_unknown_error(self, error: UnencodableMessage) -> None:
        context = self._context
        log_failure(self._log_rate_limit, context, unencodable(context.api_key, context.version, error))
        self.reject(ErrorCode.UNKNOWN_SERVER_ERROR)

    def reject(self, code: ErrorCode) -> None:
        try:
            body = self._api.module.reject(self._request, self._context.version, code)
        except UnencodableMessage as error:
            self._send_reply(None, str(error))
            return
        self._send_reply(body)

    def _send_reply(self, body: bytes | None, reason: str = "") -> None:
        assert self.network is not None
        self.network.send(pack_coordination(CoordinatorReply(self._part_id, body, reason)))


class InternalResponse:
    """`reply` is called with the reply, or with an error code."""

    __slots__ = ("network", "reply")

    def __init__(self, completed: Callable[[object], None]) -> None:
        self.network: NetworkIncarnation | None = None
        self.reply = completed

    def reject(self, code: ErrorCode) -> None:
        self.reply(code)


PendingResponse = ClientResponse | InternalResponse


class PendingResponses:
    """The pending requests by token. The first responses of a pass are encoded at once, the others in steps."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._pending: dict[int, PendingResponse] = {}
        self._next_token = 1
        self._networks: dict[ProcessKey, NetworkIncarnation] = {}
        self._turns = Turns()
        """Responses that are too large or too many to be encoded at once."""
        self._queue: deque[tuple[PendingResponse, object]] = deque()
        self._left = AT_ONCE
        self.log_rate_limit = LogRateLimit()
        """For log lines about failed requests."""

    @property
    def is_busy(self) -> bool:
        return bool(self._turns)

    def of_client(self, peer: ProcessKey, message: CoordinatorRequest, request: Any) -> ClientResponse:
        network = self._networks.get(peer)
        if network is None:
            network = self._networks[peer] = NetworkIncarnation(self._sender, peer)
        return ClientResponse(network, message, request, self._turns, self.log_rate_limit)

    def add(self, response: PendingResponse) -> int:
        """Returns its token."""
        token = self._next_token
        self._next_token += 1
        self._pending[token] = response
        return token

    def reply(self, token: int, reply: object) -> None:
        response = self._pending.pop(token, None)
        if response is None:
            return
        if self._left > 0:
            self._left -= 1
            response.reply(reply)
            return
        if not self._queue:
            self._turns.add(0, self._resume())
        self._queue.append((response, reply))

    def reject(self, token: int, code: ErrorCode) -> None:
        response = self._pending.pop(token, None)
        if response is not None:
            response.reject(code)

    def network_lost(self, peer: ProcessKey) -> None:
        """Drop its responses; its requests are completed, as when a client disconnects."""
        network = self._networks.pop(peer, None)
        if network is not None:
            network.is_dead = True
            self._pending = {token: row for token, row in self._pending.items() if row.network is not network}

    def encode_queued(self, budget_s: float) -> None:
        """At the end of a pass."""
        self._left = AT_ONCE
        self._turns.work(budget_s)

    def _resume(self) -> Iterator[None]:
        queue = self._queue
        while queue:
            for _ in range(min(A_STEP, len(queue))):
                response, reply = queue.popleft()
                response.reply(reply)
            yield
