"""A broker as its controller sees it: a store in memory, disks that are dictionaries, fixed random numbers."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.admin import create_topics
from kafkad.core.controller.configs import ResourceType
from kafkad.core.controller.controller import Controller
from kafkad.core.controller.image import Listener
from kafkad.core.controller.settings import ControllerSettings, RandomSource
from kafkad.core.controller.startup.reconciliation import FoundDirectory
from kafkad.core.controller.startup.startup import Directories, SharedMemoryState, Started, start
from kafkad.core.controller.startup.term import claim, ensure_cluster_id, ensure_paths, register_broker
from kafkad.core.controller.topics.topics import NewTopic, TopicDefaults, TopicResult
from kafkad.core.coordination_store import (
    Change,
    Check,
    CoordinationError,
    CoordinationStore,
    Event,
    Node,
    NodeStat,
    Operation,
    Outcome,
    SessionState,
)
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.plugins.leader_election import PreferredReplica

BROKER_ID = 1
LISTENER = Listener(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol="PLAINTEXT")
Assignment = tuple[int, ...]


class Crash(Exception):
    """The process dies here."""


class CrashingStore:
    """Hands everything through until `writes` changes are done, then dies before the next one.

    Or whatever else is the `end` of a write.
    """

    def __init__(self, store: CoordinationStore, writes: int | None = None) -> None:
        self._store = store
        self.left = writes
        self.done = 0
        self.end: Exception = Crash()

    def _write(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise self.end
            self.left -= 1
        self.done += 1

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        self._write()
        return self._store.create(path, data, ephemeral=ephemeral, sequence=sequence)

    def get(self, path: str, *, watch: bool = False) -> Node:
        return self._store.get(path, watch=watch)

    def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        return self._store.get_many(paths, watch=watch)

    def set_data(self, path: str, data: bytes, version: int = -1) -> NodeStat:
        self._write()
        return self._store.set_data(path, data, version)

    def delete(self, path: str, version: int = -1) -> None:
        self._write()
        self._store.delete(path, version)

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        return self._store.children(path, watch=watch)

    def exists(self, path: str, *, watch: bool = False) -> NodeStat | None:
        return self._store.exists(path, watch=watch)

    def sync(self, path: str) -> None:
        self._store.sync(path)

    def transaction(self, operations: Sequence[Operation]) -> list[Outcome]:
        self._write()
        return self._store.transaction(operations)

    def pipelined(self, changes: Sequence[Change], *, guard: Check | None = None) -> list[Outcome | CoordinationError]:
        outcomes: list[Outcome | CoordinationError] = []
        for change in changes:
            self._write()
            outcomes += self._store.pipelined([change], guard=guard)
        return outcomes

    def events(self) -> list[Event]:
        return self._store.events()

    def fileno(self) -> int:
        return self._store.fileno()

    @property
    def state(self) -> SessionState:
        return self._store.state

    @property
    def session_id(self) -> int:
        return self._store.session_id

    def close(self) -> None:
        self._store.close()


class Rules:
    """Two keys a resource: a list and a number."""

    def is_list(self, resource_type: ResourceType, key: str) -> bool:
        return key in ("cleanup.policy", "log.cleanup.policy")

    def default_value(self, resource_type: ResourceType, key: str) -> str | None:
        return "delete" if self.is_list(resource_type, key) else None

    def in_force(self, resource_type: ResourceType, stored: Mapping[str, str]) -> Mapping[str, str]:
        return {key: value for key, value in stored.items() if key != "of.an.old.version"}

    def validate_topic(self, configs: Mapping[str, str]) -> None:
        for key, value in configs.items():
            if key not in ("cleanup.policy", "retention.ms"):
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {key}")
            if key == "retention.ms" and not value.lstrip("-").isdigit():
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {key}")

    def validate_group(self, configs: Mapping[str, str]) -> None:
        for key in configs:
            if key != "consumer.session.timeout.ms":
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {key}")

    def validate_broker(self, configs: Mapping[str, str], *, per_broker: bool) -> None:
        for key in configs:
            if key not in ("log.cleanup.policy", "log.retention.ms"):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{key}]")


class World:
    """`disks[log_dir]` maps directory names to the topic id inside them."""

    def __init__(self, disks: int = 2, workers: int = 2) -> None:
        self.store = CrashingStore(EmbeddedStore(Path(":memory:"), 1))
        self.disks: list[dict[str, UUID | None]] = [{} for _ in range(disks)]
        self.offline: set[int] = set()
        ids = itertools.count(1)
        draws = itertools.count()
        self.random_source = RandomSource(lambda limit: next(draws) % limit, lambda: UUID(int=next(ids)))
        self.rules = Rules()
        self.settings = ControllerSettings(
            broker_id=BROKER_ID,
            workers=workers,
            defaults=TopicDefaults(partitions=1, replication_factor=1),
            internal_topics={
                "__consumer_offsets": NewTopic(
                    name="__consumer_offsets", partitions=5, configs=(("cleanup.policy", "compact"),)
                )
            },
        )
        self.started: Started | None = None

    @property
    def controller(self) -> Controller:
        assert self.started is not None
        return self.started.controller

    def start(self, inherited: SharedMemoryState | None = None) -> Controller:
        ensure_paths(self.store)
        cluster_id = ensure_cluster_id(self.store, "a-cluster")
        broker = register_broker(self.store, BROKER_ID, {"PLAINTEXT": LISTENER}, None, now_ms=1)
        self.started = start(
            self.store,
            claim(self.store, BROKER_ID, now_ms=2),
            cluster_id=cluster_id,
            brokers={BROKER_ID: broker},
            settings=self.settings,
            election=PreferredReplica(),
            random_source=self.random_source,
            directories=Directories(
                found=tuple(self.found()),
                online=frozenset(range(len(self.disks))) - self.offline,
                offline=frozenset(self.offline),
            ),
            inherited=inherited,
        )
        return self.controller

    def found(self) -> list[FoundDirectory]:
        return [
            FoundDirectory(log_dir=log_dir, name=name, topic_id=topic_id)
            for log_dir, disk in enumerate(self.disks)
            for name, topic_id in disk.items()
            if log_dir not in self.offline
        ]

    def create(self, *names: str, partitions: int = 1) -> list[TopicResult]:
        requested = [NewTopic(name=name, partitions=partitions) for name in names]
        return create_topics(self.controller, requested, self.rules, self.random_source)

    def open_partitions(self) -> None:
        """What the workers do with the metadata: a directory for each partition that has a place here."""
        for topic in self.controller.image.topics.values():
            for partition in topic.partitions:
                if partition.log_dir >= 0:
                    self.disks[partition.log_dir].setdefault(f"{topic.name}-{partition.index}", topic.id)

    def delete_directories(self, name: str) -> None:
        """What the workers do with a deletion, and their report."""
        pending = self.controller.deletions.get(name)
        for index in sorted(pending.remaining) if pending else []:
            for disk in self.disks:
                disk.pop(f"{name}-{index}", None)
            self.controller.partitions_deleted(name, [index])
        self.finish_deletions()

    def finish_deletions(self) -> None:
        """What the shell does from pass to pass."""
        while self.controller.has_unfinished_deletions:
            self.controller.finish_deletions()

    def tree(self, path: str = "/") -> set[str]:
        paths = set()
        for child in self.store.children(path):
            below = f"{path.rstrip('/')}/{child}"
            paths |= {below} | self.tree(below)
        return paths
