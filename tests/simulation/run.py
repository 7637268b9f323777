"""One seed: a broker, its clients and what goes wrong; then peace, and a last look at everything."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kafkad.plugin_loading import Plugins
from kafkad.plugin_loading import load as load_plugins
from kafkad.processes.network.loop import NetworkProcess
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.worker.loop import WorkerProcess
from tests.one_thread import installed
from tests.simulation.broker import Broker
from tests.simulation.casting import RETAINED, Cast, Shape, draw_cast, draw_config, draw_topics
from tests.simulation.compacted import COMPACTED, CompactedTruth
from tests.simulation.consumer import Auditor
from tests.simulation.faults import Faults
from tests.simulation.invariants import Invariants
from tests.simulation.ports import Patch, Ports
from tests.simulation.producer import Delivery
from tests.simulation.rounds import Rounds
from tests.simulation.scheduler import MS, NS, Scheduler, Violated
from tests.simulation.topic_setup import TopicSetup
from tests.simulation.transactions import Ledger
from tests.simulation.truth import Truth

QUIET_NS = 100 * MS
"""When everybody sleeps for so long, nothing is under way, and nobody looks again in a moment."""
MOST_ROUNDS = 60_000
POWER_FAILS_EACH = 4
"""In so many seeds one has a machine that loses its power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A broker that is wrong on purpose, in runs of a certain shape: the simulation has to notice."""

    shape: Callable[[Shape], Shape] = lambda shape: shape
    patches: Callable[[], Sequence[Patch]] = tuple
    worker: Callable[[ChildContext], WorkerProcess] = WorkerProcess
    network: Callable[[ChildContext], NetworkProcess] = NetworkProcess


FAITHFUL = Mutation()


@cache
def plugins() -> Plugins:
    return load_plugins(enabled=False)


class _Story(logging.Handler):
    """What the broker logs is part of the story."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(logging.INFO)
        self._scheduler = scheduler

    def emit(self, record: logging.LogRecord) -> None:
        strand = self._scheduler.current
        who = strand.name if strand is not None else "-"
        self._scheduler.note(who, f"{record.levelname}: {record.getMessage()}")


@contextmanager
def told(scheduler: Scheduler) -> Iterator[None]:
    """The log goes into the story, and nowhere else."""
    logger, story = logging.getLogger("kafkad"), _Story(scheduler)
    before = logger.propagate, logger.level
    logger.addHandler(story)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(story)
        logger.propagate = before[0]
        logger.setLevel(before[1])


class Run(Rounds):
    """Made from a seed; `go` raises `Violated`, `scheduler.story()` tells how it came to that."""

    def __init__(self, seed: int, folder: Path, mutation: Mutation = FAITHFUL) -> None:
        super().__init__(seed, MOST_ROUNDS)
        shape = replace(Shape.draw(self.scheduler.random), loses_power=seed % POWER_FAILS_EACH == 0)
        self.shape = mutation.shape(shape)
        self.truth = Truth(CompactedTruth((COMPACTED, 0)))
        self.ledger = Ledger()
        self._folder = folder
        self._directories = [folder / f"disk-{at}" for at in range(self.shape.directories)]
        self._mutation = mutation
        self._ports = Ports(self.scheduler)
        self._ports.disk.short_chance = self.shape.short_chance
        if self.shape.loses_power:
            self._ports.disk.remember_what_is_synced()
        self._cast = Cast()
        self.broker: Broker | None = None

    def go(self) -> None:
        self.scheduler.note("-", str(self.shape))
        with told(self.scheduler), installed([*self._ports.patches(), *self._mutation.patches()]):
            broker = self.broker = Broker(
                self._ports,
                draw_config(self.scheduler.random, self.shape, self._folder, self._directories),
                plugins(),
                worker=self._mutation.worker,
                network=self._mutation.network,
            )
            try:
                self._play(broker, Invariants(broker, self.truth))
            finally:
                for client in self._cast.everybody():
                    client.hang_up()
                if broker.is_running:
                    broker.crash()

    def story(self) -> str:
        """What happened, without what differs each time."""
        return self.scheduler.story().replace(str(self._folder), "")

    def _play(self, broker: Broker, invariants: Invariants) -> None:
        self._invariants = invariants
        broker.on_start = invariants.forget
        self._ports.published = invariants.published
        self.truth.on_acknowledged = invariants.acknowledged
        broker.start()
        self._make_topics(broker)
        self._cast = draw_cast(self.scheduler, broker.port, self.shape, self.truth, self.ledger)
        for client in self._cast.everybody():
            self.scheduler.add(client)
        self._storm(broker)
        self._peace(broker)
        self._audit(broker)
        self._farewell(broker)

    # The course of things.

    def _everybody_sleeps(self, for_ns: int) -> None:
        if for_ns > QUIET_NS and self.broker is not None and self.broker.is_asleep:
            self._invariants.nothing_is_under_way()
            for consumer in self._cast.consumers:
                consumer.check_not_forgotten()

    def _make_topics(self, broker: Broker) -> None:
        topics = draw_topics(self.scheduler.random, self.shape)
        self.truth.of((RETAINED, 0)).retention_ms = int(topics[RETAINED][1]["retention.ms"])
        setup = TopicSetup(self.scheduler, broker.port, topics)
        self.scheduler.add(setup)
        self._until(lambda: setup.is_done, "the topics are created")
        self.scheduler.remove(setup)
        setup.hang_up()

    def _storm(self, broker: Broker) -> None:
        scheduler, shape = self.scheduler, self.shape
        scheduler.pause_chance = shape.pause_chance
        scheduler.shuffle_speeds(shape.slowness)
        faults = Faults(
            scheduler,
            broker,
            self._directories,
            number=shape.faults,
            slowness=shape.slowness,
            loses_power=shape.loses_power,
        )
        while not faults.is_over:
            self._round()
            faults.keep_up()
        scheduler.note("-", "from here on there is peace")
        faults.calm()
        while broker.is_stopping:
            self._round()
        faults.keep_up()

    def _peace(self, broker: Broker) -> None:
        self._until(lambda: broker.is_whole, "the broker is whole again")
        for client in self._cast.workers():
            self._until(lambda: client.is_done, f"{client.name} is done")  # noqa: B023
        for consumer in self._cast.consumers:
            consumer.is_calm = True
            self._until(consumer.has_read_everything, f"{consumer.name} has read everything")

        for reader in self._cast.readers:
            self._until(reader.has_read_everything, f"{reader.name} has read everything, and nothing is held back")
        self.ledger.check()

    def _audit(self, broker: Broker) -> None:
        """Every log from its start to its end, against everything that was ever said."""
        auditor = Auditor(self.scheduler, broker.port, self.truth, self.shape.all_partitions())
        self.scheduler.add(auditor)
        self._until(auditor.has_read_everything, "all logs are read")
        self.scheduler.remove(auditor)
        auditor.hang_up()
        for partition in self.shape.all_partitions():
            truth = self.truth.of(partition)
            truth.check(auditor.starts[partition])
            for producer in self._cast.producers:
                if producer.delivery is not Delivery.AT_LEAST_ONCE:
                    # Without sequence numbers a request on a new connection may overtake those of the one before.
                    truth.check_once(producer.number, in_order=producer.delivery is Delivery.EXACTLY_ONCE)

    def _farewell(self, broker: Broker) -> None:
        """All clients go, then the broker stops."""
        for client in self._cast.everybody():
            self.scheduler.remove(client)
            client.hang_up()
        until_ns = self.scheduler.now_ns + 1 * NS
        while self.scheduler.now_ns < until_ns:
            self._round()
        self._invariants.nobody_is_left()
        broker.stop()
        self._until(lambda: not broker.is_running, "the broker stops")
        if not broker.was_clean:
            raise Violated("the broker did not stop cleanly, and nothing was in its way")
