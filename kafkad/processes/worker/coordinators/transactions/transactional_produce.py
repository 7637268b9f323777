"""Produce requests with a transactional id wait for the verification by a coordinator, without delaying others.

Requests of one transactional id are appended in order, because later batches have later sequence numbers.
`handlers/partitions/produce_verification.py` decides what to verify and what the codes mean.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from kafkad.adapters.operating_system.clocks import monotonic_ms, wall_clock_ms
from kafkad.config.entities.broker import BrokerConfig
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.producers.verification import NO_GUARD
from kafkad.core.log.records.batch import HEADER_SIZE, BatchHeader, read_header
from kafkad.core.transactions.requests import PartitionsToVerify
from kafkad.handlers.partitions import produce_verification
from kafkad.processes.runtime.turns import Turns
from kafkad.processes.worker.coordinators.transactions.transaction_verification import OnVerified
from kafkad.processes.worker.outbox import Outbox
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.descriptors import AppendSlice
from kafkad.wire.steps import STEP, Reading


class _State(Enum):
    """NEW: queued. VERIFYING: waits for its coordinator. DONE: appended, rejected, or abandoned."""

    NEW = "new"
    VERIFYING = "verifying"
    DONE = "done"


class PendingProduce:
    """The batches of a request for this worker. `response` is for the appender."""

    __slots__ = (
        "began_ms",
        "errors",
        "guards",
        "is_abandoned",
        "network",
        "response",
        "slices",
        "slices_to_verify",
        "state",
        "version",
    )

    def __init__(self, network: int, version: int, slices: Sequence[AppendSlice], response: object) -> None:
        self.network = network
        self.version = version
        self.slices = slices
        self.response = response
        self.state = _State.NEW
        self.is_abandoned = False
        self.began_ms = 0
        self.guards: dict[int, int] = {}
        """The verification guards by number of the slice."""
        self.errors: dict[int, KafkaError] = {}
        self.slices_to_verify: list[int] = []
        """The slices in the verification request, in its order."""

    def guard_of(self, number: int) -> int:
        return self.guards.get(number, NO_GUARD)


class TransactionVerifier(Protocol):
    """Verifies which partitions are in a transaction."""

    def verify(self, request: PartitionsToVerify, completed: OnVerified) -> None: ...


class RetryPauses(NamedTuple):
    """While the previous transaction is ending, the verification is retried after a pause, for at most `total_ms`."""

    pause_ms: int
    total_ms: int


def retry_pauses(config: BrokerConfig) -> RetryPauses:
    pause_ms = config.values["add.partitions.to.txn.retry.backoff.ms"]
    total_ms = config.values["add.partitions.to.txn.retry.backoff.max.ms"]
    assert isinstance(pause_ms, int) and isinstance(total_ms, int), "both are integer options"
    return RetryPauses(pause_ms, total_ms)


class Transactional:
    """`append` appends a verified request, except the slices in its `errors`. The caller runs `turns`."""

    def __init__(
        self,
        partitions: Mapping[int, OwnedPartition],
        arenas: Sequence[memoryview],
        verifier: TransactionVerifier,
        append: Callable[[PendingProduce], None],
        retry: RetryPauses,
        outbox: Outbox,
        turns: Turns,
    ) -> None:
        self._partitions = partitions
        self._arenas = arenas
        self._verifier = verifier
        self._append = append
        self._retry = retry
        self._outbox = outbox
        self._turns = turns
        self._queues: dict[str, deque[PendingProduce]] = {}
        self._retries: list[tuple[int, int, str, PendingProduce]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def next_deadline_ms(self) -> int | None:
        return self._retries[0][0] if self._retries else None

    def handle(self, transactional_id: str, pending: PendingProduce) -> None:
        """The request may be appended before this returns."""
        self._queues.setdefault(transactional_id, deque()).append(pending)
        self._advance(transactional_id)

    def expire(self, now_ms: int) -> None:
        """Retry verifications by coordinators that were still ending the previous transaction."""
        while self._retries and self._retries[0][0] <= now_ms:
            _at_ms, _sequence, transactional_id, pending = heapq.heappop(self._retries)
            self._verify(transactional_id, pending)
            self._advance(transactional_id)

    def network_lost(self, network: int) -> None:
        """A network process is dead: drop its requests, because its arena may have other data now."""
        for transactional_id in list(self._queues):
            for pending in self._queues[transactional_id]:
                if pending.network == network:
                    pending.is_abandoned = True
                    pending.state = _State.DONE
            self._advance(transactional_id)

    def _advance(self, transactional_id: str) -> None:
        queue = self._queues.get(transactional_id)
        if queue is None:
            # The request was abandoned meanwhile.
            return
        while queue:
            pending = queue[0]
            if pending.state is _State.NEW:
                pending.began_ms = monotonic_ms()
                self._verify(transactional_id, pending)
            if pending.state is not _State.DONE:
                return
            queue.popleft()
        del self._queues[transactional_id]

    def _verify(self, transactional_id: str, pending: PendingProduce) -> None:
        """In steps: a request may have thousands of partitions."""
        steps = self._verification_steps(transactional_id, pending)
        for _ in steps:
            pending.state = _State.VERIFYING
            self._turns.add(len(pending.slices), self._continue_verification(transactional_id, pending, steps))
            return

    def _continue_verification(
        self, transactional_id: str, pending: PendingProduce, steps: Iterator[None]
    ) -> Iterator[None]:
        yield from steps
        if pending.state is _State.DONE:
            self._advance(transactional_id)

    def _verification_steps(self, transactional_id: str, pending: PendingProduce) -> Iterator[None]:
        """Append at once without a verification, otherwise after it."""
        request = yield from self._verification_request(transactional_id, pending)
        if pending.is_abandoned:
            return
        if request is None:
            self._finish(pending)
            return
        pending.state = _State.VERIFYING
        is_sending = True

        def completed(codes: list[ErrorCode]) -> None:
            self._verification_completed(transactional_id, pending, codes)
            if not is_sending and pending.state is _State.DONE:
                self._advance(transactional_id)

        self._verifier.verify(request, completed)
        is_sending = False

    def _verification_request(
        self, transactional_id: str, pending: PendingProduce
    ) -> Reading[PartitionsToVerify | None]:
        pending.guards.clear()
        pending.errors.clear()
        pending.slices_to_verify.clear()
        headers = yield from self._transactional_headers(pending)
        try:
            producer = produce_verification.check_sole_producer(
                (header.producer_id, header.producer_epoch) for header in headers.values()
            )
        except KafkaError as error:
            pending.errors = dict.fromkeys(range(len(pending.slices)), error)
            return None
        adds = produce_verification.adds_partitions(pending.version)
        names = []
        for count, (number, header) in enumerate(headers.items(), 1):
            name = self._begin(pending, number, header, adds)
            if name is not None:
                names.append(name)
            if not count % STEP:
                yield
        if producer is None or not names:
            return None
        return PartitionsToVerify(transactional_id, *producer, adds, names)

    def _transactional_headers(self, pending: PendingProduce) -> Reading[dict[int, BatchHeader]]:
        """Batch headers by number of the slice. An invalid batch is rejected when it is appended."""
        arena = self._arenas[pending.network]
        headers: dict[int, BatchHeader] = {}
        for number, (_slot, _short_id, offset, length) in enumerate(pending.slices):
            if length >= HEADER_SIZE:
                header = read_header(arena, offset)
                if header.is_transactional and header.producer_id >= 0:
                    headers[number] = header
            if number % STEP == STEP - 1:
                yield
                if pending.is_abandoned:
                    # Its arena may have other data now.
                    return {}
        return headers

    def _begin(self, pending: PendingProduce, number: int, header: BatchHeader, adds: bool) -> tuple[str, int] | None:
        """The partition to verify; None if a verification is unnecessary or useless."""
        slot, short_id, _offset, _length = pending.slices[number]
        owned = self._partitions.get(slot)
        if owned is None or owned.short_id != short_id or owned.log is None or not owned.is_online:
            return None
        producers = owned.log.producers
        if not adds and not producers.verifies_transactions:
            return None
        try:
            guard = producers.begin_verification(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                wall_clock_ms(),
                supports_epoch_bump=adds,
            )
        except KafkaError as error:
            pending.errors[number] = error
            return None
        if guard == NO_GUARD:
            return None
        # A verification without records expires by time.
        self._outbox.touched(owned)
        pending.guards[number] = guard
        pending.slices_to_verify.append(number)
        return owned.name.topic, owned.name.partition

    def _verification_completed(self, transactional_id: str, pending: PendingProduce, codes: list[ErrorCode]) -> None:
        if pending.is_abandoned:
            return
        now_ms = monotonic_ms()
        is_in_time = now_ms - pending.began_ms < self._retry.total_ms
        if is_in_time and produce_verification.may_retry(codes, pending.version):
            self._sequence += 1
            heapq.heappush(self._retries, (now_ms + self._retry.pause_ms, self._sequence, transactional_id, pending))
            return
        for number, code in zip(pending.slices_to_verify, codes, strict=True):
            error = produce_verification.verification_error(code, pending.version)
            if error is not None:
                pending.errors[number] = error
        self._finish(pending)

    def _finish(self, pending: PendingProduce) -> None:
        pending.state = _State.DONE
        self._append(pending)
