"""The coordination store of a single broker: SQLite in the first log directory.

A change returns after its commit is on disk (WAL, synchronous=FULL). Without disk space a change is rolled back and
raises `NoSpaceLeft`, and the store remains usable. The supervisor chooses the session id: opening the file with the
same id keeps the ephemeral nodes, another id ends the old session. Only one process at a time has the file open; it
gets all watches.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from kafkad.adapters.files.storage_errors import storage_errors
from kafkad.adapters.links.event_queue import EventQueue
from kafkad.adapters.stores.sqlite_tree import SCHEMA, SqliteTree
from kafkad.core.coordination_store import (
    ANY_VERSION,
    Change,
    Check,
    CoordinationError,
    Create,
    Delete,
    Event,
    Node,
    NodeStat,
    NoNode,
    Operation,
    Outcome,
    SessionChanged,
    SessionLost,
    SessionState,
    SetData,
    WatchFired,
    WatchKind,
)
from kafkad.core.ports import NoSpaceLeft, StorageFailed

FILE_NAME = "kafkad-coordination.sqlite"

_PAGE_BYTES = 4096
_SPARE_PAGES = 64

Result = TypeVar("Result")


class EmbeddedStore:
    """`close` keeps the session: opening the file with another `session_id` deletes the ephemeral nodes."""

    def __init__(self, path: Path, session_id: int) -> None:
        self._session_id = session_id
        self._events: EventQueue[Event] = EventQueue()
        self._data_watches: set[str] = set()
        self._child_watches: set[str] = set()
        self._state = SessionState.CONNECTED
        self._closed = False
        try:
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.DatabaseError as error:
            raise StorageFailed(f"coordination store {path}: {error}") from error
        try:
            self._open(path)
            self._tree = SqliteTree(self._database, session_id)
            self._change("/", self._tree.delete_ephemerals_of_others)
            self._reserve_space(path)
        except StorageFailed:
            # An open file remains locked, so the next attempt would fail.
            self._database.close()
            raise

    def _open(self, path: Path) -> None:
        try:
            # Exclusive, so that a second process can't open the file and act as controller.
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            # Otherwise rollback data would be in a file in /var/tmp, which may be full or missing.
            self._database.execute("PRAGMA temp_store = MEMORY")
            self._database.executescript(SCHEMA)
            (check_result,) = self._database.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            kind = NoSpaceLeft if _is_full(error) else StorageFailed
            raise kind(f"coordination store {path}: {error}") from error
        if check_result != "ok":
            raise StorageFailed(f"coordination store {path} is damaged: {_in_one_line(check_result)}")

    def _reserve_space(self, path: Path) -> None:
        """Reserve space for small changes on a full disk, so that topics can be deleted or their retention changed.

        The space is free pages in the database, and a longer write-ahead log (SQLite ignores the bytes after its last
        change). Nothing is reserved if the disk is full already, or for a store in memory.
        """
        (free,) = self._read("/", lambda: self._database.execute("PRAGMA freelist_count").fetchone())
        with suppress(NoSpaceLeft, FileNotFoundError):
            if free < _SPARE_PAGES // 2:
                self._change("/", self._free_pages)
                self._restart_wal()
            with storage_errors(f"{path}-wal"), open(f"{path}-wal", "rb+") as file:
                os.posix_fallocate(file.fileno(), 0, _SPARE_PAGES * _PAGE_BYTES)

    def _free_pages(self) -> None:
        self._database.execute("CREATE TABLE spare (pages BLOB)")
        self._database.execute("INSERT INTO spare VALUES (zeroblob(?))", (_SPARE_PAGES * _PAGE_BYTES,))
        self._database.execute("DROP TABLE spare")

    def get(self, path: str, *, watch: bool = False) -> Node:
        node = self._read(path, lambda: self._tree.find(path))
        if node is None:
            raise NoNode(path)
        if watch:
            self._data_watches.add(path)
        return node

    def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        nodes = self._read(paths[0] if paths else "/", lambda: [self._tree.find(path) for path in paths])
        if watch:
            self._data_watches.update(path for path, node in zip(paths, nodes, strict=True) if node is not None)
        return nodes

    def exists(self, path: str, *, watch: bool = False) -> NodeStat | None:
        node = self._read(path, lambda: self._tree.find(path))
        if watch:
            self._data_watches.add(path)
        return None if node is None else node.stat

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        if self._read(path, lambda: self._tree.find(path)) is None:
            raise NoNode(path)
        if watch:
            self._child_watches.add(path)
        return self._read(path, lambda: self._tree.children(path))

    def sync(self, path: str) -> None:
        """Does nothing: only this process changes the tree."""
        self._require_session(path)

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        operation = Create(path, data, ephemeral, sequence)
        return self._change(path, lambda: self._tree.create(operation))

    def set_data(self, path: str, data: bytes, version: int = ANY_VERSION) -> NodeStat:
        return self._change(path, lambda: self._tree.set_data(SetData(path, data, version)))

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._change(path, lambda: self._tree.delete(Delete(path, version)))

    def transaction(self, operations: Sequence[Operation]) -> list[Outcome]:
        if not operations:
            return []
        return self._change(operations[0].path, lambda: [self._tree.apply(each) for each in operations])

    def pipelined(self, changes: Sequence[Change], *, guard: Check | None = None) -> list[Outcome | CoordinationError]:
        if not changes:
            return []
        return self._change(changes[0].path, lambda: self._attempt_all(changes, guard))

    def _attempt_all(self, changes: Sequence[Change], guard: Check | None) -> list[Outcome | CoordinationError]:
        """The guard is checked again only after a change of its node: only this process changes the tree."""
        outcomes: list[Outcome | CoordinationError] = []
        is_guarded = guard is None
        for change in changes:
            try:
                if guard is not None and not is_guarded:
                    self._tree.apply(guard)
                    is_guarded = True
                outcomes.append(self._tree.apply(change))
            except CoordinationError as error:
                outcomes.append(error)
            if guard is not None and change.path == guard.path:
                is_guarded = False
        return outcomes

    def events(self) -> list[Event]:
        return self._events.drain()

    def fileno(self) -> int:
        return self._events.fileno()

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def last_change(self) -> int:
        """The number of the last change; equal numbers mean that there was no change in between."""
        return self._tree.change_id

    def serialized(self) -> bytes:
        """The whole database as the content of a file. Raises `StorageFailed`."""
        try:
            return self._database.serialize()
        except sqlite3.DatabaseError as error:
            raise StorageFailed(f"coordination store: {error}") from error

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._state = SessionState.LOST
            self._database.close()
            self._events.close()

    def end_session(self) -> None:
        """Called when the supervisor stops: end the session, with its ephemeral nodes and this store."""
        self._change("/", self._tree.delete_own_ephemerals)
        self._state = SessionState.LOST
        self._events.put(SessionChanged(SessionState.LOST))

    def _require_session(self, path: str) -> None:
        if self._state is SessionState.LOST:
            raise SessionLost(path)

    def _read(self, path: str, act: Callable[[], Result]) -> Result:
        self._require_session(path)
        try:
            return act()
        except sqlite3.DatabaseError as error:
            raise StorageFailed(f"coordination store: {error}") from error

    def _change(self, path: str, act: Callable[[], Result]) -> Result:
        self._require_session(path)
        try:
            result = self._commit(act)
        except NoSpaceLeft:
            self._restart_wal()
            result = self._commit(act)
        # After the commit, because a rolled-back transaction changes nothing.
        if self._data_watches or self._child_watches:
            self._fire_watches()
        return result

    def _restart_wal(self) -> None:
        """Use the reserved space: move the write-ahead log into the database, if it fits, and restart the log."""
        try:
            self._database.execute("PRAGMA wal_checkpoint(RESTART)")
        except sqlite3.DatabaseError as error:
            if not _is_full(error):
                raise StorageFailed(f"coordination store: {error}") from error

    def _commit(self, act: Callable[[], Result]) -> Result:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._tree.begin()
                result = act()
                self._tree.end()
            except CoordinationError:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if _is_full(error):
                # A change is atomic: if the log could not grow, the change has no commit frame.
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise NoSpaceLeft(f"coordination store: {error}") from error
            # Other failed writes and syncs are not retried: the state on disk is unknown.
            raise StorageFailed(f"coordination store: {error}") from error
        return result

    def _fire_watches(self) -> None:
        for event in self._tree.changes:
            if event.kind is not WatchKind.CHILDREN:
                self._fire(self._data_watches, event)
            if event.kind in (WatchKind.CHILDREN, WatchKind.DELETED):
                self._fire(self._child_watches, event)

    def _fire(self, watches: set[str], event: WatchFired) -> None:
        if event.path in watches:
            watches.remove(event.path)
            self._events.put(event)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _is_full(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
