"""Who waits for what a coordinator says: a client behind a network process, or the broker itself.

Plain and slotted: one is made for each request. Both have `reply` and `refuse`, of which one is called once.
"""

from collections.abc import Callable
from typing import Any

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.errors import ErrorCode
from kafkad.handlers.coordinators.dispatch import COORDINATED
from kafkad.handlers.coordinators.routing import slim
from kafkad.wire.processes.coordinator_messages import CoordinatorAnswered, CoordinatorAsked, pack_coordination


class ClientAnswer:
    """The answer goes back in the shape of the request's API."""

    __slots__ = ("_api", "_part_id", "_request", "_send", "_version", "peer")

    def __init__(
        self, send: Callable[[ProcessKey, bytes], object], peer: ProcessKey, message: CoordinatorAsked, request: Any
    ) -> None:
        self._send = send
        self._part_id = message.part_id
        self._api = COORDINATED[message.context.api_key].module
        self._version = message.context.version
        self._request = slim(message.context.api_key, request)
        self.peer: ProcessKey | None = peer

    def reply(self, reply: object) -> None:
        self._answer(self._api.pack(reply, self._version))

    def refuse(self, code: ErrorCode) -> None:
        self._answer(self._api.refuse(self._request, self._version, code))

    def _answer(self, body: bytes) -> None:
        assert self.peer is not None
        self._send(self.peer, pack_coordination(CoordinatorAnswered(self._part_id, body)))


class InnerAnswer:
    """`reply` is called with the reply, or with the code of a refusal."""

    __slots__ = ("peer", "reply")

    def __init__(self, answered: Callable[[object], None]) -> None:
        self.peer: ProcessKey | None = None
        self.reply = answered

    def refuse(self, code: ErrorCode) -> None:
        self.reply(code)


Answer = ClientAnswer | InnerAnswer
