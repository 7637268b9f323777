"""The simplest partitions and producers around a transaction coordinator, with every fault.

A transaction has a name ("x/0/3": the third of the first producer with id x), and every record carries it, so each
partition knows the fate of each transaction. `World` draws what happens next.
"""

from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any

from kafkad.core.coordinator.shard import TxnMarkersToSend
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import EndTxn, InitProducerId, PartitionsToAdd
from tests.core.coordinator.memory_log import Refused

Identity = tuple[int, int]
"""Producer id and epoch."""


class Fate(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class ModelPartition:
    """What a log does with transactional batches and markers, and no more."""

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}
        self._open: dict[int, set[str]] = defaultdict(set)
        self._epochs: dict[int, int] = {}
        self._coordinator_epochs: dict[str, int] = {}
        self._guards: dict[int, object] = {}

    def is_open(self, producer: Identity) -> bool:
        """Whether a transaction of this very epoch is: one before it may still wait for its marker."""
        producer_id, epoch = producer
        return bool(self._open[producer_id]) and self._epochs[producer_id] == epoch

    def guard(self, producer_id: int) -> object:
        """Before the coordinator is asked: a marker that comes in between breaks it (KIP-890)."""
        return self._guards.setdefault(producer_id, object())

    def write(self, name: str, producer: Identity, guard: object | None) -> bool:
        producer_id, epoch = producer
        if epoch < self._epochs.get(producer_id, -1):
            return False
        if not self.is_open(producer) and self._guards.get(producer_id) is not guard:
            return False
        self._epochs[producer_id] = epoch
        self._open[producer_id].add(name)
        self.fates[name] = Fate.OPEN
        return True

    def mark(self, wanted: TxnMarkersToSend) -> None:
        """Once or again."""
        if wanted.coordinator_epoch < self._coordinator_epochs.get(wanted.transactional_id, -1):
            return
        self._coordinator_epochs[wanted.transactional_id] = wanted.coordinator_epoch
        producer_id = wanted.producer_id
        assert wanted.producer_epoch >= self._epochs.get(producer_id, -1), "a marker comes too late"
        self._epochs[producer_id] = wanted.producer_epoch
        self._guards.pop(producer_id, None)
        for name in self._open.pop(producer_id, set()):
            self.fates[name] = Fate.COMMITTED if wanted.is_commit else Fate.ABORTED


class Gone(Exception):
    """The producer was fenced, or told that it did something wrong; it stops."""


@dataclass(slots=True)
class Told:
    """What a producer was told of its transaction, and what it wrote."""

    written: set[int] = field(default_factory=set)
    wanted_commit: bool = False
    outcome: Fate = Fate.OPEN


RETRY = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
LOST = object()


class ModelProducer:
    """A client with one request at a time. `run` is its incarnation: it yields requests and is sent their answers."""

    def __init__(self, world: "Any", transactional_id: str, name: str) -> None:
        self.transactional_id = transactional_id
        self.identity: Identity = (-1, -1)
        self.told: dict[str, Told] = {}
        self.has_started = False
        self._world = world
        self._name = name
        self._random: Random = world.random

    def run(self) -> Generator[Any, Any, Any]:
        try:
            yield from self._start(named=False)
            for number in range(self._random.randrange(1, 5)):
                yield from self._transaction(f"{self._name}/{number}")
                if self._random.random() < 0.1:
                    yield from self._start(named=True)
        except Gone:
            return

    def _start(self, *, named: bool) -> Generator[Any, Any, Any]:
        producer_id, epoch = self.identity if named else (-1, -1)
        wanted = InitProducerId(self.transactional_id, self._world.timeout_ms, producer_id, epoch)
        while True:
            reply = yield lambda: self._world.bed.ask_init(wanted)
            code = code_of(reply)
            if code is ErrorCode.NONE:
                self.identity = (reply.producer_id, reply.producer_epoch)
                self.has_started = True
                return
            if code not in RETRY:
                raise Gone(code)

    def _transaction(self, name: str) -> Generator[Any, Any, Any]:
        told = self.told[name] = Told()
        is_fine = True
        for partition in self._random.sample(range(self._world.partition_count), self._random.randrange(1, 4)):
            is_fine = yield from self._produce(name, partition, told)
            if not is_fine:
                break
        commit = is_fine and self._random.random() < 0.7
        if told.written or self._world.bumps:
            yield from self._end(told, commit)

    def _produce(self, name: str, index: int, told: Told) -> Generator[Any, Any, Any]:
        """False: the transaction can only be aborted."""
        partition: ModelPartition = self._world.partitions[index]
        producer_id, epoch = self.identity
        guard = None
        if not self._world.bumps:
            yield from self._join(PartitionsToAdd(self.transactional_id, producer_id, epoch, (("t", index),)), 0)
        if not partition.is_open(self.identity):
            # The owner of the partition asks: is it in the transaction, or may it be from now on?
            guard = partition.guard(producer_id)
            asked = PartitionsToAdd(
                self.transactional_id, producer_id, epoch, (("t", index),), verify_only=not self._world.bumps
            )
            code = yield from self._join(asked, 2)
            if code is ErrorCode.TRANSACTION_ABORTABLE:
                return False
        if partition.write(name, self.identity, guard):
            told.written.add(index)
            self._world.check_not_fenced(self)
            return True
        return False

    def _join(self, asked: PartitionsToAdd, client_version: int) -> Generator[Any, Any, Any]:
        version = client_version if self._world.bumps else 0
        while True:
            reply = yield lambda: self._world.bed.ask_add(asked, client_version=version)
            code = code_of(reply)
            if code in (ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE):
                return code
            if code not in RETRY:
                raise Gone(code)

    def _end(self, told: Told, commit: bool) -> Generator[Any, Any, Any]:
        told.wanted_commit = commit
        end = EndTxn(self.transactional_id, *self.identity, commit, 2 if self._world.bumps else 0)
        while True:
            reply = yield lambda: self._world.bed.ask_end(end)
            code = code_of(reply)
            if code is ErrorCode.NONE:
                told.outcome = Fate.COMMITTED if commit else Fate.ABORTED
                if self._world.bumps:
                    self.identity = (reply.producer_id, reply.producer_epoch)
                return
            if code not in RETRY:
                raise Gone(code)


def code_of(reply: Any) -> ErrorCode | None:
    """None: the answer was lost."""
    if reply is LOST:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if isinstance(reply, Refused):
        return reply.code
    if hasattr(reply, "code"):
        code: ErrorCode = reply.code
        return code
    ((_, (result, *_)),) = reply.transactions
    row: ErrorCode = result.code
    return row
