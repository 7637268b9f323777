"""Produce in the worker: append batches from the arena to logs, publish the slots, send the responses, in this order.

A loop pass publishes its appends at its end: each slot is written once for all batches of the pass, and a client gets
its response only when readers can see the records. A long request continues in later passes; each partition keeps its
order.
"""

from collections.abc import Iterator, Sequence
from time import monotonic_ns

from kafkad.adapters.operating_system.clocks import monotonic_ms, wall_clock_ms
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.descriptor_ring import LARGEST_MESSAGE
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.record_checks import InvalidRecords
from kafkad.core.metrics.catalogue import PURGATORY_PRODUCE, TOTAL_PRODUCE
from kafkad.core.metrics.counting import count_rejected, count_storage_failure
from kafkad.core.partition_slot import ROLE_LEADER, STATE_ONLINE
from kafkad.core.ports import NoSpaceLeft
from kafkad.core.waiting.delayed_partitions import DelayedProduce, PendingPartition, replication_result
from kafkad.core.waiting.keyed_queues import KeyedQueues
from kafkad.core.waiting.purgatory import Purgatory
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.runtime.turns import STEP_NS, Turns
from kafkad.processes.worker.append_responses import (
    NOT_OWNED,
    PendingAppend,
    ProduceResponse,
    is_flushed,
    unavailable_result,
    with_codes,
)
from kafkad.processes.worker.coordinators.transactions.transactional_produce import (
    PendingProduce,
    RetryPauses,
    Transactional,
    TransactionVerifier,
)
from kafkad.processes.worker.disks.disk_space import DiskSpace
from kafkad.processes.worker.outbox import FAILURES, Outbox, log_no_space
from kafkad.processes.worker.owned import DeletedTopics, OwnedPartition
from kafkad.wire.processes.descriptors import (
    APPENDED,
    AppendResult,
    AppendSlice,
    RecordErrors,
    frames_of,
    pack_appended,
    pack_control,
    unpack_appends,
)

_APPENDED = bytes((APPENDED,))
_BEFORE_ANY_LOG = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
"""Errors that Apache Kafka detects before it opens a log: the response has no log start offset."""
ALL_IN_SYNC = -1
TURN_NS = 1_000_000
"""The time slice of a request that takes turns with others."""
RECORD_ERRORS = 500
"""The maximum number of record errors of a batch in the response, because the message must fit a ring."""


class Appender:
    """Appends for all partitions of this worker. `networks` are the network processes, by index."""

    def __init__(
        self,
        partitions: dict[int, OwnedPartition],
        deleted: DeletedTopics,
        arenas: Sequence[memoryview],
        *,
        now_ms: int,
        block: CounterBlock,
        sender: Sender,
        networks: Sequence[ProcessKey],
        outbox: Outbox,
        verifier: TransactionVerifier,
        retry: RetryPauses,
        disk_space: DiskSpace,
    ) -> None:
        self._disk_space = disk_space
        self._short = disk_space.short
        self._partitions, self._deleted = partitions, deleted
        self._arenas = arenas
        self._block = block
        self._sender = sender
        self._networks = networks
        self._outbox = outbox
        self._ready: list[ProduceResponse] = []
        self._queues: KeyedQueues[int, PendingAppend] = KeyedQueues()
        """Requests that continue in later passes, by slot."""
        self._turns = Turns()
        self._end_ns = 0
        """When this pass stops appending; set by its first append."""
        self._is_step_over = False
        self._unflushed: list[ProduceResponse] = []
        self._has_flush_ended = False
        self._incarnations = [0] * len(arenas)
        """The deaths of each network process: its next incarnation reuses the numbers of requests."""
        self._purgatory: Purgatory[DelayedProduce[ProduceResponse], Appender] = Purgatory(view=self, start_ms=now_ms)
        self.transactional = Transactional(
            partitions, arenas, verifier, self.append_verified, retry, outbox, self._turns
        )

    @property
    def has_waiting(self) -> bool:
        return len(self._purgatory) > 0

    @property
    def is_busy(self) -> bool:
        """Whether results or requests are pending after this pass has sent its responses."""
        return bool(self._ready) or bool(self._turns)

    @property
    def next_deadline_ms(self) -> int | None:
        due = (self._purgatory.next_expiration_ms(), self.transactional.next_deadline_ms)
        return min((deadline for deadline in due if deadline is not None), default=None)

    def append(self, network: int, frame: bytes) -> bool:
        """Every request of an APPEND frame; responses by `send_responses` after publishing.

        True when some are transactional: coordinators may have work.
        """
        wall_ms = wall_clock_ms()
        partitions = 0
        is_transactional = False
        for part_id, deadline_ms, acks, version, slices, transactional_id in unpack_appends(frame):
            response = ProduceResponse(network, self._incarnations[network], part_id, acks, deadline_ms)
            partitions += len(slices)
            if transactional_id is None:
                self._begin(PendingAppend(response, version, slices), wall_ms)
            else:
                is_transactional = True
                self.transactional.handle(transactional_id, PendingProduce(network, version, slices, response))
        self._block[TOTAL_PRODUCE] += partitions
        return is_transactional

    def append_verified(self, verified: PendingProduce) -> None:
        """Append a request with a transactional id after its coordinator's response."""
        response = verified.response
        assert isinstance(response, ProduceResponse)
        self._begin(PendingAppend(response, verified.version, verified.slices, verified), wall_clock_ms())

    def _begin(self, pending: PendingAppend, wall_ms: int) -> None:
        """Append at once while the pass has time: an append may create files and compress records."""
        if not self._end_ns:
            self._end_ns = monotonic_ns() + STEP_NS
        slices = pending.slices
        if self._is_step_over or (self._queues and self._queues.has_work_for(piece[0] for piece in slices)):
            self._enqueue(pending)
            return
        self._is_step_over = self._append_some(pending, wall_ms, self._end_ns)
        if len(pending.response.results) < len(slices):
            self._enqueue(pending)
        else:
            self._ready.append(pending.response)

    def _append_some(self, pending: PendingAppend, wall_ms: int, end_ns: int) -> bool:
        """Append at least one batch. Returns whether the time is up."""
        response, verified = pending.response, pending.verified
        results, arena = response.results, self._arenas[response.network]
        rest = pending.slices[len(results) :] if results else pending.slices
        for piece in rest:
            error = guard = None
            if verified is not None:
                error, guard = verified.errors.get(len(results)), verified.guard_of(len(results))
            if error is None:
                results.append(self._append_one(arena, piece, response, pending.version, wall_ms, guard))
            else:
                results.append(self._rejected(None, error, response))
            if monotonic_ns() >= end_ns:
                return True
        return False

    def _enqueue(self, pending: PendingAppend) -> None:
        """Append the remaining batches in turns with other requests, after earlier requests for the same partitions."""
        if self._queues.add(pending, (piece[0] for piece in pending.slices)):
            self._turns.add(len(pending.slices), self._continue(pending))

    def _continue(self, pending: PendingAppend) -> Iterator[None]:
        results, slices = pending.response.results, pending.slices
        while len(results) < len(slices) and not pending.is_abandoned:
            if self._append_some(pending, wall_clock_ms(), monotonic_ns() + TURN_NS):
                yield
        if not pending.is_abandoned:
            self._ready.append(pending.response)
        for resumed in self._queues.complete(pending):
            self._turns.add(len(resumed.slices), self._continue(resumed))

    def tick(self) -> None:
        """Before the pass publishes: continue requests of earlier passes."""
        if self._turns:
            self._turns.work()

    def finish(self) -> None:
        """The worker stops: complete all pending appends."""
        while self._turns:
            self._turns.work()

    def _append_one(
        self,
        arena: memoryview,
        piece: AppendSlice,
        response: ProduceResponse,
        version: int,
        wall_ms: int,
        guard: int | None = None,
    ) -> AppendResult:
        slot, short_id, offset, length = piece
        owned = self._partitions.get(slot)
        if owned is None or owned.short_id != short_id or owned.state != STATE_ONLINE or owned.log is None:
            return unavailable_result(owned, slot, short_id, self._deleted)
        if owned.role != ROLE_LEADER:
            return NOT_OWNED
        partition_log = owned.log
        try:
            if self._short and owned.log_dir in self._short:
                self._disk_space.require_space(owned.log_dir, monotonic_ms())
            if response.acks == ALL_IN_SYNC and owned.in_sync < owned.min_in_sync(partition_log):
                raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
            info = partition_log.append_as_leader(
                arena[offset : offset + length],
                leader_epoch=owned.leader_epoch,
                now_ms=wall_ms,
                produce_version=version,
                guard=guard,
            )
        except KafkaError as rejection:
            count_rejected(self._block, rejection, length)
            return self._rejected(owned, rejection, response)
        except NoSpaceLeft as no_space:
            log_no_space(owned, "Produce rejected", no_space)
            count_storage_failure(self._block)
            self._disk_space.found_full(owned.log_dir, monotonic_ms())
            return self._rejected(owned, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(no_space)), response)
        except FAILURES as failure:
            self._outbox.failed(owned, failure)
            count_storage_failure(self._block)
            return (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
        if not owned.is_dirty:
            self._outbox.touched(owned)
        if not info[4]:
            owned.messages_in += info[1] - info[0] + 1
            owned.bytes_in += length
        if response.acks == ALL_IN_SYNC:
            response.required.append((slot, info[1] + 1, owned.lost_leaderships))
        if partition_log.held_back and partition_log.completed_end <= info[1]:
            response.wait_for_disk(owned, partition_log, info[1] + 1)
        return (0, info[0], info[2], info[3])

    def _rejected(self, owned: OwnedPartition | None, error: KafkaError, response: ProduceResponse) -> AppendResult:
        log_start = -1
        if owned is not None and owned.log is not None and error.code not in _BEFORE_ANY_LOG:
            log_start = owned.log.log_start_offset
        if error.message is not None:
            rows = error.record_errors if isinstance(error, InvalidRecords) else ()
            errors: list[tuple[int, str | None]] = [(index, text) for index, text in rows[:RECORD_ERRORS]]
            response.record_errors.append(RecordErrors(response.part_id, len(response.results), error.message, errors))
        return (error.code, -1, -1, log_start)

    def send_responses(self) -> None:
        """After publishing: send complete responses; others wait for the disk, then for the high watermark."""
        self._end_ns, self._is_step_over = 0, False
        if self._has_flush_ended:
            self._has_flush_ended = False
            waited, self._unflushed = self._unflushed, []
            self._ready = waited + self._ready
        if not self._ready:
            return
        ready, self._ready = self._ready, []
        by_network: dict[int, list[bytes]] = {}
        for response in ready:
            if response.unflushed and not is_flushed(response, self._deleted):
                self._unflushed.append(response)
                continue
            for record_errors in response.record_errors:
                self._sender.send(self._networks[response.network], pack_control(record_errors))
            if response.required and not self._is_replicated(response):
                self._wait(response)
            else:
                by_network.setdefault(response.network, []).append(pack_appended(response.part_id, response.results))
        for network, packed in by_network.items():
            # A frame too large for the ring would be sent with ZeroMQ and overtake the record errors.
            for frame in frames_of(_APPENDED, packed, LARGEST_MESSAGE):
                self._sender.send(self._networks[network], frame)

    def flush_ended(self) -> None:
        """A log was synced or has failed: check the responses that wait for the disk, at the end of the pass."""
        self._has_flush_ended = bool(self._unflushed)

    def _is_replicated(self, response: ProduceResponse) -> bool:
        """True in the usual case: the in-sync replicas have all records, and no delayed operation is necessary."""
        for slot, required, lost_leaderships in response.required:
            owned = self._partitions.get(slot)
            if owned is None or owned.log is None or owned.lost_leaderships != lost_leaderships:
                return False
            if owned.log.high_watermark.offset < required:
                return False
        return True

    def _wait(self, response: ProduceResponse) -> None:
        rows: dict[int, PendingPartition] = {}
        for slot, offset, lost_leaderships in response.required:
            owned = self._partitions.get(slot)
            is_lost = owned is not None and owned.lost_leaderships != lost_leaderships
            rows[slot] = PendingPartition(slot, offset, ErrorCode.NOT_LEADER_OR_FOLLOWER if is_lost else ErrorCode.NONE)
        operation = DelayedProduce(request=response, deadline_ms=response.deadline_ms, partitions=list(rows.values()))
        if self._purgatory.try_complete_else_watch(operation):
            self._reply(operation)
        self._block[PURGATORY_PRODUCE] = len(self._purgatory)

    def replication_of(self, slot: int, required_offset: int) -> ErrorCode | None:
        """The state of a partition for a delayed produce."""
        owned = self._partitions.get(slot)
        if owned is None or owned.log is None or not owned.leads:
            is_deleted = owned is None and self._deleted.had_last(slot)
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return replication_result(
            high_watermark=owned.log.high_watermark.offset,
            required_offset=required_offset,
            in_sync=owned.maximal_in_sync,
            min_in_sync=owned.min_in_sync(owned.log),
        )

    def advanced(self, slot: int) -> None:
        """The high watermark of `slot` has advanced, or the partition left: check the responses that wait for it."""
        for operation in self._purgatory.check_and_complete(slot):
            self._reply(operation)

    def expire(self, now_ms: int) -> None:
        self.transactional.expire(now_ms)
        for operation in self._purgatory.expire(now_ms):
            self._reply(operation)

    def _reply(self, operation: DelayedProduce[ProduceResponse]) -> None:
        response = operation.request
        if response.incarnation != self._incarnations[response.network]:
            return
        codes = {row.slot: row.error_code for row in operation.partitions}
        waited = {slot: codes[slot] for slot, _offset, _lost in response.required}
        results = with_codes(response, waited)
        self._block[PURGATORY_PRODUCE] = len(self._purgatory)
        self._sender.send(self._networks[response.network], _APPENDED + pack_appended(response.part_id, results))

    def network_lost(self, network: int) -> None:
        """A network process is dead: drop its responses."""
        self._incarnations[network] += 1
        for pending in self._queues:
            pending.is_abandoned = pending.is_abandoned or pending.response.network == network
        self.transactional.network_lost(network)
        self._ready = [response for response in self._ready if response.network != network]
        self._unflushed = [response for response in self._unflushed if response.network != network]
