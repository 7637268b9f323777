"""Thousands of random runs of transactions: zombies, crashes, lost and doubled requests, slow replicas, failed markers.

After every event no partition may contradict another, and no fenced producer may write. At the end every transaction is
decided, the same everywhere, as its producer was told. All seeds are random: `transaction_lives`.
"""

from collections.abc import Callable, Generator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kafkad.core.coordinator.shard import Outcome, TxnMarkersToSend
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.state import NO_EPOCH
from kafkad.core.types import LAST_PRODUCER_EPOCH
from kafkad.wire.records import transaction_records
from tests.amounts import seeds_of_tests
from tests.core.transactions.bed import TransactionBed
from tests.core.transactions.model import LOST, Fate, Identity, ModelPartition, ModelProducer

AT_ONCE = 25
EVENTS = 250
PARTITIONS = 4
IDS = ("x", "y")


class ModelBed(TransactionBed):
    """Each life of the coordinator has an epoch of its own; what was not replicated may be lost with it."""

    incarnations = 0

    def start(self) -> None:
        self.incarnations += 1
        super().start()

    def _shard(self) -> Any:
        shard = super()._shard()
        shard._decisions._coordinator_epoch = self.incarnations
        return shard


class Task:
    """A producer's life and the request whose answer it waits for."""

    def __init__(self, producer: ModelProducer, incarnation: Generator[Any, Any, None]) -> None:
        self.producer = producer
        self.incarnation = incarnation
        self.send: Callable[[], int] | None = None
        self.tokens: list[int] = []


class World:
    """All of it, drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.level = self.random.choice((0, 1, 2, 2))
        self.bumps = self.level == 2
        self.timeout_ms = self.random.choice((1_000, 20_000))
        self.partition_count = PARTITIONS
        self.partitions = [ModelPartition() for _ in range(PARTITIONS)]
        self.bed = ModelBed(transaction_version=self.level, abort_interval_ms=500)
        self.producers: list[ModelProducer] = []
        self._tasks: list[Task] = []
        self._late: list[Callable[[], int]] = []
        self._markers: list[tuple[TxnMarkersToSend, set[int]]] = []
        self._fenced: dict[str, set[Identity]] = {name: set() for name in IDS}
        if self.random.random() < 0.3:
            self._age()

    def _age(self) -> None:
        """The first id has nearly no epochs left."""
        producer_id, _ = self.bed.started("x")
        left = self.random.randrange(1, 6)
        known = self.bed.shard._cache.get("x")
        assert known is not None
        aged = replace(known, producer_epoch=LAST_PRODUCER_EPOCH - 1 - left, last_producer_epoch=NO_EPOCH)
        self.bed.perform(Outcome(records=[aged]))
        assert self.bed.describe("x").producer_id == producer_id

    # Events.

    def live(self) -> None:
        for _ in range(EVENTS):
            self._event()
            self.check()
        self._quiet_down()
        self.check_at_the_end()

    def _event(self) -> None:
        draw = self.random.random()
        if self.random.random() < 0.1:
            # What fails does so for a few events.
            self.bed.log.refusal = None
            self.bed.producer_ids.is_dry = False
        if draw < 0.04 and len(self.producers) < 8:
            self._new_producer()
        elif draw < 0.70:
            self._let_a_producer_go_on()
        elif draw < 0.72:
            self._deliver_something_late()
        elif draw < 0.84:
            self._write_a_marker()
        elif draw < 0.85:
            self._lose_a_producer()
        elif draw < 0.91:
            self.bed.advance(self.random.choice((1, 50, 700, 6_000)))
        elif draw < 0.94:
            self._lag_or_catch_up()
        elif draw < 0.96:
            self.bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        elif draw < 0.975:
            self.bed.replicate()
        elif draw < 0.985:
            self.bed.producer_ids.is_dry = not self.bed.producer_ids.is_dry
        else:
            self._lose_the_coordinator()
        self._collect_markers()

    def _new_producer(self) -> None:
        name = self.random.choice(IDS)
        producer = ModelProducer(self, name, f"{name}/{len(self.producers)}")
        self.producers.append(producer)
        self._tasks.append(Task(producer, producer.run()))

    def _let_a_producer_go_on(self) -> None:
        """It asks, hears an answer, or gives up waiting and asks again."""
        if not self._tasks:
            return
        task = self.random.choice(self._tasks)
        answered = [token for token in task.tokens if token in self.bed.answers]
        if task.send is None:
            self._resume(task, None)
        elif answered and self.random.random() < 0.9:
            self._resume(task, self.bed.answers[self.random.choice(answered)])
        elif answered or self.random.random() < 0.1:
            if self.bumps and self.random.random() < 0.5:
                self._late.append(task.send)
            self._resume(task, LOST)

    def _resume(self, task: "Task", answer: Any) -> None:
        producer = task.producer
        had_started = producer.has_started
        try:
            task.send = task.incarnation.send(answer)
        except StopIteration:
            self._tasks.remove(task)
            return
        finally:
            if producer.has_started and not had_started:
                self._note_start(producer)
        # Some are doubled on the way.
        task.tokens = [task.send() for _ in range(2 if self.random.random() < 0.1 else 1)]

    def _lose_a_producer(self) -> None:
        """Its transaction stays open until its time is up, or another with its id comes."""
        if self._tasks:
            self._tasks.remove(self.random.choice(self._tasks))

    def _deliver_something_late(self) -> None:
        """Only since version 2 does the coordinator know for sure which transaction a request is of."""
        if self._late:
            self._late.pop(self.random.randrange(len(self._late)))()

    def _note_start(self, producer: ModelProducer) -> None:
        """From now on nobody who was there before may write with this id."""
        others = {each.identity for each in self.producers if each.transactional_id == producer.transactional_id}
        known = {identity for identity in others if identity[0] >= 0}
        self._fenced[producer.transactional_id] |= {identity for identity in known if identity < producer.identity}

    def _collect_markers(self) -> None:
        ordered, self.bed.markers = self.bed.markers, []
        self._markers += [(wanted, {index for _, index in wanted.partitions}) for wanted in ordered]

    def _write_a_marker(self) -> None:
        if not self._markers:
            return
        at = self.random.randrange(len(self._markers))
        wanted, left = self._markers[at]
        index = self.random.choice(sorted(left))
        self.partitions[index].mark(wanted)
        if self.random.random() < 0.2:
            # Written, but nobody heard of it: it is tried again.
            return
        left.remove(index)
        if not left:
            del self._markers[at]
            if wanted.coordinator_epoch == self.bed.incarnations:
                self.bed.markers_written(wanted.transactional_id, wanted.producer_epoch)

    def _lag_or_catch_up(self) -> None:
        if self.bed.log.is_lagging:
            self.bed.catch_up()
            return
        self.bed.log.lag()
        if self.random.random() < 0.3:
            # Long enough that answers are given up.
            self._let_a_producer_go_on()
            self.bed.advance(6_000)

    def _lose_the_coordinator(self) -> None:
        log = self.bed.log
        if self.random.random() < 0.3:
            self.bed.resign()
        if log.is_lagging and self.random.random() < 0.5:
            while log.log_end_offset > log.replicated:
                log.written.pop()
                log.log_end_offset -= 1
        log.is_lagging = False
        log.refusal = None
        self.bed.crash()

    def _quiet_down(self) -> None:
        """Nothing fails any more; every producer lives to its end."""
        self.bed.producer_ids.is_dry = False
        self.bed.log.refusal = None
        self.bed.catch_up()
        for _ in range(3_000):
            self._collect_markers()
            if self._markers:
                self._write_a_marker()
            self._let_a_producer_go_on()
            if self.random.random() < 0.01:
                self.bed.advance(100)
        self.bed.advance(self.timeout_ms + 2_000)
        for _ in range(1_000):
            self._collect_markers()
            self._write_a_marker()
        self.bed.advance(1_000)

    # Invariants.

    def check_not_fenced(self, producer: ModelProducer) -> None:
        assert producer.identity not in self._fenced[producer.transactional_id], "a zombie has written"

    def check(self) -> None:
        for name, fates in self._fates().items():
            assert not {Fate.COMMITTED, Fate.ABORTED} <= fates, f"{name} is committed here and aborted there"

    def _fates(self) -> dict[str, set[Fate]]:
        found: dict[str, set[Fate]] = {}
        for partition in self.partitions:
            for name, fate in partition.fates.items():
                found.setdefault(name, set()).add(fate)
        return found

    def check_at_the_end(self) -> None:
        assert self._tasks == [], "a producer never comes to its end"
        fates = self._fates()
        for producer in self.producers:
            for name, told in producer.told.items():
                final = fates.get(name, set())
                assert Fate.OPEN not in final, f"{name} hangs"
                if told.outcome is not Fate.OPEN:
                    assert final <= {told.outcome}, f"{name}: told {told.outcome}, is {final}"
                if not told.wanted_commit:
                    assert Fate.COMMITTED not in final, f"{name} is committed, and nobody wanted it"
        states = {name: self.bed.state(name) for name in IDS}
        assert not {"PrepareCommit", "PrepareAbort", "Ongoing"} & set(states.values()), states
        assert self.bed.unanswered() == []
        self._check_that_loading_gives_the_same()

    def _check_that_loading_gives_the_same(self) -> None:
        live = self._state()
        self.bed.crash()
        assert self._state() == live

    def _state(self) -> list[tuple[bytes, bytes | None]]:
        """As bytes: version 0 of a value says less than a coordinator knows."""
        return [transaction_records.encode(record) for record in self.bed.shard._cache.oldest_first()]


@pytest.mark.parametrize("seeds", seeds_of_tests("transaction_lives", AT_ONCE))
def test_transactions_are_all_or_nothing_whatever_happens(seeds: range) -> None:
    for seed in seeds:
        try:
            World(seed).live()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
