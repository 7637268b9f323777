"""What both coordination stores promise, run against the embedded one and a real ZooKeeper."""

import itertools
import os
import select
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pytest
from kazoo.client import KazooClient

from bench.brokers.zookeeper import ZookeeperServer
from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.adapters.stores.zookeeper_store import ZookeeperStore
from kafkad.core.coordination_store import (
    BadVersion,
    Change,
    Check,
    CoordinationStore,
    Create,
    Delete,
    Event,
    NoChildrenForEphemerals,
    NodeExists,
    NodeStat,
    NoNode,
    NotEmpty,
    SessionChanged,
    SessionLost,
    SessionState,
    SessionSuspended,
    SetData,
    WatchFired,
    WatchKind,
)
from kafkad.core.ports import NoSpaceLeft, StorageFailed

_chroots = itertools.count()


class Backend(Protocol):
    def open(self) -> CoordinationStore: ...

    def expire(self, store: CoordinationStore) -> None: ...

    def resume(self, store: CoordinationStore) -> CoordinationStore:
        """The process that had the store died; its successor goes on in the same session."""


class EmbeddedBackend:
    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._sessions = itertools.count(1)

    def open(self) -> EmbeddedStore:
        return EmbeddedStore(self._path, next(self._sessions))

    def expire(self, store: CoordinationStore) -> None:
        assert isinstance(store, EmbeddedStore)
        store.end_session()

    def resume(self, store: CoordinationStore) -> EmbeddedStore:
        store.close()
        return EmbeddedStore(self._path, store.session_id)


class ZookeeperBackend:
    def __init__(self, server: ZookeeperServer) -> None:
        self.server = server
        self._hosts = f"{server.hosts}/test{next(_chroots)}"
        client = KazooClient(hosts=server.hosts)
        client.start(20)
        client.create("/" + self._hosts.split("/")[1])
        client.stop()
        client.close()
        self._opened: list[ZookeeperStore] = []

    def open(self, session: tuple[int, bytes] | None = None, *, timeout_s: float = 60) -> ZookeeperStore:
        store = ZookeeperStore(self._hosts, session_timeout_s=timeout_s, connect_timeout_s=120, session=session)
        self._opened.append(store)
        return store

    def expire(self, store: CoordinationStore) -> None:
        assert isinstance(store, ZookeeperStore)
        # ZooKeeper's documented way to end someone's session: a second handle on it, closed.
        clone = KazooClient(hosts=self._hosts, client_id=store.session)
        clone.start(20)
        clone.stop()
        clone.close()

    def resume(self, store: CoordinationStore) -> ZookeeperStore:
        assert isinstance(store, ZookeeperStore)
        # Taking the session over moves it to the new connection, as when the old process is gone.
        return self.open(store.session)

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperServer]:
    server = ZookeeperServer(tmp_path_factory.mktemp("zookeeper"))
    yield server
    server.stop()


@pytest.fixture(params=["embedded", "zookeeper"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    if request.param == "embedded":
        yield EmbeddedBackend(tmp_path)
        return
    zookeeper_backend = ZookeeperBackend(request.getfixturevalue("zookeeper"))
    yield zookeeper_backend
    zookeeper_backend.close()


@pytest.fixture
def zookeeper_backend(zookeeper: ZookeeperServer) -> Iterator[ZookeeperBackend]:
    backend = ZookeeperBackend(zookeeper)
    yield backend
    backend.close()


@pytest.fixture
def store(backend: Backend) -> CoordinationStore:
    store = backend.open()
    store.events()
    return store


def await_events(store: CoordinationStore, count: int, timeout_s: float = 20) -> list[Event]:
    events: list[Event] = []
    deadline = time.monotonic() + timeout_s
    while len(events) < count and time.monotonic() < deadline:
        select.select([store.fileno()], [], [], max(0, deadline - time.monotonic()))
        events += store.events()
    return events


def await_state(store: CoordinationStore, state: SessionState) -> list[Event]:
    events: list[Event] = []
    while SessionChanged(state) not in events:
        received = await_events(store, 1)
        assert received, f"never became {state}: {events}"
        events += received
    return events


def test_create_then_get_gives_the_data_at_version_zero(store: CoordinationStore) -> None:
    assert store.create("/a", b"one") == "/a"
    node = store.get("/a")
    assert (node.data, node.version, node.stat.ephemeral_owner) == (b"one", 0, 0)


def test_create_refuses_what_exists_and_what_has_no_parent(store: CoordinationStore) -> None:
    store.create("/a")
    with pytest.raises(NodeExists, match="/a"):
        store.create("/a")
    with pytest.raises(NoNode, match="/missing/b"):
        store.create("/missing/b")


def test_set_raises_the_version_and_checks_the_expected_one(store: CoordinationStore) -> None:
    store.create("/a", b"0")
    assert store.set_data("/a", b"1", 0).version == 1
    assert store.set_data("/a", b"2").version == 2
    with pytest.raises(BadVersion):
        store.set_data("/a", b"3", 1)
    with pytest.raises(NoNode):
        store.set_data("/b", b"")
    assert store.get("/a").data == b"2"


def test_change_ids_grow_and_creation_keeps_its_own(store: CoordinationStore) -> None:
    store.create("/a")
    created = store.get("/a").stat
    store.create("/b")
    changed = store.set_data("/a", b"1")
    assert created.created_id == created.modified_id == changed.created_id < changed.modified_id
    assert created.created_id < store.get("/b").stat.created_id < changed.modified_id


def test_a_node_made_again_has_a_larger_creation_id(store: CoordinationStore) -> None:
    store.create("/a")
    first = store.get("/a").stat.created_id
    store.delete("/a")
    store.create("/a")
    assert store.get("/a").stat.created_id > first


def test_delete_checks_the_version_and_refuses_parents(store: CoordinationStore) -> None:
    store.create("/a")
    store.create("/a/b")
    with pytest.raises(NotEmpty):
        store.delete("/a")
    with pytest.raises(BadVersion):
        store.delete("/a/b", 7)
    store.delete("/a/b", 0)
    store.delete("/a")
    with pytest.raises(NoNode):
        store.delete("/a")


def test_children_are_names_sorted_and_only_direct_ones(store: CoordinationStore) -> None:
    for path in ("/a", "/a/c", "/a/b", "/a/b/deep", "/ab"):
        store.create(path)
    assert store.children("/a") == ["b", "c"]
    assert [name for name in store.children("/") if name in ("a", "ab")] == ["a", "ab"]
    assert store.children("/a/c") == []
    with pytest.raises(NoNode):
        store.children("/missing")


def test_exists_gives_the_stat_or_none(store: CoordinationStore) -> None:
    store.create("/a")
    assert isinstance(store.exists("/a"), NodeStat)
    assert store.exists("/b") is None


def test_get_many_keeps_the_order_and_marks_what_is_missing(store: CoordinationStore) -> None:
    store.create("/a", b"1")
    store.create("/c", b"3")
    nodes = store.get_many(["/c", "/b", "/a"])
    assert [node and node.data for node in nodes] == [b"3", None, b"1"]
    assert store.get_many([]) == []


def test_after_a_sync_what_was_changed_before_is_read(store: CoordinationStore) -> None:
    store.create("/a")
    store.sync("/a")
    assert store.exists("/a") is not None
    store.sync("/missing")


def test_sequence_numbers_grow_per_parent_and_are_never_used_again(store: CoordinationStore) -> None:
    store.create("/q")
    store.create("/q/plain")
    assert store.create("/q/n_", sequence=True) == "/q/n_0000000001"
    last = store.create("/q/n_", sequence=True)
    store.delete(last)
    assert store.create("/q/n_", sequence=True) > last


def test_sequence_numbers_count_the_children_of_the_same_transaction(store: CoordinationStore) -> None:
    store.create("/q")
    changes: list[Change] = [Create("/q/plain"), Create("/q/n_", sequence=True), Create("/q/n_", sequence=True)]
    assert store.transaction(changes) == ["/q/plain", "/q/n_0000000001", "/q/n_0000000002"]
    assert store.create("/q/n_", sequence=True) == "/q/n_0000000003"


def test_a_node_that_is_created_again_numbers_its_children_from_0(store: CoordinationStore) -> None:
    store.create("/q")
    store.create("/q/plain")
    changes: list[Change] = [Delete("/q/plain"), Delete("/q"), Create("/q"), Create("/q/n_", sequence=True)]
    assert store.transaction(changes)[2:] == ["/q", "/q/n_0000000000"]


def test_a_pipelined_creation_below_a_node_deleted_before_it_fails(store: CoordinationStore) -> None:
    changes: list[Change] = [Create("/q"), Create("/q/a"), Delete("/q/a"), Delete("/q"), Create("/q/b")]
    outcomes = store.pipelined(changes)
    assert isinstance(outcomes[4], NoNode)
    assert store.exists("/q") is None


def test_data_may_be_large_and_binary(store: CoordinationStore) -> None:
    data = bytes(range(256)) * 2000
    store.create("/a", data)
    assert store.get("/a").data == data


def test_transaction_does_all(store: CoordinationStore) -> None:
    store.create("/epoch", b"1")
    outcome = store.transaction(
        [Check("/epoch", 0), SetData("/epoch", b"2", 0), Create("/a"), Create("/a/b", b"x"), Delete("/a/b")]
    )
    assert outcome[0] is None
    assert isinstance(outcome[1], NodeStat) and outcome[1].version == 1
    assert outcome[2:] == ["/a", "/a/b", None]
    assert store.children("/a") == []


def test_transaction_does_nothing_when_one_operation_fails(store: CoordinationStore) -> None:
    store.create("/epoch", b"1")
    with pytest.raises(BadVersion, match="/epoch"):
        store.transaction([Create("/a"), Check("/epoch", 5), Create("/b")])
    with pytest.raises(NodeExists, match="/epoch"):
        store.transaction([Create("/a"), SetData("/epoch", b"9"), Create("/epoch")])
    assert store.exists("/a") is None
    assert (store.get("/epoch").data, store.get("/epoch").version) == (b"1", 0)


def test_a_transaction_rolled_back_fires_no_watch(store: CoordinationStore) -> None:
    store.exists("/a", watch=True)
    with pytest.raises(NoNode):
        store.transaction([Create("/a"), Delete("/missing")])
    store.create("/a")
    assert await_events(store, 1) == [WatchFired(WatchKind.CREATED, "/a")]
    assert store.events() == []


def test_empty_batches_are_fine(store: CoordinationStore) -> None:
    assert store.transaction([]) == []
    assert store.pipelined([]) == []


def test_pipelined_operations_succeed_and_fail_each_on_its_own(store: CoordinationStore) -> None:
    outcomes = store.pipelined(
        [
            Create("/a", b"1"),
            Create("/missing/x"),
            SetData("/a", b"2", 3),
            SetData("/a", b"3"),
            Delete("/none"),
        ]
    )
    assert outcomes[0] == "/a"
    assert [type(outcome) for outcome in outcomes[1:]] == [NoNode, BadVersion, NodeStat, NoNode]
    assert store.get("/a").data == b"3"


def test_many_alike_pipelined_changes_fail_each_on_its_own_too(store: CoordinationStore) -> None:
    existing = {"/p", "/p/7", "/p/150", "/p/199/child"}
    for path in ("/p", "/p/7", "/p/150", "/p/199", "/p/199/child"):
        store.create(path)
    paths = ["/p", *[f"/p/{number}" for number in range(199)], *[f"/p/{number}/child" for number in range(200)]]
    outcomes = store.pipelined([Create(path, b"x" * 2_000) for path in paths])
    assert {path for path, each in zip(paths, outcomes, strict=True) if isinstance(each, NodeExists)} == existing
    assert {each for each in outcomes if isinstance(each, str)} == {*paths} - existing
    wanted = [SetData(f"/p/{number}", b"", 3 if number == 120 else 0) for number in range(200)]
    outcomes = store.pipelined(wanted)
    assert [type(each) for each in outcomes].count(BadVersion) == 1
    assert isinstance(outcomes[120], BadVersion)
    assert [store.get(f"/p/{number}").stat.version for number in (119, 120, 121)] == [1, 0, 1]
    deleted = [Delete(path) for path in [*reversed(paths), "/p/199", "/p/none"]]
    outcomes = store.pipelined(deleted)
    failed = [each for each in outcomes if each is not None]
    assert [type(each) for each in failed] == [NotEmpty, NoNode]
    assert store.children("/p") == []


def test_pipelined_changes_of_different_kinds_are_made_in_order(store: CoordinationStore) -> None:
    paths = [f"/p/{number}" for number in range(120)]
    made = [Create(path) for path in paths]
    changes: list[Change] = [Create("/p"), *made, Create("/p"), *[Delete(path) for path in paths], *made]
    outcomes = store.pipelined(changes)
    assert [at for at, each in enumerate(outcomes) if isinstance(each, Exception)] == [121]
    assert len(store.children("/p")) == 120


def test_a_guard_fences_each_pipelined_change(store: CoordinationStore) -> None:
    store.create("/epoch", b"1")
    assert store.pipelined([Create("/a"), Create("/b")], guard=Check("/epoch", 0)) == ["/a", "/b"]
    store.set_data("/epoch", b"2")
    outcomes = store.pipelined([Create("/c"), Delete("/a")], guard=Check("/epoch", 0))
    assert [type(outcome) for outcome in outcomes] == [BadVersion, BadVersion]
    assert store.exists("/a") and not store.exists("/c")


def test_a_guard_fences_the_changes_behind_one_of_its_own_node(store: CoordinationStore) -> None:
    store.create("/epoch", b"1")
    changes: list[Change] = [Create("/a"), SetData("/epoch", b"2"), Create("/b")]
    outcomes = store.pipelined(changes, guard=Check("/epoch", 0))
    assert [type(each) for each in outcomes] == [str, NodeStat, BadVersion]
    assert store.exists("/a") and not store.exists("/b")


def test_a_data_watch_fires_once(store: CoordinationStore) -> None:
    store.create("/a")
    store.get("/a", watch=True)
    store.set_data("/a", b"1")
    store.set_data("/a", b"2")
    store.get("/a", watch=True)
    store.delete("/a")
    expected = [WatchFired(WatchKind.CHANGED, "/a"), WatchFired(WatchKind.DELETED, "/a")]
    assert await_events(store, 2) == expected
    assert store.events() == []


def test_reading_twice_with_a_watch_is_one_watch(store: CoordinationStore) -> None:
    store.create("/a")
    store.get("/a", watch=True)
    store.exists("/a", watch=True)
    store.set_data("/a", b"1")
    store.exists("/b", watch=True)
    store.create("/b")
    assert await_events(store, 2) == [
        WatchFired(WatchKind.CHANGED, "/a"),
        WatchFired(WatchKind.CREATED, "/b"),
    ]


def test_many_are_read_with_a_watch_on_those_that_are_there(store: CoordinationStore) -> None:
    store.create("/a")
    assert [node is None for node in store.get_many(["/a", "/b"], watch=True)] == [False, True]
    store.create("/b")
    store.set_data("/a", b"1")
    store.exists("/c", watch=True)
    store.create("/c")
    expected = [WatchFired(WatchKind.CHANGED, "/a"), WatchFired(WatchKind.CREATED, "/c")]
    assert await_events(store, 2) == expected


def test_get_of_a_missing_node_leaves_no_watch(store: CoordinationStore) -> None:
    with pytest.raises(NoNode):
        store.get("/a", watch=True)
    store.create("/a")
    store.exists("/a", watch=True)
    store.set_data("/a", b"1")
    assert await_events(store, 1) == [WatchFired(WatchKind.CHANGED, "/a")]


def test_a_child_watch_fires_once_for_children_and_not_for_data(store: CoordinationStore) -> None:
    store.create("/a")
    store.children("/a", watch=True)
    store.set_data("/a", b"1")
    store.create("/a/b")
    store.create("/a/c")
    assert await_events(store, 1) == [WatchFired(WatchKind.CHILDREN, "/a")]
    store.children("/a", watch=True)
    store.set_data("/a/b", b"grandchildren and data of children are not children")
    store.delete("/a/b")
    assert await_events(store, 1) == [WatchFired(WatchKind.CHILDREN, "/a")]
    assert store.events() == []


def test_deletion_fires_the_data_and_the_child_watch(store: CoordinationStore) -> None:
    store.create("/a")
    store.get("/a", watch=True)
    store.children("/a", watch=True)
    store.delete("/a")
    assert await_events(store, 2) == [WatchFired(WatchKind.DELETED, "/a")] * 2


def test_the_descriptor_is_readable_only_while_there_are_events(store: CoordinationStore) -> None:
    assert select.select([store.fileno()], [], [], 0)[0] == []
    store.exists("/a", watch=True)
    store.create("/a")
    assert select.select([store.fileno()], [], [], 20)[0]
    store.events()
    assert select.select([store.fileno()], [], [], 0)[0] == []


def test_ephemeral_nodes_carry_their_session_and_bear_no_children(store: CoordinationStore) -> None:
    store.create("/a", b"", ephemeral=True)
    assert store.get("/a").stat.ephemeral_owner == store.session_id != 0
    with pytest.raises(NoChildrenForEphemerals):
        store.create("/a/b")


def test_a_lost_session_takes_its_ephemerals_along_and_stays_lost(backend: Backend, store: CoordinationStore) -> None:
    store.create("/p")
    store.create("/p/mine", ephemeral=True)
    before = store.state
    assert before is SessionState.CONNECTED
    backend.expire(store)
    await_state(store, SessionState.LOST)
    assert store.state is SessionState.LOST
    for operation in (
        lambda: store.get("/p"),
        lambda: store.create("/q"),
        lambda: store.children("/p"),
        lambda: store.transaction([Create("/q")]),
        lambda: store.pipelined([Create("/q")]),
        lambda: store.get_many(["/p"]),
        lambda: store.sync("/p"),
    ):
        with pytest.raises(SessionLost):
            operation()
    store.close()
    successor = backend.open()
    assert successor.session_id != store.session_id
    assert successor.children("/p") == []
    successor.create("/p/mine", ephemeral=True)


def test_a_process_that_is_restarted_resumes_its_session(backend: Backend, store: CoordinationStore) -> None:
    store.create("/p")
    store.create("/p/mine", b"1", ephemeral=True)
    successor = backend.resume(store)
    assert successor.session_id == store.session_id
    assert successor.get("/p/mine").stat.ephemeral_owner == successor.session_id
    successor.set_data("/p/mine", b"2")


def test_zookeeper_tells_suspension_and_return_in_the_same_session(
    zookeeper_backend: ZookeeperBackend,
) -> None:
    # A silence of two thirds of a session is a suspension, after which nobody pauses.
    store = zookeeper_backend.open(timeout_s=15)
    store.create("/p", ephemeral=True)
    store.get("/p", watch=True)
    store.events()
    zookeeper_backend.server.pause()
    try:
        await_state(store, SessionState.SUSPENDED)
        with pytest.raises(SessionSuspended):
            store.get("/p")
    finally:
        zookeeper_backend.server.resume()
    await_state(store, SessionState.CONNECTED)
    assert store.get("/p").stat.ephemeral_owner == store.session_id
    # The watch went with the connection: only reading again sets it again.
    store.set_data("/p", b"1")
    store.exists("/q", watch=True)
    store.create("/q")
    assert await_events(store, 1) == [WatchFired(WatchKind.CREATED, "/q")]


def test_zookeeper_session_that_has_expired_is_not_resumed(zookeeper_backend: ZookeeperBackend) -> None:
    store = zookeeper_backend.open()
    zookeeper_backend.expire(store)
    await_state(store, SessionState.LOST)
    with pytest.raises(SessionLost):
        zookeeper_backend.open(store.session)


def test_embedded_nodes_survive_reopening(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / FILE_NAME, 1)
    store.create("/a", b"kept")
    before = store.get("/a").stat
    store.close()
    again = EmbeddedStore(tmp_path / FILE_NAME, 2)
    assert again.get("/a").data == b"kept"
    again.create("/b")
    assert again.get("/b").stat.created_id > before.modified_id


def test_embedded_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all" * 100)
    with pytest.raises(StorageFailed, match=FILE_NAME):
        EmbeddedStore(tmp_path / FILE_NAME, 1)


def test_embedded_store_makes_ten_thousand_partitions_in_one_transaction(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / FILE_NAME, 1)
    operations = [Create("/t")]
    for partition in range(10_000):
        operations.append(Create(f"/t/{partition}"))
        operations.append(Create(f"/t/{partition}/state", b'{"leader":1,"leader_epoch":0,"isr":[1]}'))
    started = time.process_time()
    store.transaction(operations)
    assert time.process_time() - started < 1.5
    assert len(store.children("/t")) == 10_000


def _fill(store: EmbeddedStore) -> int:
    """Until there is room for no more; how many nodes there are then."""
    for number in itertools.count():
        try:
            store.create(f"/{number}", b"x" * 2_000)
        except NoSpaceLeft:
            return number
    raise AssertionError("endless")


def _limit(monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """SQLite's own limit of a database's size, which it reports as it reports a full disk."""
    connect = sqlite3.connect

    def limited(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        database: sqlite3.Connection = connect(*args, **kwargs)
        database.execute(f"PRAGMA max_page_count = {pages}")
        return database

    monkeypatch.setattr(sqlite3, "connect", limited)


def test_embedded_change_that_does_not_fit_is_taken_back_and_the_store_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _limit(monkeypatch, pages=100)
    store = EmbeddedStore(tmp_path / FILE_NAME, 1)
    store.create("/watched")
    store.get("/watched", watch=True)
    count = _fill(store)
    with pytest.raises(NoSpaceLeft):
        store.transaction([SetData("/watched", b"new"), Create("/large", b"x" * 1_000_000)])
    assert (store.get("/watched").data, store.exists("/large"), store.events()) == (b"", None, [])
    store.delete("/0")
    store.set_data("/watched", b"new")
    assert (len(store.children("/")), len(store.events())) == (count, 1)
    store.close()
    again = EmbeddedStore(tmp_path / FILE_NAME, 1)
    assert again.get("/watched").data == b"new"


def test_embedded_store_keeps_room_for_small_changes(tmp_path: Path) -> None:
    for session in (1, 2):
        store = EmbeddedStore(tmp_path / FILE_NAME, session)
        reserved = (tmp_path / f"{FILE_NAME}-wal").stat().st_size
        for number in range(10):
            store.create(f"/{session}-{number}", b"x" * 100)
        assert (tmp_path / f"{FILE_NAME}-wal").stat().st_size == reserved >= 64 * 4096
        store.close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        assert database.execute("PRAGMA freelist_count").fetchone()[0] >= 32


def test_embedded_store_without_room_to_begin_leaves_the_file_to_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full, pytest.raises(NoSpaceLeft):
        _limit(full, pages=2)
        EmbeddedStore(tmp_path / FILE_NAME, 1)
    assert EmbeddedStore(tmp_path / FILE_NAME, 2).children("/") == []


def test_embedded_store_writes_nothing_beside_its_files(tmp_path: Path) -> None:
    """What a change takes back was in a file below /var/tmp: where that is full, no topic could be made."""
    before = _open_files()
    store = EmbeddedStore(tmp_path / FILE_NAME, 7)
    store.create("/a")
    store.transaction([Create(f"/a/{index}", b"x" * 100) for index in range(200)])
    opened = _open_files() - before
    store.close()
    assert opened
    assert {path for path in opened if not path.startswith((str(tmp_path), "anon_inode:"))} == set()


def _open_files() -> set[str]:
    links = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
    # The descriptor that listed them is closed.
    return {os.readlink(link) for link in links if os.path.lexists(link)}
