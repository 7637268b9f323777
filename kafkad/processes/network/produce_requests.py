"""Produce in the network process: requests go to the workers that own the partitions, results become replies.

The arena space of a request is released when its last part has completed or failed.
"""

from collections.abc import Sequence

from kafkad.adapters.shared_memory.arena import Arena
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.errors import ErrorCode
from kafkad.core.metrics.catalogue import error_index
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.leader_hints import leader_hints
from kafkad.handlers.partitions.partition_routes import Routing
from kafkad.handlers.produce import ProduceInFlight, ProducePart, plan
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.failures import reason_to_close
from kafkad.processes.network.connections.clients import Clients
from kafkad.processes.network.connections.connection import Connection, Reply
from kafkad.processes.network.connections.frames import Frame
from kafkad.processes.network.connections.throttle import Throttle
from kafkad.wire.api_table import PRODUCE
from kafkad.wire.framing import response_head
from kafkad.wire.messages.leader_hints import PRODUCE_FROM, LeaderHints
from kafkad.wire.messages.produce import read_request
from kafkad.wire.processes.descriptors import RecordErrors, pack_append, unpack_appended


class ProduceRequests:
    """All pending Produce requests of this process."""

    def __init__(
        self,
        *,
        arena: Arena,
        routing: Routing,
        throttle: Throttle,
        block: CounterBlock,
        workers: int,
        clients: Clients,
        view: BrokerView,
    ) -> None:
        self._view = view
        self.outgoing: list[list[bytes]] = [[] for _ in range(workers)]
        """Packed APPEND entries by worker, for the message that leaves at the end of the loop pass."""
        self.reachable = [False] * workers
        self._arena = arena
        self._routing = routing
        self._throttle = throttle
        self._block = block
        self._clients = clients
        self._next_part = 1
        self._open: dict[int, tuple[ProducePart, Reply | None, Connection]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def start(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """Send the parts of one request to their workers. Raises MalformedRequest."""
        assert frame.arena_extent is not None
        try:
            request = read_request(frame.view, frame.header.body_at, context.version)
            produce = ProduceInFlight(request, context, frame.arena_extent)
            parts = plan(request, produce, frame.arena_offset, self._routing)
            if not self._throttle.manager.is_unlimited:
                self._throttle.produced(connection, context.client, len(frame.view), context.received_ms)
        except BaseException:
            self._arena.release(frame.arena_extent)
            raise
        reply = None
        if request.acks != 0:
            reply = Reply(connection, context)
            connection.replies.append(reply)
        connection.begin(PRODUCE)
        deadline_ms = context.deadline_ms(request.timeout_ms)
        for part in list(parts):
            if not self.reachable[part.worker]:
                part.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            part_id = self._next_part
            self._next_part += 1
            self._open[part_id] = (part, reply, connection)
            self.outgoing[part.worker].append(
                pack_append(part_id, deadline_ms, request.acks, context.version, part.slices, request.transactional_id)
            )
        if produce.pending_parts == 0:
            self._finish(produce, reply, connection)

    def appended(self, frame: bytes) -> None:
        """Handle the results of a worker."""
        for part_id, results in unpack_appended(frame):
            part, reply, connection = self._open.pop(part_id)
            if part.complete(results):
                self._finish(part.produce, reply, connection)

    def explained(self, message: RecordErrors) -> None:
        """Store the error messages of a result that follows."""
        open_part = self._open.get(message.part_id)
        if open_part is not None:
            result = open_part[0].results[message.ordinal]
            result.message = message.message
            result.record_errors = message.errors

    def worker_lost(self, worker: int) -> None:
        """The worker died: its parts may or may not be appended, so clients get a retriable error."""
        self.reachable[worker] = False
        self.outgoing[worker].clear()
        lost = [part_id for part_id, (part, _, _) in self._open.items() if part.worker == worker]
        for part_id in lost:
            part, reply, connection = self._open.pop(part_id)
            if part.fail(ErrorCode.REQUEST_TIMED_OUT):
                self._finish(part.produce, reply, connection)

    def _finish(self, produce: ProduceInFlight, reply: Reply | None, connection: Connection) -> None:
        self._arena.release(produce.arena_extent)
        connection.request_completed()
        if produce.has_error:
            for _topic, _partition, error in produce.errors():
                self._block[error_index(error)] += 1
        if connection.closed:
            return
        if reply is None:
            if produce.has_error:
                self._clients.close(connection, f"a Produce request with acks=0 failed: {_described(produce.errors())}")
                return
        else:
            context = reply.context
            try:
                hints = self._hints_of(produce, context) if produce.has_error else None
                body = produce.reply(max(0, connection.muted_until_ms - context.received_ms), hints)
            except Exception as error:  # noqa: BLE001  close the connection: the records are written or rejected
                self._clients.close(connection, reason_to_close(context, error))
                return
            head = response_head(context.api_key, context.version, context.correlation_id, len(body))
            connection.complete_reply(reply, (head + body,), len(head) + len(body))
        self._clients.reply_ready(connection)

    def _hints_of(self, produce: ProduceInFlight, context: RequestContext) -> LeaderHints | None:
        """The leaders of the partitions that this broker does not lead."""
        if context.version < PRODUCE_FROM:
            return None
        elsewhere = ErrorCode.NOT_LEADER_OR_FOLLOWER
        rows = ((name, index) for name, index, error in produce.errors() if error == elsewhere)
        return leader_hints(rows, context, self._view)


def _described(errors: Sequence[tuple[object, int, int]]) -> str:
    topic, partition, error = errors[0]
    more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"{topic!r}-{partition} {ErrorCode(error).name}{more}"
