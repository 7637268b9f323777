"""Reads of the ZooKeeper tree by each broker: topics with their assignments and configurations, at the start and after
notifications of changes. A node that can't be read is skipped, with one log line.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import MsgspecError

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.controller.features import REGISTERED, unsupported_features
from kafkad.core.controller.image import NO_CONTROLLER, NO_FEATURES_EPOCH
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.controller.startup.term import read_epoch
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.stored_metadata import PartitionState, stored_state
from kafkad.core.controller.topics.names import is_legal
from kafkad.core.coordination_store import CoordinationStore, Delete, Node, NodeStat
from kafkad.core.hosting.hosting import NO_CONTROLLER_EPOCH
from kafkad.core.hosting.start import AssignedTopic
from kafkad.core.types import NO_TOPIC_ID, TopicPartition

log = logging.getLogger(__name__)
Value = TypeVar("Value")
Configs = dict[str, dict[str, str]]

PURGED_AFTER_MS = 15 * 60 * 1000
"""The age at which notifications are removed, as in Apache Kafka. A broker that was disconnected for longer has lost
its session, and reads everything.
"""


def read_topics(store: CoordinationStore) -> tuple[dict[str, AssignedTopic], frozenset[str]]:
    """The topics by name, and the names of unreadable topics, whose partitions here are unknown."""
    names = store.children(nodes.TOPICS)
    found = _read(store, [nodes.topic_path(name) for name in names], nodes.read_topic)
    topics = {name: node for name, node in zip(names, found, strict=True) if node is not None}
    configs = topic_configs(store, topics)
    assigned = {
        name: AssignedTopic(
            name=name,
            id=nodes.decode_id(node.topic_id) if node.topic_id else NO_TOPIC_ID,
            assignments=tuple(node.partitions[str(at)] for at in range(len(node.partitions))),
            configs=configs[name],
        )
        for name, node in topics.items()
    }
    return assigned, frozenset(names).difference(topics)


def elected(store: CoordinationStore) -> tuple[int, int]:
    """The id of the controller, or -1, and the epoch of the present or last controller."""
    # In one request: usually they are of the same term.
    holder, epoch = store.get_many([nodes.CONTROLLER, nodes.CONTROLLER_EPOCH])
    at = None if epoch is None else _decoded(nodes.CONTROLLER_EPOCH, epoch.data, read_epoch)
    return _holder_id(holder), (NO_CONTROLLER_EPOCH if at is None else at)


def controller_id(store: CoordinationStore) -> int:
    """The id of the controller, or -1."""
    (holder,) = store.get_many([nodes.CONTROLLER])
    return _holder_id(holder)


def _holder_id(holder: Node | None) -> int:
    node = None if holder is None else _decoded(nodes.CONTROLLER, holder.data, nodes.decode_controller)
    return NO_CONTROLLER if node is None else node.brokerid


def may_replace(store: CoordinationStore, holder: NodeStat, broker: int | None) -> bool:
    """Whether /controller with stat `holder` was created by this session, or names `broker`."""
    if holder.ephemeral_owner in (0, store.session_id):
        return holder.ephemeral_owner != 0
    return controller_id(store) == broker


def partition_states(
    store: CoordinationStore, topics: Mapping[str, AssignedTopic]
) -> dict[TopicPartition, PartitionState]:
    """The stored states of partitions, except for topics that are being deleted."""
    deleted = set(store.children(nodes.DELETIONS))
    partitions = [
        TopicPartition(name, index)
        for name, topic in topics.items()
        if name not in deleted
        for index in range(len(topic.assignments))
    ]
    paths = [nodes.state_path(at.topic, at.partition) for at in partitions]
    states = {}
    for at, path, node in zip(partitions, paths, store.get_many(paths), strict=True):
        state = None if node is None else _decoded(path, node.data, nodes.read_state)
        if node is not None and state is not None:
            states[at] = stored_state(state, node.stat.version)
    return states


def finalized_features(store: CoordinationStore) -> tuple[dict[str, int], int]:
    """The finalized levels, and the version of the node (-1 without a node). Sets a watch for the next change.

    Raises `UnusableMetadata` if this version of kafkad does not support them.
    """
    stat = store.exists(nodes.FEATURES, watch=True)
    (node,) = store.get_many([nodes.FEATURES])
    levels = None if stat is None or node is None else _decoded(nodes.FEATURES, node.data, nodes.read_features)
    if node is None or levels is None:
        return {}, NO_FEATURES_EPOCH
    unsupported = unsupported_features(REGISTERED, levels)
    if unsupported:
        shown = ", ".join(f"{name}={levels[name]}" for name in unsupported)
        raise UnusableMetadata(f"the cluster has finalized features that this version does not support: {shown}")
    return levels, node.version


def topic_configs(store: CoordinationStore, names: Iterable[str]) -> Configs:
    requested = list(names)
    found = _read(store, [nodes.topic_config_path(name) for name in requested], nodes.decode_config)
    return {name: {} if node is None else node.config for name, node in zip(requested, found, strict=True)}


def configs_of_new(store: CoordinationStore, names: Iterable[str]) -> Configs:
    """The configurations of topics that the controller has just announced. Syncs first: the ZooKeeper server of this
    broker may be behind.
    """
    store.sync(nodes.TOPICS)
    return topic_configs(store, names)


def topic_names(store: CoordinationStore) -> frozenset[str]:
    """The names of all present topics. Syncs first."""
    store.sync(nodes.TOPICS)
    return frozenset(store.children(nodes.TOPICS))


def broker_configs(store: CoordinationStore) -> Configs:
    """The configurations by broker id as text; the empty text is the default of all brokers."""
    names = store.children(nodes.BROKER_CONFIGS)
    found = _read(store, [f"{nodes.BROKER_CONFIGS}/{name}" for name in names], nodes.decode_config)
    rows = zip(names, found, strict=True)
    return {"" if name == nodes.DEFAULT_ENTITY else name: node.config for name, node in rows if node is not None}


def group_configs(store: CoordinationStore, names: Iterable[str] | None = None) -> Configs:
    """The configurations of these groups, or of all groups that have one."""
    requested = _group_ids(store) if names is None else list(names)
    found = _read(store, [nodes.group_config_path(name) for name in requested], nodes.decode_config)
    return {name: {} if node is None else node.config for name, node in zip(requested, found, strict=True)}


def _group_ids(store: CoordinationStore) -> list[str]:
    at = [(f"{nodes.GROUP_CONFIGS}/{name}", name.encode()) for name in store.children(nodes.GROUP_CONFIGS)]
    found = [_decoded(path, name, lambda data: nodes.group_of(data.decode())) for path, name in at]
    return [group_id for group_id in found if group_id is not None]


class ConfigChanges:
    """The notifications in /config/changes: the names of changed configurations."""

    def __init__(self, clock: Callable[[], int] = monotonic_ms) -> None:
        self._clock = clock
        self._seen: dict[str, int] = {}
        """When each notification was read first (monotonic ms)."""
        self._is_behind = False

    def session_lost(self) -> None:
        """Read everything in the next session: later notifications may be removed before it begins."""
        self._is_behind = True

    def watch(self, store: CoordinationStore) -> None:
        """Set a watch, so that `WatchFired` reports new notifications. Present ones are ignored."""
        self._see(store.children(nodes.CONFIG_CHANGES, watch=True))

    def _see(self, names: Iterable[str]) -> None:
        now_ms = self._clock()
        self._seen = {name: self._seen.get(name, now_ms) for name in names}

    def _purge(self, store: CoordinationStore) -> None:
        """Remove old notifications, as every broker of Apache Kafka does. A node may be removed already."""
        last_ms = self._clock() - PURGED_AFTER_MS
        store.pipelined([Delete(f"{nodes.CONFIG_CHANGES}/{name}") for name, at in self._seen.items() if at <= last_ms])

    def read(self, store: CoordinationStore) -> tuple[Configs, Configs, Configs]:
        """The configurations of topics, brokers and groups that have changed, or may have. Sets the watch again.

        Also removes old notifications if there are new ones. If the connection fails meanwhile, the next call returns
        the new ones again.
        """
        if self._is_behind:
            self.watch(store)
            everything = topic_configs(store, store.children(nodes.TOPICS)), broker_configs(store), group_configs(store)
            self._is_behind = False
            return everything
        names = store.children(nodes.CONFIG_CHANGES, watch=True)
        new = [name for name in names if name not in self._seen]
        notes = _read(store, [f"{nodes.CONFIG_CHANGES}/{name}" for name in new], nodes.decode_config_change)
        entities = {_entity(note) for note in notes if note is not None}
        # Other programs may write any name there, which may not be a valid path.
        topics = topic_configs(store, {name for kind, name in entities if kind == "topics" and is_legal(name)})
        requested = {name for kind, name in entities if kind == "brokers"}
        brokers = broker_configs(store) if requested else {}
        keys = {"" if name == nodes.DEFAULT_ENTITY else name for name in requested}
        groups = group_configs(store, {name for kind, name in entities if kind == "groups" and name})
        if new:
            self._purge(store)
        self._see(names)
        return topics, {key: brokers.get(key, {}) for key in keys}, groups


def _entity(note: nodes.ReadConfigChange) -> tuple[str, str]:
    kind, _, name = note.entity_path.partition("/")
    return (kind, name) if kind else (note.entity_type, note.entity_name)


def _read(store: CoordinationStore, paths: Sequence[str], decode: Callable[[bytes], Value]) -> list[Value | None]:
    found = zip(paths, store.get_many(paths), strict=True)
    return [_decoded(path, node.data, decode) if node is not None and node.data else None for path, node in found]


def _decoded(path: str, data: bytes, decode: Callable[[bytes], Value]) -> Value | None:
    try:
        return decode(data)
    except (MsgspecError, ValueError, RecursionError) as error:
        log.error("%s in ZooKeeper can't be read and is left out: %s", path, error)
        return None
