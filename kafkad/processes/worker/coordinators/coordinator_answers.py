"""The receiver of a coordinator's reply: a client behind a network process, or the broker itself.

Plain and slotted, because one is made for each request. Both have `reply` and `refuse`, of which one is called once.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.errors import ErrorCode
from kafkad.handlers.coordinators.requests.apis_of_coordinators import COORDINATED
from kafkad.handlers.coordinators.requests.routing import slim
from kafkad.processes.runtime.turns import Turns
from kafkad.wire.processes.coordinator_messages import CoordinatorAnswered, CoordinatorAsked, pack_coordination
from kafkad.wire.steps import Reading


class ClientAnswer:
    """The reply is encoded for the request's API. `packing` encodes a large reply in steps."""

    __slots__ = ("_api", "_packing", "_part_id", "_request", "_send", "_version", "peer")

    def __init__(
        self,
        send: Callable[[ProcessKey, bytes], object],
        peer: ProcessKey,
        message: CoordinatorAsked,
        request: Any,
        packing: Turns,
    ) -> None:
        self._packing = packing
        self._send = send
        self._part_id = message.part_id
        self._api = COORDINATED[message.context.api_key]
        self._version = message.context.version
        self._request = slim(message.context.api_key, request)
        self.peer: ProcessKey | None = peer

    def reply(self, reply: object) -> None:
        large = self._api.pack_in_steps(reply, self._version)
        if large is None:
            self._answer(self._api.module.pack(reply, self._version))
        else:
            size, packing = large
            self._packing.add(size, self._in_steps(packing))

    def _in_steps(self, packing: Reading[bytes]) -> Iterator[None]:
        self._answer((yield from packing))

    def refuse(self, code: ErrorCode) -> None:
        self._answer(self._api.module.refuse(self._request, self._version, code))

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
