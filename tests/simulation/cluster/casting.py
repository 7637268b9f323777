"""What a run of a cluster is made of, drawn from its seed."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

from kafkad.config import BrokerConfig, load
from tests.simulation.cluster.ensemble import SESSION_TIMEOUT_MS
from tests.simulation.requests import Partition

TOPIC, FLEETING, LEDGER = "replicated", "fleeting", "ledger"
"""One that stays, one that is deleted and made again, and one of transactions."""
TRANSACTIONS, OFFSETS = ("__transaction_state", 0), ("__consumer_offsets", 0)
BROKERS = (1, 2, 3)
DEATHS, LINKS, CRASHES, SESSIONS, POWER, SHUTDOWNS = "deaths", "links", "crashes", "sessions", "power", "shutdowns"
TROUBLES = (DEATHS, LINKS, CRASHES, SESSIONS, POWER, SHUTDOWNS)
"""What may go wrong: processes, links, whole brokers, sessions, machines, and brokers that are told to stop."""
MOVES, DELETIONS, TRANSACTORS, KEEPERS = "moves", "deletions", "transactors", "keepers"
FORWARDERS, MEMBERS = "forwarders", "members"
ERRANDS = (MOVES, DELETIONS, TRANSACTORS, KEEPERS, FORWARDERS, MEMBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """How large and how rough it is. Few things happen in each: many short stories find more than a few long ones."""

    partitions: int
    short_chance: float
    pause_chance: float
    slowness: float
    faults: int
    segment_bytes: int
    producers: int
    batches: int
    """Of each producer."""
    troubles: tuple[str, ...]
    """What goes wrong is one of these."""
    moves: int
    """What the administrator asks for: reassignments, cancellations, preferred leaders."""
    deletions: int
    transactors: int
    keepers: int
    forwarders: int
    """Who commits offsets in transactions."""
    members: int
    """Of one group."""
    flushes: bool = False
    """Whether each record is synced before it is acknowledged and replicated (flush.messages)."""

    @classmethod
    def draw(cls, random: Random) -> "ClusterShape":
        errands = random.sample(ERRANDS, random.choice((0, 1, 1, 1, 2)))
        return cls(
            partitions=random.choice((1, 1, 1, 2)),
            short_chance=random.choice((0.0, 0.0, 0.05)),
            pause_chance=random.choice((0.0, 0.003, 0.01, 0.03)),
            slowness=random.choice((0.0, 0.5, 0.9)),
            faults=random.choice((1, 1, 2, 2, 3, 3, 4, 6)),
            segment_bytes=random.choice((2_500, 6_000, 130_000)),
            producers=random.choice((1, 1, 2)),
            batches=random.choice((3, 6, 12)),
            troubles=tuple(random.sample(TROUBLES, random.choice((1, 2, 3)))),
            moves=random.choice((2, 4)) if MOVES in errands else 0,
            deletions=random.choice((1, 2)) if DELETIONS in errands else 0,
            transactors=random.choice((1, 2)) if TRANSACTORS in errands else 0,
            keepers=1 if KEEPERS in errands else 0,
            forwarders=random.choice((1, 1, 2)) if FORWARDERS in errands else 0,
            members=random.choice((2, 2, 3)) if MEMBERS in errands else 0,
        )

    @property
    def loses_power(self) -> bool:
        return POWER in self.troubles

    def all_partitions(self) -> list[Partition]:
        return [(TOPIC, at) for at in range(self.partitions)]

    def followed(self) -> list[Partition]:
        """Whose replicas are looked at."""
        found = self.all_partitions() + ([(FLEETING, 0)] if self.deletions else [])
        found += [*self.ledger(), TRANSACTIONS] if self.ledger() else []
        return found + ([OFFSETS] if self.keepers or self.forwarders or self.members else [])

    def ledger(self) -> list[Partition]:
        return [(LEDGER, 0), (LEDGER, 1)] if self.transactors or self.forwarders else []

    def configs(self) -> dict[str, str]:
        return {
            "internal.segment.bytes": str(self.segment_bytes),
            "index.interval.bytes": "200",
            "min.insync.replicas": "2",
            **({"flush.messages": "1"} if self.flushes else {}),
        }


def machine_of(folder: Path, broker_id: int) -> Path:
    return folder / f"machine-{broker_id}"


def port_of(broker_id: int) -> int:
    """Nobody binds it; the same each time, as sets of addresses have an order."""
    return 9090 + broker_id


def draw_config(random: Random, folder: Path, broker_id: int) -> BrokerConfig:
    machine = machine_of(folder, broker_id)
    settings = {
        "node.id": str(broker_id),
        "zookeeper.connect": "ensemble:2181",
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "listeners": f"PLAINTEXT://127.0.0.1:{port_of(broker_id)}",
        "log.dirs": str(machine / "disk"),
        "kafkad.runtime.dir": str(machine / "run"),
        "kafkad.metrics.listener": "",
        "kafkad.arena.bytes": str(1 << 20),
        "kafkad.suspect.refused.ms": random.choice(("0", "500")),
        "socket.request.max.bytes": str(1 << 19),
        "num.network.threads": "1",
        "num.io.threads": "1",
        "num.replica.fetchers": random.choice(("1", "1", "2")),
        "log.cleaner.enable": "false",
        "transaction.state.log.num.partitions": "1",
        "offsets.topic.num.partitions": "1",
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": random.choice(("0", "100")),
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "replica.fetch.response.max.bytes": str(1 << 18),
        "replica.fetch.max.bytes": random.choice(("600", str(1 << 16))),
        "replica.fetch.wait.max.ms": random.choice(("100", "400")),
        "replica.fetch.backoff.ms": random.choice(("20", "300")),
        "replica.lag.time.max.ms": random.choice(("500", "1500")),
        "replica.socket.timeout.ms": "1000",
        "replica.high.watermark.checkpoint.interval.ms": random.choice(("50", "2000")),
        "log.initial.task.delay.ms": "10",
        "log.flush.offset.checkpoint.interval.ms": random.choice(("20", "2000")),
        "auto.leader.rebalance.enable": random.choice(("true", "false")),
        "leader.imbalance.check.interval.seconds": random.choice(("1", "300")),
        "controlled.shutdown.retry.backoff.ms": "500",
    }
    return load(None, list(settings.items()), cores=2, environ={}, is_root=False)
