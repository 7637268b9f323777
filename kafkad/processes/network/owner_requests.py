"""Requests to the owners of partitions, other than Produce. Each owner is asked once, and the answers are joined."""

from collections.abc import Callable
from functools import partial

from kafkad.core.request_context import RequestContext
from kafkad.handlers.describe_producers import PendingDescribeProducers
from kafkad.handlers.partitions.owner_request import OwnerRequest
from kafkad.processes.network.connections.connection import Connection, Reply
from kafkad.processes.network.connections.frames import Frame
from kafkad.processes.network.responses import Responses
from kafkad.wire.processes.descriptors import DeletedRecords, Producers, TxnMarkersWritten, pack_control

PATIENCE_MS = 30_000
"""How long owners may take for a request without a timeout of its own."""


class _Open:
    __slots__ = ("pending", "reply", "waiting_for")

    def __init__(self, pending: OwnerRequest, reply: Reply, waiting_for: int) -> None:
        self.pending = pending
        self.reply = reply
        self.waiting_for = waiting_for


class OwnerRequests:
    """`ask` sends a control frame to a worker and returns False when it can't be reached now."""

    def __init__(self, answers: Responses, ask: Callable[[int, bytes], bool]) -> None:
        self._answers = answers
        self._ask = ask
        self._next_part = 1
        self._parts: dict[int, tuple[_Open, int]] = {}
        self._describing = 0

    def is_describing(self) -> bool:
        """Whether producers are being described."""
        return self._describing > 0

    def start(self, connection: Connection, frame: Frame, context: RequestContext, pending: OwnerRequest) -> None:
        reply = self._answers.open(connection, frame, context)
        workers = pending.workers()
        deadline_ms = context.deadline_ms(PATIENCE_MS if pending.timeout_ms is None else pending.timeout_ms)
        opened = _Open(pending, reply, len(workers))
        self._describing += isinstance(pending, PendingDescribeProducers) and bool(workers)
        for worker in workers:
            part_id = self._next_part
            self._next_part += 1
            self._parts[part_id] = (opened, worker)
            if not self._ask(worker, pack_control(pending.message(worker, part_id, deadline_ms))):
                self._lose(part_id)
        if not workers:
            self._answers.send_made(reply, pending.body)

    def heard(self, message: DeletedRecords | Producers | TxnMarkersWritten) -> None:
        known = self._parts.pop(message.part_id, None)
        if known is not None:
            opened, worker = known
            self._answers.attempt(opened.reply, partial(opened.pending.complete, worker, message))
            self._settle(opened)

    def worker_lost(self, worker: int) -> None:
        for part_id in [part_id for part_id, (_, asked) in self._parts.items() if asked == worker]:
            self._lose(part_id)

    def _lose(self, part_id: int) -> None:
        opened, worker = self._parts.pop(part_id)
        opened.pending.fail(worker)
        self._settle(opened)

    def _settle(self, opened: _Open) -> None:
        opened.waiting_for -= 1
        if opened.waiting_for == 0:
            self._describing -= isinstance(opened.pending, PendingDescribeProducers)
            self._answers.send_made(opened.reply, opened.pending.body)
