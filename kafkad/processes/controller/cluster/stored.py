"""What a broker reads of the tree by itself: topics with their assignments and configurations, at the start and when a
change is notified. A node that can't be read is left out, with one line; all else goes on.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import MsgspecError

from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationStore
from kafkad.core.hosting.start import AssignedTopic
from kafkad.core.types import NO_TOPIC_ID

log = logging.getLogger(__name__)
Value = TypeVar("Value")
Configs = dict[str, dict[str, str]]


def read_topics(store: CoordinationStore) -> tuple[dict[str, AssignedTopic], frozenset[str]]:
    """The topics by name, and the names of those that can't be read: nobody knows what of them belongs here."""
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
    return assigned, frozenset(names) - topics.keys()


def topic_configs(store: CoordinationStore, names: Iterable[str]) -> Configs:
    wanted = list(names)
    found = _read(store, [nodes.topic_config_path(name) for name in wanted], nodes.decode_config)
    return {name: {} if node is None else node.config for name, node in zip(wanted, found, strict=True)}


def broker_configs(store: CoordinationStore) -> Configs:
    """By broker id as text, empty for the default of all."""
    names = store.children(nodes.BROKER_CONFIGS)
    found = _read(store, [f"{nodes.BROKER_CONFIGS}/{name}" for name in names], nodes.decode_config)
    rows = zip(names, found, strict=True)
    return {"" if name == nodes.DEFAULT_ENTITY else name: node.config for name, node in rows if node is not None}


class ConfigChanges:
    """The notifications of /config/changes: which configurations are to be read again."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def watch(self, store: CoordinationStore) -> None:
        """From now on `WatchFired` tells of new ones; those that are there already need not be heeded."""
        self._seen = set(store.children(nodes.CONFIG_CHANGES, watch=True))

    def read(self, store: CoordinationStore) -> tuple[Configs, Configs]:
        """The configurations of topics and of brokers that have changed; watches on."""
        names = store.children(nodes.CONFIG_CHANGES, watch=True)
        new = [name for name in names if name not in self._seen]
        self._seen = set(names)
        notes = _read(store, [f"{nodes.CONFIG_CHANGES}/{name}" for name in new], nodes.decode_config_change)
        entities = {_entity(note) for note in notes if note is not None}
        topics = topic_configs(store, {name for kind, name in entities if kind == "topics"})
        wanted = {name for kind, name in entities if kind == "brokers"}
        brokers = broker_configs(store) if wanted else {}
        keys = {"" if name == nodes.DEFAULT_ENTITY else name for name in wanted}
        return topics, {key: brokers.get(key, {}) for key in keys}


def _entity(note: nodes.ReadConfigChange) -> tuple[str, str]:
    kind, _, name = note.entity_path.partition("/")
    return (kind, name) if kind else (note.entity_type, note.entity_name)


def _read(store: CoordinationStore, paths: Sequence[str], decode: Callable[[bytes], Value]) -> list[Value | None]:
    values: list[Value | None] = []
    for path, node in zip(paths, store.get_many(paths), strict=True):
        value = None
        if node is not None and node.data:
            try:
                value = decode(node.data)
            except (MsgspecError, ValueError, RecursionError) as error:
                log.error("%s in ZooKeeper can't be read and is left out: %s", path, error)
        values.append(value)
    return values
