"""Requests to the owners of partitions, other than Produce: one message to each owner; the responses are merged."""

from collections.abc import Sequence
from functools import partial

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.request_context import RequestContext
from kafkad.handlers.describe_producers import PendingDescribeProducers
from kafkad.handlers.partitions.owner_request import OwnerRequest
from kafkad.processes.network.connections.connection import Connection, Reply
from kafkad.processes.network.connections.frames import Frame
from kafkad.processes.network.responses import Responses
from kafkad.processes.runtime.peers import Sender
from kafkad.wire.processes.descriptors import DeletedRecords, Producers, TxnMarkersWritten, pack_control

DEFAULT_TIMEOUT_MS = 30_000
"""The timeout of requests without one of their own."""


class _Open:
    __slots__ = ("pending", "reply", "waiting_for")

    def __init__(self, pending: OwnerRequest, reply: Reply, waiting_for: int) -> None:
        self.pending = pending
        self.reply = reply
        self.waiting_for = waiting_for


class OwnerRequests:
    """`workers` are the owners, by index."""

    def __init__(self, responses: Responses, sender: Sender, workers: Sequence[ProcessKey]) -> None:
        self._responses = responses
        self._sender = sender
        self._workers = workers
        self._next_part = 1
        self._parts: dict[int, tuple[_Open, int]] = {}
        self._describing = 0

    def is_describing(self) -> bool:
        """Whether producers are being described."""
        return self._describing > 0

    def start(self, connection: Connection, frame: Frame, context: RequestContext, pending: OwnerRequest) -> None:
        reply = self._responses.open(connection, frame, context)
        workers = pending.workers()
        deadline_ms = context.deadline_ms(DEFAULT_TIMEOUT_MS if pending.timeout_ms is None else pending.timeout_ms)
        opened = _Open(pending, reply, len(workers))
        self._describing += isinstance(pending, PendingDescribeProducers) and bool(workers)
        for worker in workers:
            part_id = self._next_part
            self._next_part += 1
            self._parts[part_id] = (opened, worker)
            if not self._sender.send(
                self._workers[worker], pack_control(pending.message(worker, part_id, deadline_ms))
            ):
                self._fail_part(part_id)
        if not workers:
            self._responses.send_result(reply, pending.body)

    def handle(self, message: DeletedRecords | Producers | TxnMarkersWritten) -> None:
        part = self._parts.pop(message.part_id, None)
        if part is not None:
            opened, worker = part
            self._responses.attempt(opened.reply, partial(opened.pending.complete, worker, message))
            self._complete_part(opened)

    def worker_lost(self, worker: int) -> None:
        for part_id in [part_id for part_id, (_, owner) in self._parts.items() if owner == worker]:
            self._fail_part(part_id)

    def _fail_part(self, part_id: int) -> None:
        opened, worker = self._parts.pop(part_id)
        opened.pending.fail(worker)
        self._complete_part(opened)

    def _complete_part(self, opened: _Open) -> None:
        opened.waiting_for -= 1
        if opened.waiting_for == 0:
            self._describing -= isinstance(opened.pending, PendingDescribeProducers)
            self._responses.send_result(opened.reply, opened.pending.body)
