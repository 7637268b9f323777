"""Produce in the worker: batches from the arena into logs, then published, then answered, in this order.

All requests of a loop pass are appended before anything is published, so that a slot is written once however
many batches went into its log, and nobody hears of an append that a reader can't see.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.descriptor_ring import LARGEST_MESSAGE
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.record_checks import InvalidRecords
from kafkad.core.metrics.catalogue import PURGATORY_PRODUCE, TOTAL_PRODUCE
from kafkad.core.partition_slot import STATE_OFFLINE, STATE_ONLINE
from kafkad.core.ports import NoSpaceLeft
from kafkad.core.waiting.delayed_partitions import PendingPartition
from kafkad.core.waiting.delayed_produce import DelayedProduce, replication_verdict
from kafkad.core.waiting.purgatory import Purgatory
from kafkad.processes.worker.coordinators.transactional_produce import (
    Coordinators,
    PendingProduce,
    RetryPauses,
    Transactional,
)
from kafkad.processes.worker.failed_partitions import FAILURES, Failure, say_no_room
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.refusals import count_refused, count_storage_failure
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
_OFFLINE: AppendResult = (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
_NOT_OWNED: AppendResult = (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)
_BEFORE_ANY_LOG = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
"""Refused by Apache Kafka before it looks at a log: the answer says nothing of where that begins."""
ALL_IN_SYNC = -1
RECORD_ERRORS = 500
"""So many refused records of a batch are named; the message has to fit a ring."""


class _Unflushed(NamedTuple):
    """A batch that is in `log`, whose append lasts until everything below `end` is on disk (`flush.messages`)."""

    result: int
    owned: OwnedPartition
    log: PartitionLog
    end: int

    @property
    def is_waiting(self) -> bool:
        return not self.is_lost and self.log.completed_end < self.end

    @property
    def is_lost(self) -> bool:
        return self.owned.log is not self.log or not self.owned.is_online


class _Answer:
    """Results that are ready, or wait for the disk, and then for replication; `explained` goes out before them."""

    __slots__ = (
        "acks",
        "deadline_ms",
        "explained",
        "incarnation",
        "network",
        "part_id",
        "required",
        "results",
        "unflushed",
    )

    def __init__(self, network: int, incarnation: int, part_id: int, acks: int, deadline_ms: int) -> None:
        self.network = network
        self.incarnation = incarnation
        self.part_id = part_id
        self.acks = acks
        self.deadline_ms = deadline_ms
        self.results: list[AppendResult] = []
        self.required: list[tuple[int, int]] = []
        self.unflushed: list[_Unflushed] = []
        self.explained: list[RecordErrors] = []


class Appending:
    """Appends for all partitions of this worker.

    `publish` writes the slot of a partition whose log has moved; `failed` takes it or its directory offline.
    """

    def __init__(
        self,
        partitions: dict[int, OwnedPartition],
        arenas: Sequence[memoryview],
        *,
        now_ms: int,
        block: CounterBlock,
        touched: Callable[[OwnedPartition], None],
        send: Callable[[int, bytes], None],
        failed: Callable[[OwnedPartition, Failure], None],
        coordinators: Coordinators,
        retry: RetryPauses,
    ) -> None:
        self._partitions = partitions
        self._arenas = arenas
        self._block = block
        self._touched = touched
        self._send = send
        self._failed = failed
        self._ready: list[_Answer] = []
        self._unflushed: list[_Answer] = []
        self._has_flush_ended = False
        self._incarnations = [0] * len(arenas)
        """How often each network process was lost: its next incarnation numbers its requests anew."""
        self._purgatory: Purgatory[DelayedProduce[_Answer], Appending] = Purgatory(view=self, start_ms=now_ms)
        self.transactional = Transactional(partitions, arenas, coordinators, self.append_pending, retry, touched)

    @property
    def has_waiting(self) -> bool:
        return len(self._purgatory) > 0

    @property
    def is_busy(self) -> bool:
        """Whether something was appended, or refused, after answers were sent in this pass."""
        return bool(self._ready)

    @property
    def next_deadline_ms(self) -> int | None:
        due = (self._purgatory.next_expiration_ms(), self.transactional.next_deadline_ms)
        return min((deadline for deadline in due if deadline is not None), default=None)

    def append(self, network: int, frame: bytes) -> None:
        """Every request of an APPEND frame; answered by `answer` after publishing."""
        arena = self._arenas[network]
        wall_ms = wall_clock_ms()
        partitions = 0
        for part_id, deadline_ms, acks, version, slices, transactional_id in unpack_appends(frame):
            answer = _Answer(network, self._incarnations[network], part_id, acks, deadline_ms)
            partitions += len(slices)
            if transactional_id is not None:
                self.transactional.take(transactional_id, PendingProduce(network, version, slices, answer))
                continue
            for piece in slices:
                answer.results.append(self._append_one(arena, piece, answer, version, wall_ms))
            self._ready.append(answer)
        self._block[TOTAL_PRODUCE] += partitions

    def append_pending(self, held: PendingProduce) -> None:
        """A request with a transactional id, when its coordinator has said what it had to say."""
        answer = held.answer
        assert isinstance(answer, _Answer)
        arena = self._arenas[held.network]
        wall_ms = wall_clock_ms()
        for number, piece in enumerate(held.slices):
            error = held.errors.get(number)
            if error is None:
                guard = held.guard_of(number)
                answer.results.append(self._append_one(arena, piece, answer, held.version, wall_ms, guard))
            else:
                answer.results.append(self._refused(None, error, answer))
        self._ready.append(answer)

    def _append_one(
        self,
        arena: memoryview,
        piece: AppendSlice,
        answer: _Answer,
        version: int,
        wall_ms: int,
        guard: int | None = None,
    ) -> AppendResult:
        slot, tag, offset, length = piece
        owned = self._partitions.get(slot)
        if owned is None or owned.tag != tag or owned.state != STATE_ONLINE or owned.log is None:
            is_offline = owned is not None and owned.state == STATE_OFFLINE
            return _OFFLINE if is_offline else _NOT_OWNED
        partition_log = owned.log
        try:
            if answer.acks == ALL_IN_SYNC and owned.in_sync < owned.min_in_sync(partition_log):
                raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
            info = partition_log.append_as_leader(
                arena[offset : offset + length],
                leader_epoch=owned.leader_epoch,
                now_ms=wall_ms,
                produce_version=version,
                guard=guard,
            )
        except KafkaError as error:
            count_refused(self._block, error, length)
            return self._refused(owned, error, answer)
        except NoSpaceLeft as error:
            say_no_room(owned, "produce refused", error)
            count_storage_failure(self._block)
            return (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, partition_log.log_start_offset)
        except FAILURES as error:
            self._failed(owned, error)
            count_storage_failure(self._block)
            return (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
        if not owned.is_dirty:
            self._touched(owned)
        if not info[4]:
            owned.messages_in += info[1] - info[0] + 1
            owned.bytes_in += length
        if answer.acks == ALL_IN_SYNC:
            answer.required.append((slot, info[1] + 1))
        if partition_log.held_back and partition_log.completed_end <= info[1]:
            answer.unflushed.append(_Unflushed(len(answer.results), owned, partition_log, info[1] + 1))
        return (0, info[0], info[2], info[3])

    def _refused(self, owned: OwnedPartition | None, error: KafkaError, answer: _Answer) -> AppendResult:
        log_start = -1
        if owned is not None and owned.log is not None and error.code not in _BEFORE_ANY_LOG:
            log_start = owned.log.log_start_offset
        if error.message is not None:
            rows = error.record_errors if isinstance(error, InvalidRecords) else ()
            errors: list[tuple[int, str | None]] = [(index, text) for index, text in rows[:RECORD_ERRORS]]
            ordinal = len(answer.results)
            answer.explained.append(RecordErrors(answer.part_id, ordinal, error.message, errors))
        return (error.code, -1, -1, log_start)

    def answer(self) -> None:
        """After publishing: send what is complete, let the rest wait for the disk, then for the high watermark."""
        if self._has_flush_ended:
            self._has_flush_ended = False
            waited, self._unflushed = self._unflushed, []
            self._ready = waited + self._ready
        if not self._ready:
            return
        ready, self._ready = self._ready, []
        by_network: dict[int, list[bytes]] = {}
        for answer in ready:
            if answer.unflushed and not _is_flushed(answer):
                self._unflushed.append(answer)
                continue
            for explained in answer.explained:
                self._send(answer.network, pack_control(explained))
            if answer.required and not self._is_replicated(answer):
                self._wait(answer)
            else:
                by_network.setdefault(answer.network, []).append(pack_appended(answer.part_id, answer.results))
        for network, packed in by_network.items():
            # A frame that does not fit a ring would take another way, and arrive before what was explained.
            for frame in frames_of(_APPENDED, packed, LARGEST_MESSAGE):
                self._send(network, frame)

    def flush_ended(self) -> None:
        """Some log was synced, or failed: look at what waits for the disk when the pass ends."""
        self._has_flush_ended = bool(self._unflushed)

    def _is_replicated(self, answer: _Answer) -> bool:
        """The usual case, a partition whose in-sync replicas have it all, without a delayed operation."""
        for slot, required in answer.required:
            owned = self._partitions.get(slot)
            if owned is None or owned.log is None or owned.log.high_watermark.offset < required:
                return False
        return True

    def _wait(self, answer: _Answer) -> None:
        required = dict(answer.required)
        rows = [PendingPartition(slot, offset) for slot, offset in required.items()]
        operation = DelayedProduce(request=answer, deadline_ms=answer.deadline_ms, partitions=rows)
        if self._purgatory.try_complete_else_watch(operation):
            self._reply(operation)
        self._block[PURGATORY_PRODUCE] = len(self._purgatory)

    def replication_of(self, slot: int, required_offset: int) -> ErrorCode | None:
        """What a delayed produce asks about a partition."""
        owned = self._partitions.get(slot)
        if owned is None or owned.log is None or not owned.is_online:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return replication_verdict(
            high_watermark=owned.log.high_watermark.offset,
            required_offset=required_offset,
            in_sync=owned.in_sync,
            min_in_sync=owned.min_in_sync(owned.log),
        )

    def advanced(self, slot: int) -> None:
        """The high watermark of `slot` grew, or the partition left: look at what waits for it."""
        for operation in self._purgatory.check_and_complete(slot):
            self._reply(operation)

    def expire(self, now_ms: int) -> None:
        self.transactional.expire(now_ms)
        for operation in self._purgatory.expire(now_ms):
            self._reply(operation)

    def _reply(self, operation: DelayedProduce[_Answer]) -> None:
        answer = operation.request
        if answer.incarnation != self._incarnations[answer.network]:
            return
        codes = {row.slot: row.error_code for row in operation.partitions}
        waited = {slot: codes[slot] for slot, _ in answer.required}
        results = _with_codes(answer, waited)
        self._block[PURGATORY_PRODUCE] = len(self._purgatory)
        self._send(answer.network, _APPENDED + pack_appended(answer.part_id, results))

    def network_lost(self, network: int) -> None:
        """A network process is dead: nobody wants its answers any more."""
        self._incarnations[network] += 1
        self.transactional.network_lost(network)
        self._ready = [answer for answer in self._ready if answer.network != network]
        self._unflushed = [answer for answer in self._unflushed if answer.network != network]


def _is_flushed(answer: _Answer) -> bool:
    """Whether nothing of it waits for the disk any more. What never got there says so."""
    if any(row.is_waiting for row in answer.unflushed):
        return False
    rows, answer.unflushed = answer.unflushed, []
    for row in rows:
        if row.is_lost:
            if answer.required:
                # They are in the order of the good results, of which this is none.
                del answer.required[sum(result[0] == 0 for result in answer.results[: row.result])]
            answer.results[row.result] = _OFFLINE if row.owned.state == STATE_OFFLINE else _NOT_OWNED
    return True


def _with_codes(answer: _Answer, codes: dict[int, ErrorCode]) -> list[AppendResult]:
    """The results with what replication came to; `required` is in the order of the good results."""
    outcomes = iter(answer.required)
    results: list[AppendResult] = []
    for result in answer.results:
        code = codes[next(outcomes)[0]] if result[0] == 0 else ErrorCode.NONE
        results.append(result if code == ErrorCode.NONE else (code, -1, -1, result[3]))
    return results
