"""One seed of a cluster: three brokers, their ensemble, clients and what goes wrong; then peace, and a last look."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from kafkad.core.controller.store import nodes
from kafkad.wire.api_table import APIS, serve_cluster
from tests.one_thread import installed
from tests.simulation.cluster.administrator import ClusterTopicMaker, MetadataReader, Mover
from tests.simulation.cluster.casting import (
    BROKERS,
    FLEETING,
    LEDGER,
    TOPIC,
    ClusterShape,
    draw_config,
    machine_of,
    port_of,
)
from tests.simulation.cluster.clients import (
    ClusterCommittedReader,
    ClusterConsumer,
    ClusterKeeper,
    ClusterProducer,
    ClusterTransactor,
)
from tests.simulation.cluster.coordinated import keepers, members, transactors
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.leaving import ClusterBroker, outcomes_checked
from tests.simulation.cluster.members import ClusterMember
from tests.simulation.cluster.ports import ClusterPorts
from tests.simulation.cluster.replicas import Replicas
from tests.simulation.ports import Patch
from tests.simulation.producer import Delivery
from tests.simulation.requests import Partition
from tests.simulation.rounds import Rounds
from tests.simulation.run import plugins, told
from tests.simulation.sockets import Port
from tests.simulation.topic_setup import TopicSetup
from tests.simulation.transactions import Ledger
from tests.simulation.truth import Truth

MOST_ROUNDS = 100_000
FLUSHING_SEEDS = 8
"""In one of so many runs each record is synced."""
SLOWEST_SYNC_MS = 2_000
"""Longer than an election."""
RUNS_A_COLLECTION = 8
"""What a run leaves behind is a few megabytes."""
ClusterClient = (
    ClusterProducer
    | ClusterConsumer
    | ClusterTopicMaker
    | Mover
    | ClusterTransactor
    | ClusterKeeper
    | ClusterMember
    | ClusterCommittedReader
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMutation:
    """Brokers that are wrong on purpose, in runs of a certain shape."""

    patches: Callable[[], Sequence[Patch]] = tuple
    shape: Callable[[ClusterShape], ClusterShape] = lambda shape: shape


FAITHFUL = ClusterMutation()


@contextmanager
def _cluster_apis() -> Iterator[None]:
    """As the supervisor of a broker in a cluster does before the fork; other tests have single brokers."""
    before = dict(APIS)
    serve_cluster()
    try:
        yield
    finally:
        APIS.clear()
        APIS.update(before)


_RUNS = count()
"""Of this process."""


@contextmanager
def _without_collections() -> Iterator[None]:
    """A collection closes what a dead process has left, at another moment each time. What was there before the first
    run stays: it is not looked through again.
    """
    run = next(_RUNS)
    if not run % RUNS_A_COLLECTION:
        gc.collect()
    if not run:
        gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class ClusterRun(Rounds):
    """Made from a seed; `go` raises `Violated`, `story` tells how it came to that."""

    def __init__(self, seed: int, folder: Path, mutation: ClusterMutation = FAITHFUL) -> None:
        super().__init__(seed, MOST_ROUNDS)
        shape = ClusterShape.draw(self.scheduler.random)
        self.shape = mutation.shape(replace(shape, flushes=seed % FLUSHING_SEEDS == 1))
        self.truth = Truth()
        self.ledger = Ledger()
        self._folder = folder
        self._mutation = mutation
        self._ports = ClusterPorts(self.scheduler, self._by_port)
        self._ports.slowest_sync_ms = SLOWEST_SYNC_MS if self.shape.flushes else 0
        self._ports.disk.short_chance = self.shape.short_chance
        if self.shape.loses_power:
            self._ports.disk.remember_what_is_synced()
        self._brokers: list[ClusterBroker] = []
        self._clients: list[ClusterClient] = []

    def _by_port(self) -> dict[int, ClusterBroker]:
        return {port_of(broker.config.node_id): broker for broker in self._brokers}

    def go(self) -> None:
        self.scheduler.note("-", str(self.shape))
        patches = [*self._ports.patches(), *self._mutation.patches()]
        scheduler = self.scheduler
        with told(scheduler), outcomes_checked(scheduler), _cluster_apis(), _without_collections(), installed(patches):
            try:
                self._play()
            finally:
                for client in self._clients:
                    client.hang_up()
                for broker in self._brokers:
                    if broker.is_running:
                        broker.crash()
                self._ports.close()

    def story(self) -> str:
        """What happened, without what differs each time."""
        return self.scheduler.story().replace(str(self._folder), "")

    def _play(self) -> None:
        for broker_id in BROKERS:
            machine_of(self._folder, broker_id).mkdir()
            config = draw_config(self.scheduler.random, self._folder, broker_id)
            self._brokers.append(ClusterBroker(self._ports, config, plugins(), name=f"b{broker_id}/"))
        replicas = self._replicas = Replicas(self._ports, self._brokers, self.shape.followed(), self.truth)
        self._ports.published = replicas.published
        self._ports.ensemble.on_change = self._state_changed
        self.truth.on_acknowledged = replicas.acknowledged
        for broker in self._brokers:
            broker.is_relieved = partial(replicas.is_relieved, broker.config.node_id)
            broker.start()
        self._until(lambda: len(self._registered()) == len(BROKERS), "all brokers are registered")
        self._make_topic(replicas)
        self._add_clients()
        self._storm(replicas)
        self._peace(replicas)
        replicas.audit()
        for producer in self._producers():
            for partition in self.shape.all_partitions():
                truth = self.truth.of(partition)
                truth.check(0)
                truth.check_once(producer.number, in_order=True)

    def _state_changed(self) -> None:
        self._replicas.state_changed()
        for broker in self._brokers:
            broker.state_changed()

    def _registered(self) -> list[str]:
        ensemble = self._ports.ensemble
        return ensemble.children(nodes.BROKER_IDS)

    def _producers(self) -> list[ClusterProducer]:
        return [each for each in self._clients if isinstance(each, ClusterProducer)]

    # The course of things.

    def _make_topic(self, replicas: Replicas) -> None:
        port = self.scheduler.random.choice(self._brokers).port
        topics = {TOPIC: (self.shape.partitions, self.shape.configs())}
        if self.shape.ledger():
            topics[LEDGER] = (len(self.shape.ledger()), self.shape.configs())
        setup = TopicSetup(self.scheduler, port, topics, replication_factor=len(BROKERS))
        self.scheduler.add(setup)
        self._until(lambda: setup.is_done and replicas.are_in_sync(), "the topic is created")
        self.scheduler.remove(setup)
        setup.hang_up()

    def _add_clients(self) -> None:
        random, shape = self.scheduler.random, self.shape
        partitions = shape.all_partitions()
        for number in range(shape.producers):
            partition = random.choice(partitions)
            producer = ClusterProducer(
                self.scheduler,
                self._brokers[0].port,
                self.truth,
                number=number,
                partitions=[partition],
                batches=shape.batches,
                delivery=Delivery.EXACTLY_ONCE,
                acks=-1,
                largest_record=300,
                short_chance=shape.short_chance,
            )
            producer.home, producer.leads = partition, self._leads
            self._clients.append(producer)
        for partition in partitions:
            consumer = ClusterConsumer(
                self.scheduler,
                self._brokers[0].port,
                self.truth,
                name=f"consumer-{partition[1]}",
                partitions=[partition],
                with_session=random.random() < 0.5,
                max_wait_ms=random.choice((100, 500)),
                max_bytes=random.choice((200, 1 << 20)),
                short_chance=shape.short_chance,
            )
            consumer.home = partition
            self._clients.append(consumer)
        self._clients += [*self._administrators(), *self._coordinated(), *self._readers()]
        for client in self._clients:
            client.find_port = self._find_port
            self.scheduler.add(client)

    def _administrators(self) -> list[ClusterTopicMaker | Mover]:
        shape, port = self.shape, self._brokers[0].port
        found: list[ClusterTopicMaker | Mover] = []
        if shape.moves:
            partitions = shape.followed()
            found.append(Mover(self.scheduler, port, partitions=partitions, brokers=BROKERS, steps=shape.moves))
        if shape.deletions:
            maker = ClusterTopicMaker(
                self.scheduler,
                port,
                topic=FLEETING,
                partitions=1,
                rounds=shape.deletions,
                short_chance=shape.short_chance,
            )
            maker.home = (FLEETING, 0)
            found.append(maker)
        return found

    def _coordinated(self) -> list[ClusterTransactor | ClusterKeeper | ClusterMember]:
        common = self.scheduler, self._brokers[0].port, self.shape
        leads = self._leads
        return [*transactors(*common, self.ledger, leads), *keepers(*common, leads), *members(*common, leads)]

    def _readers(self) -> list[ClusterCommittedReader]:
        random = self.scheduler.random
        found = []
        for partition in self.shape.ledger():
            reader = ClusterCommittedReader(
                self.scheduler,
                self._brokers[0].port,
                self.ledger,
                [partition],
                max_wait_ms=random.choice((30, 500)),
                max_bytes=random.choice((500, 1 << 20)),
            )
            reader.home = partition
            found.append(reader)
        return found

    def _leads(self, port: Port, partition: Partition) -> bool:
        """It is the leader, and knows that it is."""
        return any(broker.port is port and self._replicas.leads(broker, partition) for broker in self._brokers)

    def _find_port(self, partition: Partition) -> Port | None:
        """Of the leader, as far as one can know; now and then of anybody."""
        random = self.scheduler.random
        node = self._ports.ensemble.read(nodes.state_path(*partition))
        leader = nodes.decode_state(node.data).leader if node is not None else -1
        broker = self._brokers[leader - 1] if leader > 0 and random.random() < 0.8 else random.choice(self._brokers)
        return broker.port if broker.is_running else None

    def _storm(self, replicas: Replicas) -> None:
        shape = self.shape
        self.scheduler.pause_chance = shape.pause_chance
        self.scheduler.shuffle_speeds(shape.slowness)
        faults = ClusterFaults(
            self._ports,
            self._brokers,
            replicas,
            number=shape.faults,
            slowness=shape.slowness,
            troubles=shape.troubles,
        )
        while not faults.is_over:
            self._round()
        self.scheduler.note("-", "from here on there is peace")
        faults.calm()

    def _peace(self, replicas: Replicas) -> None:
        self._until(lambda: all(broker.is_whole for broker in self._brokers), "all brokers are whole again")
        for worker in self._clients:
            if not isinstance(worker, ClusterConsumer | ClusterCommittedReader):
                self._until(lambda: worker.is_done, f"{worker.name} is done")  # noqa: B023
        self._until(replicas.are_moved, "no replica moves any more")
        for consumer in self._clients:
            if isinstance(consumer, ClusterConsumer):
                consumer.is_calm = True
                self._until(consumer.has_read_everything, f"{consumer.name} has read everything")
        for reader in self._clients:
            if isinstance(reader, ClusterCommittedReader):
                self._until(reader.has_read_everything, f"{reader.name} has read everything, and nothing is held back")
        self.ledger.check()
        self._until(replicas.are_in_sync, "all replicas are in sync")
        self._until(replicas.are_where_they_belong, "nobody has a replica but those that the assignments name")
        for broker in self._brokers:
            asking = MetadataReader(self.scheduler, broker.port, f"reader-{broker.name}", replicas.metadata)
            self.scheduler.add(asking)
            self._until(asking.knows_all, f"{broker.name} knows how all partitions are")
            self.scheduler.remove(asking)
            asking.hang_up()
        # The last of all: a transaction that is told to be committed is completed in its log a little later.
        self._until(replicas.are_equal, "all replicas are equal")
