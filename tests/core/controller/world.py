"""A single broker without processes: a store in memory, disks that are dictionaries, fixed random numbers."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.cluster.control_requests import LeaderAndIsrRequest, StopReplicaRequest, StopReplicaResponse
from kafkad.core.cluster.request_parts import ControlResponse
from kafkad.core.controller.admin import create_topics
from kafkad.core.controller.configs import ResourceType
from kafkad.core.controller.elected.announcements import Announcer
from kafkad.core.controller.elected.controller_failover import controller_failover
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.elected.registrations import live_brokers
from kafkad.core.controller.image import Listener, MetadataImage
from kafkad.core.controller.settings import ControllerSettings, RandomSource
from kafkad.core.controller.startup.reconciliation import FoundDirectory
from kafkad.core.controller.startup.startup import Directories, SharedMemoryState, TakenOver, take_over
from kafkad.core.controller.startup.term import claim, ensure_cluster_id, ensure_paths, register_broker
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.deletion import DeletedTopic, TopicToDelete, delete_topics
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
from kafkad.core.hosting.hosting import Hosting
from kafkad.core.hosting.resuming import StoredRoles, resume
from kafkad.core.hosting.start import start_host
from kafkad.plugins.leader_election import PreferredReplica
from kafkad.processes.controller.requests.broker_channels import handle_broker_response
from kafkad.processes.controller.tree_reader import (
    broker_configs,
    elected,
    finalized_features,
    group_configs,
    partition_states,
    read_topics,
    topic_configs,
)

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
    """`disks[log_dir]` maps directory names to the topic id inside them. What the controller requests of the broker is
    applied by `deliver`; a deletion of replicas is complete when `delete_directories` says so.
    """

    def __init__(self, disks: int = 2, workers: int = 2) -> None:
        self.store = CrashingStore(EmbeddedStore(Path(":memory:"), 1))
        self.disks: list[dict[str, UUID | None]] = [{} for _ in range(disks)]
        self.offline: set[int] = set()
        ids = itertools.count(1)
        draws = itertools.count()
        self.random_source = RandomSource(lambda limit: next(draws) % limit, lambda: UUID(int=next(ids)))
        self.rules = Rules()
        self._workers = workers
        self.settings = ControllerSettings(
            is_single=True,
            defaults=TopicDefaults(partitions=1, replication_factor=1),
            internal_topics={
                "__consumer_offsets": NewTopic(
                    name="__consumer_offsets", partitions=5, configs=(("cleanup.policy", "compact"),)
                )
            },
        )
        self.taken_over: TakenOver | None = None
        self._controller: ElectedController | None = None
        self._hosting: Hosting | None = None
        self.leftovers: tuple[FoundDirectory, ...] = ()
        self._deleting: list[tuple[StopReplicaRequest, StopReplicaResponse]] = []

    @property
    def controller(self) -> ElectedController:
        assert self._controller is not None, "it is started"
        return self._controller

    @property
    def hosting(self) -> Hosting:
        assert self._hosting is not None, "it is started"
        return self._hosting

    @property
    def image(self) -> MetadataImage:
        """What the broker has applied."""
        return self.hosting.image

    def start(self, inherited: SharedMemoryState | None = None) -> ElectedController:
        ensure_paths(self.store)
        self._deleting.clear()
        cluster_id = ensure_cluster_id(self.store, "a-cluster")
        register_broker(self.store, BROKER_ID, {"PLAINTEXT": LISTENER}, None, now_ms=1)
        broker = live_brokers(self.store, LISTENER.name, watch=False)[0][BROKER_ID]
        directories = Directories(
            found=tuple(self.found()),
            online=frozenset(range(len(self.disks))) - self.offline,
            offline=frozenset(self.offline),
        )
        self.taken_over = take_over(
            self.store,
            claim(self.store, BROKER_ID, now_ms=2),
            broker=broker,
            settings=self.settings,
            election=PreferredReplica(),
            random_source=self.random_source,
            directories=directories,
        )
        topics, _ = read_topics(self.store)
        strays = [stray.directory for stray in self.taken_over.reconciliation.stray]
        started = start_host(
            broker_id=BROKER_ID,
            workers=self._workers,
            cluster_id=cluster_id,
            topics=topics,
            broker_configs=broker_configs(self.store),
            brokers={BROKER_ID: broker},
            directories=replace(directories, found=tuple(each for each in directories.found if each not in strays)),
            inherited=inherited,
            is_single=True,
        )
        self._hosting, self.leftovers = started.hosting, started.leftovers
        self.hosting.set_initial(*finalized_features(self.store), group_configs(self.store))
        holder, epoch = elected(self.store)
        stored = StoredRoles(
            controller_id=holder,
            controller_epoch=epoch,
            listener=LISTENER.name,
            brokers={BROKER_ID: broker},
            topics=topics,
            states=partition_states(self.store, topics),
        )
        resume(self.hosting, BROKER_ID, stored)
        term = claim(self.store, BROKER_ID, now_ms=2)
        self._controller = controller_failover(
            self.store,
            MetadataTree(self.store, term),
            settings=self.settings,
            election=PreferredReplica(),
            announcer=Announcer(
                controller_id=BROKER_ID,
                controller_epoch=term.epoch,
                listener=LISTENER.name,
                brokers={BROKER_ID: broker},
            ),
            cluster_id=cluster_id,
            new_topic_id=self.random_source.new_topic_id,
            space=self.hosting,
        )
        self.deliver()
        return self.controller

    def deliver(self) -> None:
        """The broker applies the controller's requests, and the controller handles the responses."""
        while requests := self.controller.take_requests():
            for _, request in requests:
                if isinstance(request, StopReplicaRequest):
                    self._deleting.append((request, self.hosting.stop_replica(request)))
                    continue
                names = self.hosting.unknown_topics(request)
                configs = topic_configs(self.store, names)
                if isinstance(request, LeaderAndIsrRequest):
                    response: ControlResponse = self.hosting.leader_and_isr(request, configs)
                else:
                    response = self.hosting.update_metadata(request, configs)
                handle_broker_response(self.controller, BROKER_ID, request, response)

    def found(self) -> list[FoundDirectory]:
        return [
            FoundDirectory(log_dir=log_dir, name=name, topic_id=topic_id)
            for log_dir, disk in enumerate(self.disks)
            for name, topic_id in disk.items()
            if log_dir not in self.offline
        ]

    def create(self, *names: str, partitions: int = 1) -> list[TopicResult]:
        requested = [NewTopic(name=name, partitions=partitions) for name in names]
        results = create_topics(self.controller, requested, self.rules, self.random_source)
        self.deliver()
        return results

    def delete(self, *names: str) -> list[DeletedTopic]:
        results = delete_topics(self.controller, [TopicToDelete(name) for name in names], version=6)
        self.deliver()
        return results

    def directory_failed(self, log_dir: int) -> None:
        """The broker notes it, and the controller asks which replicas are offline."""
        self.offline.add(log_dir)
        self.hosting.directory_failed(log_dir)
        self.controller.directories_failed([BROKER_ID])
        self.deliver()

    def open_partitions(self) -> None:
        """What the workers do with the metadata: a directory for each partition that has a place here."""
        for topic in self.image.topics.values():
            for partition in topic.partitions:
                if partition.log_dir >= 0:
                    self.disks[partition.log_dir].setdefault(f"{topic.name}-{partition.index}", topic.id)

    def delete_directories(self) -> None:
        """What the workers do with deletions, and the broker's responses."""
        answered, self._deleting = self._deleting, []
        for request, response in answered:
            for each in response.partition_errors:
                if each.error_code is ErrorCode.NONE:
                    for log_dir, disk in enumerate(self.disks):
                        if log_dir not in self.offline:
                            disk.pop(f"{each.topic_name}-{each.partition_index}", None)
            handle_broker_response(self.controller, BROKER_ID, request, response)
        self.deliver()

    def tree(self, path: str = "/") -> set[str]:
        paths = set()
        for child in self.store.children(path):
            below = f"{path.rstrip('/')}/{child}"
            paths |= {below} | self.tree(below)
        return paths
