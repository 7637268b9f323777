"""Transactions of a producer, one after the other, and what a reader of committed records may see of them.

All of a transaction that was said to be committed is read, once and in order; nothing of one that was aborted; of one
whose end nobody heard of, all or nothing.
"""

from collections.abc import Callable
from enum import Enum

from tests.simulation import txn_requests
from tests.simulation.client import Client
from tests.simulation.requests import Partition
from tests.simulation.scheduler import Scheduler, Violated
from tests.simulation.sockets import Port
from tests.simulation.truth import make_batch
from tests.tools.raw_requests import read_produced

RETRIABLE = {3, 5, 6, 7, 14, 15, 16, 19, 20, 51, 56, 88}
"""No such partition yet, no leader, timed out, too few replicas; the coordinator loads, is not there or can not be
asked, is busy, or its offsets wait for the end of a transaction."""
BEGIN_AGAIN = {22, 45, 47, 48, 49, 59, 90, 92}
"""Illegal generation, out of order, fenced, not in a transaction, unknown: a new epoch is the way out."""
FIRST_OF_NEXT = 100
"""Numbers of a transaction's records."""


class Outcome(Enum):
    """What the producer knows of a transaction."""

    OPEN = "open"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Ledger:
    """Every transaction of every producer: what it wrote where, and how it ended."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[int, int], Outcome] = {}
        self.written: dict[tuple[int, int], dict[Partition, list[int]]] = {}
        self.ends: dict[Partition, int] = {}
        """Where what was acknowledged ends; a marker has to follow."""
        self.seen: dict[Partition, list[tuple[int, int]]] = {}
        """(producer, number) of the committed records, as they were read."""

    def check(self) -> None:
        """Everything that was committed has been read."""
        rows = {partition: set(found) for partition, found in self.seen.items()}
        for (producer, transaction), parts in self.written.items():
            wanted = {(partition, (producer, n)) for partition, numbers in parts.items() for n in numbers}
            found = {(partition, row) for partition, row in wanted if row in rows.get(partition, ())}
            outcome = self.outcomes[producer, transaction]
            what = f"transaction {transaction} of producer {producer}, {outcome.value}"
            if outcome is Outcome.COMMITTED and found != wanted:
                raise Violated(f"{what}: {sorted(wanted - found)} can't be read")
            if outcome is Outcome.ABORTED and found:
                raise Violated(f"{what}: {sorted(found)} can be read")
            if found and found != wanted:
                raise Violated(f"{what}: {len(found)} of {len(wanted)} records can be read")
        for partition, found_rows in self.seen.items():
            if len(found_rows) != len(set(found_rows)):
                raise Violated(f"{partition}: committed records were read twice from one start to end")


class TransactionalProducer(Client):
    """One request at a time, each until it is answered."""

    def __init__(
        self,
        scheduler: Scheduler,
        port: Port,
        ledger: Ledger,
        *,
        number: int,
        partitions: list[Partition],
        transactions: int,
        short_chance: float,
    ) -> None:
        super().__init__(scheduler, port, f"transactor-{number}", short_chance=short_chance)
        self.number = number
        self._id = f"transactor-{number}"
        self._ledger = ledger
        self._partitions = partitions
        self._left = transactions
        self._transaction = 0
        self._producer = (-1, -1)
        self._sequences: dict[Partition, int] = {}
        self._added: set[Partition] = set()
        self._batches_left = 0
        self._next: Callable[[], None] = self._find

    @property
    def is_done(self) -> bool:
        return self._left <= 0 and not self.open

    def step(self) -> None:
        if not self.open and not self.is_done:
            self._next()

    def reach(self, _partition: Partition | None) -> bool:
        """Be connected to who leads it, or to the coordinator; False while there is nobody."""
        if not self.is_connected:
            self.connect()
        return True

    def _then(self, what: Callable[[], None], delay_ms: float = 0.0) -> None:
        self._next = what
        self.wake_in(delay_ms)

    def _ask(
        self,
        what: str,
        make: Callable[[int], bytes],
        read: Callable[[bytes], int],
        tick: Callable[[], None],
        to: Partition | None = None,
    ) -> None:
        """Ask until it is answered; what is no use is begun again with a new epoch."""
        again = self._next
        if not self.reach(to):
            self._then(again, 50)
            return

        def answered(body: bytes | None) -> None:
            error = read(body) if body is not None else 7
            self.note(f"{what}: error {error}")
            if error == 0:
                tick()
            elif error in RETRIABLE:
                self._then(again, 10)
            elif error in BEGIN_AGAIN:
                self._abandon()
            else:
                raise Violated(f"{self.name} got error {error}: {what}")

        self.ask(what, make, answered)

    def _abandon(self) -> None:
        """A new epoch ends what is open. A commit that was asked for may have come through."""
        key = self.number, self._transaction
        if self._ledger.outcomes.get(key) is Outcome.OPEN:
            self._ledger.outcomes[key] = Outcome.ABORTED
            self._left -= 1
        elif self._ledger.outcomes.get(key) is Outcome.COMMITTING:
            self._left -= 1
        self._then(self._initialize, 5)

    def _find(self) -> None:
        self._ask(
            "find the coordinator",
            lambda at: txn_requests.find_coordinator(self._id, at),
            txn_requests.read_coordinator,
            lambda: self._then(self._initialize),
        )

    def _initialize(self) -> None:
        def read(body: bytes) -> int:
            error, *producer = txn_requests.read_producer(body)
            if not error:
                self._initialized(producer[0], producer[1])
            return error

        def tick() -> None:
            self._sequences.clear()
            self._then(self._begin)

        self._ask("init", lambda at: txn_requests.init_producer_id(self._id, at), read, tick)

    def _initialized(self, producer_id: int, epoch: int) -> None:
        """A coordinator that has forgotten the transactional id would give it another producer."""
        known_id, known_epoch = self._producer
        if known_id >= 0 and (producer_id != known_id or epoch <= known_epoch):
            raise Violated(f"{self.name} was producer {known_id} in epoch {known_epoch}, is {producer_id} in {epoch}")
        self._producer = producer_id, epoch

    def _begin(self) -> None:
        self._transaction += 1
        key = self.number, self._transaction
        self._ledger.outcomes[key] = Outcome.OPEN
        self._ledger.written[key] = {}
        self._added.clear()
        self._batches_left = self.scheduler.random.choice((0, 1, 2, 5))
        self._then(self._go_on_writing)

    def _go_on_writing(self) -> None:
        random = self.scheduler.random
        if not self._batches_left and not self._added:
            # Nothing was written: there is nothing to end.
            self._ledger.outcomes[self.number, self._transaction] = Outcome.ABORTED
            self._left -= 1
            self._then(self._begin)
            return
        if not self._batches_left:
            end = self._commit if random.random() < 0.7 else self._abort
            self._then(lambda: self._finish(end), random.choice((0, 0, 30)))
            return
        self._batches_left -= 1
        partition = random.choice(self._partitions)
        written = self._ledger.written[self.number, self._transaction]
        first = self._transaction * FIRST_OF_NEXT + sum(map(len, written.values()))
        numbers = range(first, first + random.choice((1, 3)))
        sequence = self._sequences.get(partition, 0)
        data = make_batch(
            self.number,
            partition,
            numbers,
            self.scheduler.wall_ms,
            10,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        self._sequences[partition] = sequence + len(numbers)
        written.setdefault(partition, []).extend(numbers)
        self._then(lambda: self._add(partition, data, len(numbers)))

    def _add(self, partition: Partition, data: bytes, count: int) -> None:
        def tick() -> None:
            self._added.add(partition)
            self._then(lambda: self._produce(partition, data, count))

        if partition in self._added:
            tick()
            return
        self._ask(
            f"add {partition}",
            lambda at: txn_requests.add_partition(self._id, self._producer, partition, at),
            txn_requests.read_added,
            tick,
        )

    def _read_produced(self, body: bytes, partition: Partition, count: int) -> int:
        error, offset = read_produced(body)[partition]
        if not error:
            self._ledger.ends[partition] = max(self._ledger.ends.get(partition, 0), offset + count)
        return error

    def _produce(self, partition: Partition, data: bytes, count: int) -> None:
        self._ask(
            f"produce to {partition} in {self._transaction}",
            lambda at: txn_requests.produce(self._id, {partition: data}, at),
            lambda body: self._read_produced(body, partition, count),
            lambda: self._then(self._go_on_writing),
            partition,
        )

    def _finish(self, end: Callable[[], None]) -> None:
        """All records are there."""
        end()

    def _commit(self) -> None:
        self._ledger.outcomes[self.number, self._transaction] = Outcome.COMMITTING
        self._end(Outcome.COMMITTED)

    def _abort(self) -> None:
        self._end(Outcome.ABORTED)

    def _end(self, outcome: Outcome) -> None:
        def tick() -> None:
            self._ledger.outcomes[self.number, self._transaction] = outcome
            self._left -= 1
            self._then(self._begin)

        self._ask(
            f"end {self._transaction}: {outcome.value}",
            lambda at: txn_requests.end_txn(self._id, self._producer, outcome is Outcome.COMMITTED, at),
            txn_requests.read_ended,
            tick,
        )
