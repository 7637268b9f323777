"""Notifications of changed configurations: read once, and removed when nobody can need them any more."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.startup.term import ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import Change, Check, CoordinationError, Node, Outcome, SessionSuspended
from kafkad.processes.controller.tree_reader import PURGED_AFTER_MS, ConfigChanges


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


@pytest.mark.parametrize("name", ["../x", "a//b", ""])
def test_a_notification_of_what_is_no_topic_is_passed_over(store: EmbeddedStore, name: str) -> None:
    """A path with it would be none to ZooKeeper, which ended the controller process of every broker."""
    changes = ConfigChanges()
    changes.watch(store)
    change(store, name)
    change(store, "a")
    assert changes.read(store)[0] == {"a": {}}


class Breaking(EmbeddedStore):
    """Its connection is broken after `left` further requests."""

    def __init__(self, path: Path, broker_id: int) -> None:
        super().__init__(path, broker_id)
        self.left = 10**9

    def _ask(self, path: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise SessionSuspended(path)

    def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        self._ask("/")
        return super().get_many(paths, watch=watch)

    def pipelined(self, changes: Sequence[Change], *, guard: Check | None = None) -> list[Outcome | CoordinationError]:
        self._ask("/")
        return super().pipelined(changes, guard=guard)


@pytest.mark.parametrize("requests", range(4))
def test_what_could_not_be_read_is_read_when_the_connection_is_back(requests: int) -> None:
    store = Breaking(Path(":memory:"), 7)
    ensure_paths(store)
    now_ms = 0
    changes = ConfigChanges(lambda: now_ms)
    change(store, "before")
    changes.watch(store)
    now_ms = PURGED_AFTER_MS
    change(store, "a")
    store.left = requests
    with pytest.raises(SessionSuspended):
        changes.read(store)
    store.left = 10**9
    assert changes.read(store)[0] == {"a": {}}
    assert changes.read(store)[0] == {}
    store.close()


def test_after_a_lost_session_everything_is_read(store: EmbeddedStore) -> None:
    """Until that has succeeded: what was notified meanwhile may be removed already."""
    changes = ConfigChanges()
    changes.watch(store)
    changes.session_lost()
    for path in ("/brokers/topics/a", "/config/topics/a"):
        store.create(path, b'{"version":1,"config":{"x":"1"}}')
    store.create("/config/brokers/7", b'{"version":1,"config":{"y":"2"}}')
    change(store, "a")
    assert changes.read(store) == ({"a": {"x": "1"}}, {"7": {"y": "2"}}, {})
    assert changes.read(store) == ({}, {}, {})
