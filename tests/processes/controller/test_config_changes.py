"""Notifications of changed configurations: read once, and removed when nobody can need them any more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.startup.term import ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.processes.controller.cluster.tree_reader import PURGED_AFTER_MS, ConfigChanges


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(tmp_path / "store", 7)
    ensure_paths(made)
    yield made
    made.close()


def change(store: EmbeddedStore, topic: str) -> str:
    """What a broker writes when it has changed the configuration of a topic; the name of the notification."""
    data = b'{"version":2,"entity_path":"topics/%s"}' % topic.encode()
    return store.create(f"{nodes.CONFIG_CHANGES}/config_change_", data, sequence=True).rpartition("/")[2]


def test_notifications_are_read_once_and_removed_after_a_quarter_of_an_hour(store: EmbeddedStore) -> None:
    now_ms = 0
    changes = ConfigChanges(lambda: now_ms)
    change(store, "before")
    changes.watch(store)
    change(store, "a")
    assert changes.read(store)[0] == {"a": {}}
    now_ms = PURGED_AFTER_MS - 1
    kept = change(store, "b")
    assert changes.read(store)[0] == {"b": {}}
    assert len(store.children(nodes.CONFIG_CHANGES)) == 3
    now_ms = PURGED_AFTER_MS
    assert changes.read(store)[0] == {}
    assert len(store.children(nodes.CONFIG_CHANGES)) == 3, "looked at when there is a new one"
    new = change(store, "c")
    assert changes.read(store)[0] == {"c": {}}
    assert store.children(nodes.CONFIG_CHANGES) == [kept, new]
