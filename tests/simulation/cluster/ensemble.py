"""ZooKeeper in memory: one tree, the sessions of all brokers, and what goes wrong between them.

A store is the embedded one's rules on that tree. Between what it is asked, what it does and what it answers others may
act, a process may die, and a connection may break: then nobody knows whether it was done.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.adapters.stores.sqlite_tree import SCHEMA, SqliteTree
from kafkad.adapters.stores.zookeeper_store import ZookeeperUnreachable
from kafkad.core.coordination_store import (
    Change,
    Check,
    CoordinationError,
    Event,
    Node,
    Outcome,
    SessionChanged,
    SessionLost,
    SessionState,
    SessionSuspended,
    WatchFired,
    WatchKind,
)
from tests.simulation.epoll import VirtualDescriptors
from tests.simulation.ports import Ports
from tests.simulation.scheduler import MS, Timers

SESSION_TIMEOUT_MS = 3_000
Result = TypeVar("Result")


class _Events:
    """An `EventQueue` without a descriptor of the kernel."""

    def __init__(self, descriptors: VirtualDescriptors) -> None:
        self._items: list[Event] = []
        self._descriptors = descriptors
        self._fd = descriptors.add(self)

    def has_events(self) -> bool:
        return bool(self._items)

    def put(self, item: Event) -> None:
        self._items.append(item)
        self._descriptors.stir(self._fd)

    def drain(self) -> list[Event]:
        drained, self._items = self._items, []
        return drained

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        self._descriptors.remove(self._fd)


class SessionStore(EmbeddedStore):
    """One client of the ensemble; the next life of a process may be another client with the same session."""

    is_left_open = False
    """`close` ends the session, also of a broker that can't reach the ensemble."""

    def __init__(self, ensemble: "Ensemble", session_id: int, home: object) -> None:
        # Nothing of the base's: it would open a file.
        self.home = home
        self._ensemble = ensemble
        self._session_id = session_id
        self._events = _Events(ensemble.ports.descriptors)  # type: ignore[assignment]
        self._data_watches: set[str] = set()
        self._child_watches: set[str] = set()
        self._state = SessionState.CONNECTED
        self._closed = False
        self._database = ensemble.database
        self._tree = SqliteTree(ensemble.database, session_id)

    @property
    def session(self) -> tuple[int, bytes]:
        return self._session_id, b"secret"

    def _require_session(self, path: str) -> None:
        """Asked before each operation, and after it."""
        self._ensemble.ports.scheduler.joint("asks the ensemble")
        self._look(path)

    def _look(self, path: str) -> None:
        if self._state is SessionState.LOST:
            raise SessionLost(path)
        if self._state is SessionState.SUSPENDED:
            raise SessionSuspended(path)

    def _change(self, path: str, act: Callable[[], Result]) -> Result:
        self._require_session(path)
        result = self._ensemble.commit(self._tree, act)
        self._ensemble.ports.scheduler.joint("has asked the ensemble")
        self._look(path)
        return result

    def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        return [super(SessionStore, self).get_many([path], watch=watch)[0] for path in paths]

    def pipelined(self, changes: Sequence[Change], *, guard: Check | None = None) -> list[Outcome | CoordinationError]:
        """One after the other: a connection that breaks in between leaves some of them done."""
        return [self._change(each.path, lambda: self._attempt_all([each], guard)[0]) for each in changes]  # noqa: B023

    def hear(self, events: Sequence[WatchFired]) -> None:
        if self._state is SessionState.CONNECTED:
            for event in events:
                if event.kind is not WatchKind.CHILDREN:
                    self._fire(self._data_watches, event)
                if event.kind in (WatchKind.CHILDREN, WatchKind.DELETED):
                    self._fire(self._child_watches, event)

    def become(self, state: SessionState) -> None:
        if self._state is not SessionState.LOST:
            self._state = state
            self._data_watches.clear()
            self._child_watches.clear()
            self._events.put(SessionChanged(state))

    def close(self) -> None:
        if not self._closed:
            self._ensemble.expire(self._session_id)
            self.forget()

    def forget(self) -> None:
        """Nobody has it any more; the session may outlive it."""
        self._closed = True
        self._state = SessionState.LOST
        self._events.close()


class Ensemble:
    """`open` stands where the controller process says `ZookeeperStore`."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self.database = sqlite3.connect(":memory:", isolation_level=None)
        self.database.executescript(SCHEMA)
        self.timers = Timers(ports.scheduler)
        self.sessions: dict[int, SessionStore] = {}
        """The client that has the session now, or had it last."""
        self.away: set[object] = set()
        """The brokers that can't reach it."""
        self.on_change: Callable[[], None] = lambda: None
        self._tree = SqliteTree(self.database, 0)
        self._next_session = 1
        ports.scheduler.add(self.timers)

    # As the brokers have it.

    def open(self, _hosts: str, *, session: tuple[int, bytes] | None = None, **_: Any) -> SessionStore:
        scheduler = self.ports.scheduler
        scheduler.joint("connects to the ensemble")
        strand = scheduler.current
        assert strand is not None, "only a process connects"
        if strand.home in self.away:
            raise ZookeeperUnreachable("the ensemble is away")
        if session is not None and session[0] not in self.sessions:
            raise SessionLost("/")
        if session is None:
            session = self._next_session, b""
            self._next_session += 1
        store = self.sessions[session[0]] = SessionStore(self, session[0], strand.home)
        self.ports.own(store, lambda: self._deserted(store))
        scheduler.note("ensemble", f"session {session[0]:#x} is that of {strand.process.name}")
        return store

    def _deserted(self, store: SessionStore) -> None:
        """Its process has died: the session ends in a while, if nobody goes on with it."""
        store.forget()
        session_id = store.session_id

        def timed_out() -> None:
            if self.sessions.get(session_id) is store:
                self.expire(session_id)

        self.timers.after(SESSION_TIMEOUT_MS * MS, timed_out)

    def commit(self, tree: SqliteTree, act: Callable[[], Result]) -> Result:
        self.database.execute("BEGIN IMMEDIATE")
        try:
            tree.begin()
            result = act()
            tree.end()
        except CoordinationError:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")
        for store in list(self.sessions.values()):
            store.hear(tree.changes)
        self.on_change()
        return result

    # What befalls it.

    def expire(self, session_id: int) -> None:
        store = self.sessions.pop(session_id, None)
        if store is not None:
            self.ports.scheduler.note("ensemble", f"session {session_id:#x} is over")
            tree = SqliteTree(self.database, session_id)
            self.commit(tree, tree.delete_own_ephemerals)
            if store.home not in self.away:
                store.become(SessionState.LOST)

    def cut_off(self, home: object, for_ms: int) -> None:
        """A broker does not reach it for so long; its sessions end meanwhile if that is too long for them."""
        if home in self.away:
            return
        self.away.add(home)
        theirs = [each for each in self.sessions.values() if each.home is home]
        for store in theirs:
            store.become(SessionState.SUSPENDED)
            if for_ms >= SESSION_TIMEOUT_MS:
                self.timers.after(SESSION_TIMEOUT_MS * MS, lambda store=store: self.expire(store.session_id))  # type: ignore[misc]
        self.timers.after(for_ms * MS, lambda: self._reaches(home, theirs))

    def _reaches(self, home: object, theirs: Sequence[SessionStore]) -> None:
        self.away.discard(home)
        for store in theirs:
            lives = self.sessions.get(store.session_id) is store
            store.become(SessionState.CONNECTED if lives else SessionState.LOST)

    # As the simulation has it.

    def read(self, path: str) -> Node | None:
        return self._tree.find(path)

    def children(self, path: str) -> list[str]:
        return self._tree.children(path)

    def close(self) -> None:
        self.database.close()
