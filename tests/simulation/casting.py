"""What a run is made of: how many processes, which configuration, topics and clients; all drawn from the seed."""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kafkad.config import BrokerConfig, load
from tests.simulation.admin import RecordDeleter, TopicMaker
from tests.simulation.client import Client
from tests.simulation.committed import CommittedReader
from tests.simulation.compacted import COMPACTED
from tests.simulation.consumer import Consumer
from tests.simulation.offsets import OffsetKeeper
from tests.simulation.producer import Delivery, Producer
from tests.simulation.requests import Partition
from tests.simulation.scheduler import FOREVER, Scheduler
from tests.simulation.sockets import Port
from tests.simulation.transactions import Ledger, TransactionalProducer
from tests.simulation.truth import Truth

PLAIN, TRIMMED, RETAINED, LEDGER = "plain", "trimmed", "retained", "ledger"
"""A topic that keeps all, one of which clients delete records, one that forgets by itself, one of transactions; beside
them `COMPACTED`, one that keeps the newest of each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large and how rough a run is."""

    networks: int
    workers: int
    directories: int
    partitions: int
    short_chance: float
    """How often a socket or file takes or gives less than it was asked for."""
    pause_chance: float
    """How often a process is held up at a joint."""
    slowness: float
    faults: int
    segment_bytes: int
    transactors: int
    keepers: int
    loses_power: bool = False
    """The machine does; what was acknowledged is on disk then, by kafkad.log.flush.acks."""

    @classmethod
    def draw(cls, random: Random) -> "Shape":
        networks, workers = random.choice(((1, 1), (1, 1), (1, 2), (2, 1), (2, 2)))
        return cls(
            networks=networks,
            workers=workers,
            directories=random.choice((1, 2)),
            partitions=random.choice((1, 2, 3)),
            short_chance=random.choice((0.0, 0.0, 0.05, 0.3)),
            pause_chance=random.choice((0.0, 0.01, 0.03, 0.1)),
            slowness=random.choice((0.0, 0.5, 0.9)),
            faults=random.choice((0, 2, 4, 8)),
            segment_bytes=random.choice((2_500, 2_500, 6_000, 130_000)),
            transactors=random.choice((0, 0, 1, 2)),
            keepers=random.choice((0, 0, 1, 2)),
        )

    def all_partitions(self) -> list[Partition]:
        topics = {PLAIN: self.partitions, TRIMMED: self.partitions, RETAINED: 1, COMPACTED: 1}
        return [(topic, at) for topic, count in topics.items() for at in range(count)]


def draw_config(random: Random, shape: Shape, folder: Path, directories: list[Path]) -> BrokerConfig:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": ",".join(map(str, directories)),
        "kafkad.runtime.dir": str(folder / "run"),
        "kafkad.metrics.listener": "",
        "kafkad.arena.bytes": str(1 << 20),
        "socket.request.max.bytes": str(1 << 19),
        "num.network.threads": str(shape.networks),
        "num.io.threads": str(shape.workers),
        "log.cleaner.threads": "1",
        "log.cleaner.backoff.ms": str(random.choice((10, 10, 200))),
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "log.initial.task.delay.ms": "10",
        "log.retention.check.interval.ms": str(random.choice((100, 1_000))),
        "log.segment.delete.delay.ms": str(random.choice((0, 0, 40))),
        "log.flush.offset.checkpoint.interval.ms": str(random.choice((20, 2_000))),
        "log.flush.start.offset.checkpoint.interval.ms": str(random.choice((20, 2_000))),
        "max.incremental.fetch.session.cache.slots": str(random.choice((2, 1_000))),
        "kafkad.log.flush.acks": str(shape.loses_power).lower(),
    }
    return load(None, list(settings.items()), cores=2, environ={}, is_root=False)


def draw_topics(random: Random, shape: Shape) -> dict[str, tuple[int, dict[str, str]]]:
    """Partitions and configuration by name."""
    small = {"internal.segment.bytes": str(shape.segment_bytes), "index.interval.bytes": "200"}
    synced = random.choice(({}, {"flush.messages": "1"}, {"flush.ms": "30"}))
    topics = {LEDGER: (2, small)} if shape.transactors else {}
    return topics | {
        PLAIN: (shape.partitions, {**synced, **(small if random.random() < 0.7 else {})}),
        TRIMMED: (shape.partitions, small),
        RETAINED: (1, {**small, "retention.ms": str(random.choice((30, 1_000)))}),
        COMPACTED: (1, {**synced, **_compacted(random, shape)}),
    }


def _compacted(random: Random, shape: Shape) -> dict[str, str]:
    """Segments of a few batches, which are cleaned as soon as they are sealed."""
    return {
        "cleanup.policy": "compact",
        "internal.segment.bytes": str(shape.segment_bytes),
        "index.interval.bytes": "200",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(random.choice((1_000, 86_400_000))),
    }


@dataclass(slots=True, kw_only=True)
class Cast:
    """The clients of a run."""

    producers: list[Producer] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    admins: list[TopicMaker | RecordDeleter] = field(default_factory=list)
    transactors: list[TransactionalProducer] = field(default_factory=list)
    readers: list[CommittedReader] = field(default_factory=list)
    keepers: list[OffsetKeeper] = field(default_factory=list)

    def everybody(self) -> list[Client]:
        return [*self.workers(), *self.consumers, *self.readers]

    def workers(self) -> list[Producer | TopicMaker | RecordDeleter | TransactionalProducer | OffsetKeeper]:
        """Who is done at some time."""
        return [*self.producers, *self.admins, *self.transactors, *self.keepers]


def draw_cast(scheduler: Scheduler, port: Port, shape: Shape, truth: Truth, ledger: Ledger) -> Cast:
    random = scheduler.random
    truth.of((RETAINED, 0)).deleted_up_to = FOREVER
    producers = [
        _producer(scheduler, port, shape, truth, number, _some(random, shape))
        for number in range(random.choice((1, 2, 3)))
    ]
    producers.append(_producer(scheduler, port, shape, truth, len(producers), [(COMPACTED, 0)]))
    return Cast(
        producers=producers,
        consumers=[_consumer(scheduler, port, shape, truth, number) for number in range(random.choice((1, 2)))],
        admins=_admins(scheduler, port, shape, truth),
        transactors=[_transactor(scheduler, port, shape, ledger, number) for number in range(shape.transactors)],
        readers=[_reader(scheduler, port, ledger)] if shape.transactors else [],
        keepers=[_keeper(scheduler, port, shape, number) for number in range(shape.keepers)],
    )


def _transactor(scheduler: Scheduler, port: Port, shape: Shape, ledger: Ledger, number: int) -> TransactionalProducer:
    return TransactionalProducer(
        scheduler,
        port,
        ledger,
        number=number,
        partitions=[(LEDGER, 0), (LEDGER, 1)],
        transactions=scheduler.random.choice((2, 5)),
        short_chance=shape.short_chance,
    )


def _keeper(scheduler: Scheduler, port: Port, shape: Shape, number: int) -> OffsetKeeper:
    return OffsetKeeper(
        scheduler,
        port,
        number=number,
        partition=(PLAIN, 0),
        commits=scheduler.random.choice((3, 12)),
        short_chance=shape.short_chance,
    )


def _reader(scheduler: Scheduler, port: Port, ledger: Ledger) -> CommittedReader:
    random = scheduler.random
    return CommittedReader(
        scheduler,
        port,
        ledger,
        [(LEDGER, 0), (LEDGER, 1)],
        max_wait_ms=random.choice((30, 5_000)),
        max_bytes=random.choice((500, 1 << 20)),
    )


def _some(random: Random, shape: Shape) -> list[Partition]:
    partitions = shape.all_partitions()
    return random.sample(partitions, random.randint(1, len(partitions)))


def _producer(
    scheduler: Scheduler, port: Port, shape: Shape, truth: Truth, number: int, partitions: list[Partition]
) -> Producer:
    random = scheduler.random
    return Producer(
        scheduler,
        port,
        truth,
        number=number,
        partitions=partitions,
        batches=random.choice((10, 30)),
        delivery=random.choice((Delivery.EXACTLY_ONCE, *Delivery)),
        acks=random.choice((1, -1)),
        largest_record=20_000 if shape.segment_bytes > 100_000 else 300,
        short_chance=shape.short_chance,
    )


def _consumer(scheduler: Scheduler, port: Port, shape: Shape, truth: Truth, number: int) -> Consumer:
    random = scheduler.random
    return Consumer(
        scheduler,
        port,
        truth,
        name=f"consumer-{number}",
        partitions=_some(random, shape),
        with_session=random.random() < 0.6,
        max_wait_ms=random.choice((30, 300, 5_000, 30_000)),
        max_bytes=random.choice((500, 50_000, 1 << 20)),
        short_chance=shape.short_chance,
    )


def _admins(scheduler: Scheduler, port: Port, shape: Shape, truth: Truth) -> list[TopicMaker | RecordDeleter]:
    random = scheduler.random
    trimmed = [(TRIMMED, at) for at in range(shape.partitions)]
    deleter = RecordDeleter(scheduler, port, truth, partitions=trimmed, times=random.choice((0, 3, 6)))
    if random.random() < 0.4:
        return [deleter]
    maker = TopicMaker(
        scheduler,
        port,
        topic="brief",
        partitions=random.choice((1, 3)),
        rounds=random.choice((1, 3)),
        short_chance=shape.short_chance,
    )
    return [deleter, maker]
