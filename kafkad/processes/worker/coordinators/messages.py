"""Dispatches the messages of the coordinators of a worker."""

from collections import deque
from collections.abc import Iterator
from time import monotonic_ns

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.coordinator.producer_ids import ProducerIdBlocks
from kafkad.handlers.coordinators.requests.routing import peek
from kafkad.processes.runtime.turns import COSTLY_BYTES, STEP_NS, STEP_S, Turns
from kafkad.processes.worker.coordinators.shards import CoordinatorShards
from kafkad.processes.worker.coordinators.shared_response import SharedResponse
from kafkad.processes.worker.coordinators.transactions.marker_channel import TxnMarkerChannel
from kafkad.processes.worker.coordinators.transactions.offset_verification import OffsetVerifications
from kafkad.processes.worker.coordinators.transactions.other_brokers import OtherBrokers
from kafkad.processes.worker.coordinators.transactions.transaction_verification import TransactionVerification
from kafkad.processes.worker.outbox import Outbox
from kafkad.processes.worker.partitions import Partitions
from kafkad.wire.api_table import APIS, CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, OFFSET_COMMIT
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.controller_messages import ProducerIdsGranted, ProducerIdsRequest
from kafkad.wire.processes.coordinator_messages import (
    CoordinationMessage,
    CoordinatorRequest,
    ExportOffsetsRequest,
    LagsRequest,
    TxnMarkerRequest,
    TxnMarkerWritten,
    Verified,
    VerifyPartitionsRequest,
)

_ORDERED = frozenset({OFFSET_COMMIT, HEARTBEAT, CONSUMER_GROUP_HEARTBEAT})


def _group_of(message: CoordinatorRequest) -> object:
    """The key of requests that keep their order: commits and heartbeats of a group."""
    key = message.context.api_key
    if key not in _ORDERED:
        return message.part_id
    try:
        return peek(memoryview(message.body), APIS[key].flexible_from <= message.context.version)
    except MalformedRequest:
        return message.part_id


class Coordination:
    """The messages of coordinators, and their work at the end of each loop pass."""

    def __init__(
        self,
        partitions: Partitions,
        coordinator_shards: CoordinatorShards,
        marker_channel: TxnMarkerChannel,
        transaction_verification: TransactionVerification,
        producer_ids: ProducerIdBlocks,
        lags: SharedResponse,
        export_offsets: SharedResponse,
        outbox: Outbox,
        other_brokers: OtherBrokers | None,
    ) -> None:
        self._partitions = partitions
        self._other_brokers = other_brokers
        self._coordinator_shards = coordinator_shards
        self._marker_channel = marker_channel
        self._transaction_verification = transaction_verification
        self._producer_ids = producer_ids
        self._lags = lags
        self._export_offsets = export_offsets
        self._outbox = outbox
        self._turns = Turns()
        self._queued: dict[tuple[int, object], deque[tuple[ProcessKey, CoordinatorRequest]]] = {}
        """Waiting requests by slot and by the key of their order."""
        self._spent_ns = 0
        """The time for requests in this pass."""
        coordinator_shards.markers = marker_channel
        coordinator_shards.offset_verification = OffsetVerifications(transaction_verification)

    def handle(self, peer: ProcessKey, message: CoordinationMessage) -> None:
        match message:
            case CoordinatorRequest():
                if self._queued or self._has_to_wait(message):
                    self._queue(peer, message)
                else:
                    self._handle_request(peer, message)
            case TxnMarkerRequest():
                self._marker_channel.handle_request(peer, message)
            case TxnMarkerWritten():
                self._marker_channel.written(message)
            case VerifyPartitionsRequest():
                self._transaction_verification.handle_request(peer, message)
            case Verified():
                self._transaction_verification.handle_response(message)
            case LagsRequest():
                self._lags.request(peer)
            case ExportOffsetsRequest():
                self._export_offsets.request(peer)
            case _:
                raise AssertionError(f"{type(message).__name__} is not for a worker")

    def _has_to_wait(self, message: CoordinatorRequest) -> bool:
        """Large requests wait, and all requests when this pass has taken long. The cost of a small request is unknown:
        DescribeGroups or JoinGroup may take milliseconds.
        """
        return len(message.body) > COSTLY_BYTES or self._spent_ns >= STEP_NS

    def _handle_request(self, peer: ProcessKey, message: CoordinatorRequest) -> None:
        began_ns = monotonic_ns()
        owned = self._partitions.by_slot.get(message.slot)
        is_recovering = owned is not None and owned.short_id == message.short_id and owned.is_recovering
        self._coordinator_shards.handle(peer, message, is_recovering=is_recovering)
        self._spent_ns += monotonic_ns() - began_ns

    def _queue(self, peer: ProcessKey, message: CoordinatorRequest) -> None:
        """Handle a small request at once while there is time, but no commit before an earlier one of its group."""
        key = (message.slot, _group_of(message))
        earlier = self._queued.get(key)
        if earlier is not None:
            earlier.append((peer, message))
        elif self._has_to_wait(message):
            self._queued[key] = deque([(peer, message)])
            self._turns.add(len(message.body), self._handle_queue(key))
        else:
            self._handle_request(peer, message)

    def _handle_queue(self, key: tuple[int, object]) -> Iterator[None]:
        queue = self._queued[key]
        while True:
            self._handle_request(*queue.popleft())
            if not queue:
                del self._queued[key]
                return
            yield

    @property
    def has_queued(self) -> bool:
        return bool(self._turns)

    def handle_queued(self) -> None:
        """Continue expensive requests, before the pass writes and publishes their outcomes."""
        self._turns.work(STEP_S)

    def worker_changed(self, worker: ProcessKey) -> None:
        """Its requests are lost and sent again."""
        self._marker_channel.worker_lost(worker)
        self._transaction_verification.worker_lost(worker)

    # Blocks of producer ids.

    def controller_linked(self) -> None:
        """A new incarnation of the controller: requests to the old one are lost."""
        self._producer_ids.failed()

    def granted(self, block: ProducerIdsGranted) -> None:
        self._producer_ids.add(block.first, block.count)

    def close(self) -> None:
        self._coordinator_shards.events.close()
        if self._other_brokers is not None:
            self._other_brokers.close()

    # The end of a pass.

    @property
    def next_deadline_ms(self) -> int | None:
        deadlines = [self._marker_channel.next_deadline_ms]
        if self._other_brokers is not None:
            deadlines.append(self._other_brokers.next_deadline_ms)
        return min((each for each in deadlines if each is not None), default=None)

    @property
    def is_busy(self) -> bool:
        is_reading = self._lags.is_busy or self._export_offsets.is_busy
        is_requesting = self._other_brokers is not None and self._other_brokers.is_busy
        return self._marker_channel.is_busy or is_requesting or is_reading or bool(self._turns)

    def tick(self, now_ms: int) -> None:
        self._spent_ns = 0
        self._marker_channel.tick(now_ms)
        if self._other_brokers is not None:
            self._other_brokers.tick()
        self._lags.tick()
        self._export_offsets.tick()
        if self._producer_ids.is_block_required and not self._producer_ids.is_requested:
            self._producer_ids.is_requested = True
            self._outbox.notify_controller(ProducerIdsRequest())
