"""Produce requests with a transactional id wait here while a coordinator is asked, and delay no others.

Requests of one transactional id are appended in order, however long the coordinator takes, as later batches have
later sequences. `handlers/partitions/produce_verification.py` decides what to ask and what an answer means.
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
from kafkad.processes.worker.coordinators.transactions.transaction_verification import Answered
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.descriptors import AppendSlice
from kafkad.wire.steps import STEP, Reading


class _State(Enum):
    """NEW: waits behind other requests. ASKED: waits for its coordinator. DONE: appended, refused, or abandoned."""

    NEW = "new"
    ASKED = "asked"
    DONE = "done"


class PendingProduce:
    """A request, or this worker's part of it. `answer` belongs to the part that appends it."""

    __slots__ = (
        "answer",
        "asked",
        "began_ms",
        "errors",
        "guards",
        "is_unwanted",
        "network",
        "slices",
        "state",
        "version",
    )

    def __init__(self, network: int, version: int, slices: Sequence[AppendSlice], answer: object) -> None:
        self.network = network
        self.version = version
        self.slices = slices
        self.answer = answer
        self.state = _State.NEW
        self.is_unwanted = False
        self.began_ms = 0
        self.guards: dict[int, int] = {}
        """By number of the slice: the result of the coordinator's answer."""
        self.errors: dict[int, KafkaError] = {}
        self.asked: list[int] = []
        """The slices that the question is about, in its order."""

    def guard_of(self, number: int) -> int:
        return self.guards.get(number, NO_GUARD)


class Coordinators(Protocol):
    """Knows which partitions are in a transaction."""

    def ask(self, question: PartitionsToVerify, answered: Answered) -> None: ...


class RetryPauses(NamedTuple):
    """While the previous transaction is ending, the question is repeated after a pause, for at most this long."""

    pause_ms: int
    total_ms: int


def retry_pauses(config: BrokerConfig) -> RetryPauses:
    pause_ms = config.values["add.partitions.to.txn.retry.backoff.ms"]
    total_ms = config.values["add.partitions.to.txn.retry.backoff.max.ms"]
    assert isinstance(pause_ms, int) and isinstance(total_ms, int), "both are integer options"
    return RetryPauses(pause_ms, total_ms)


class Transactional:
    """`append` appends a waiting request; `errors` has the slices that were refused. Its caller works off `turns`."""

    def __init__(
        self,
        partitions: Mapping[int, OwnedPartition],
        arenas: Sequence[memoryview],
        coordinators: Coordinators,
        append: Callable[[PendingProduce], None],
        retry: RetryPauses,
        touched: Callable[[OwnedPartition], None],
        turns: Turns,
    ) -> None:
        self._partitions = partitions
        self._arenas = arenas
        self._coordinators = coordinators
        self._append = append
        self._retry = retry
        self._touched = touched
        self._turns = turns
        self._lines: dict[str, deque[PendingProduce]] = {}
        self._retries: list[tuple[int, int, str, PendingProduce]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def next_deadline_ms(self) -> int | None:
        return self._retries[0][0] if self._retries else None

    def take(self, transactional_id: str, pending: PendingProduce) -> None:
        """A request arrived; it may be appended before this returns."""
        self._lines.setdefault(transactional_id, deque()).append(pending)
        self._advance(transactional_id)

    def expire(self, now_ms: int) -> None:
        """Repeat questions to coordinators that were still ending the previous transaction."""
        while self._retries and self._retries[0][0] <= now_ms:
            _at_ms, _sequence, transactional_id, pending = heapq.heappop(self._retries)
            self._ask(transactional_id, pending)
            self._advance(transactional_id)

    def network_lost(self, network: int) -> None:
        """A network process is dead: drop its requests, as its arena may hold other data now."""
        for transactional_id in list(self._lines):
            for pending in self._lines[transactional_id]:
                if pending.network == network:
                    pending.is_unwanted = True
                    pending.state = _State.DONE
            self._advance(transactional_id)

    def _advance(self, transactional_id: str) -> None:
        line = self._lines.get(transactional_id)
        if line is None:
            # The request was abandoned meanwhile.
            return
        while line:
            pending = line[0]
            if pending.state is _State.NEW:
                pending.began_ms = monotonic_ms()
                self._ask(transactional_id, pending)
            if pending.state is not _State.DONE:
                return
            line.popleft()
        del self._lines[transactional_id]

    def _ask(self, transactional_id: str, pending: PendingProduce) -> None:
        """A request about thousands of partitions is looked at in steps, beside other work of the worker."""
        asking = self._asking(transactional_id, pending)
        for _ in asking:
            pending.state = _State.ASKED
            self._turns.add(len(pending.slices), self._asking_later(transactional_id, pending, asking))
            return

    def _asking_later(self, transactional_id: str, pending: PendingProduce, asking: Iterator[None]) -> Iterator[None]:
        yield from asking
        if pending.state is _State.DONE:
            self._advance(transactional_id)

    def _asking(self, transactional_id: str, pending: PendingProduce) -> Iterator[None]:
        """Append at once if there is nothing to ask, otherwise after the answer."""
        question = yield from self._question(transactional_id, pending)
        if pending.is_unwanted:
            return
        if question is None:
            self._finish(pending)
            return
        pending.state = _State.ASKED
        is_asking = True

        def answered(codes: list[ErrorCode]) -> None:
            self._answered(transactional_id, pending, codes)
            if not is_asking and pending.state is _State.DONE:
                self._advance(transactional_id)

        self._coordinators.ask(question, answered)
        is_asking = False

    def _question(self, transactional_id: str, pending: PendingProduce) -> Reading[PartitionsToVerify | None]:
        pending.guards.clear()
        pending.errors.clear()
        pending.asked.clear()
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
        """Batch headers by number of the slice. An invalid batch is refused when it is appended."""
        arena = self._arenas[pending.network]
        headers: dict[int, BatchHeader] = {}
        for number, (_slot, _short_id, offset, length) in enumerate(pending.slices):
            if length >= HEADER_SIZE:
                header = read_header(arena, offset)
                if header.is_transactional and header.producer_id >= 0:
                    headers[number] = header
            if number % STEP == STEP - 1:
                yield
                if pending.is_unwanted:
                    # Its arena may hold other data now.
                    return {}
        return headers

    def _begin(self, pending: PendingProduce, number: int, header: BatchHeader, adds: bool) -> tuple[str, int] | None:
        """The partition to ask about; None when a question is unnecessary or useless."""
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
        if not owned.is_dirty:
            # A verification that no record follows expires by the clock.
            self._touched(owned)
        pending.guards[number] = guard
        pending.asked.append(number)
        return owned.name.topic, owned.name.partition

    def _answered(self, transactional_id: str, pending: PendingProduce, codes: list[ErrorCode]) -> None:
        if pending.is_unwanted:
            return
        now_ms = monotonic_ms()
        is_in_time = now_ms - pending.began_ms < self._retry.total_ms
        if is_in_time and produce_verification.may_retry(codes, pending.version):
            self._sequence += 1
            heapq.heappush(self._retries, (now_ms + self._retry.pause_ms, self._sequence, transactional_id, pending))
            return
        for number, code in zip(pending.asked, codes, strict=True):
            error = produce_verification.verification_error(code, pending.version)
            if error is not None:
                pending.errors[number] = error
        self._finish(pending)

    def _finish(self, pending: PendingProduce) -> None:
        pending.state = _State.DONE
        self._append(pending)
