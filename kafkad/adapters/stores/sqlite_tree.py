"""The versioned tree of the embedded store as rows of SQLite, with its operations.

The caller begins and ends the transaction; an operation that raises has changed nothing. `changes` collects the events
since `begin`, from which the caller fires watches.
"""

import sqlite3

from kafkad.core.coordination_store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NodeStat,
    NoNode,
    NotEmpty,
    Operation,
    Outcome,
    SetData,
    WatchFired,
    WatchKind,
    parent_of,
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS node (
    path TEXT PRIMARY KEY, parent TEXT NOT NULL, data BLOB NOT NULL, version INTEGER NOT NULL,
    created_id INTEGER NOT NULL, modified_id INTEGER NOT NULL, owner INTEGER NOT NULL,
    creations INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS node_parent ON node (parent);
CREATE INDEX IF NOT EXISTS node_owner ON node (owner) WHERE owner <> 0;
CREATE TABLE IF NOT EXISTS last_change (only INTEGER PRIMARY KEY CHECK (only = 0), id INTEGER NOT NULL);
INSERT OR IGNORE INTO last_change VALUES (0, 0);
INSERT OR IGNORE INTO node VALUES ('/', '', x'', 0, 0, 0, 0, 0);
"""


class SqliteTree:
    def __init__(self, database: sqlite3.Connection, session_id: int) -> None:
        self._database = database
        self._session_id = session_id
        self.change_id = 0
        self.changes: list[WatchFired] = []
        self._created: dict[str, int] = {}
        """The number of children that the current change has created, by parent; a cache of existing parents."""

    def begin(self) -> None:
        """Begin a change, which consists of the operations up to the commit, with the next number (ZooKeeper: zxid)."""
        self.changes.clear()
        self._created.clear()
        (self.change_id,) = self._database.execute("UPDATE last_change SET id = id + 1 RETURNING id").fetchone()

    def end(self) -> None:
        """Called before the commit: writes each parent of created children once."""
        self._database.executemany(
            "UPDATE node SET creations = creations + ? WHERE path = ?",
            [(count, parent) for parent, count in self._created.items() if count],
        )

    def find(self, path: str) -> Node | None:
        row = self._database.execute(
            "SELECT data, created_id, modified_id, version, owner FROM node WHERE path = ?", (path,)
        ).fetchone()
        if row is None:
            return None
        data, created_id, modified_id, version, owner = row
        stat = NodeStat(created_id=created_id, modified_id=modified_id, version=version, ephemeral_owner=owner)
        return Node(data, stat)

    def children(self, path: str) -> list[str]:
        skip = len(path) + (path != "/")
        rows = self._database.execute("SELECT path FROM node WHERE parent = ? ORDER BY path", (path,))
        return [child[skip:] for (child,) in rows]

    def apply(self, operation: Operation) -> Outcome:
        match operation:
            case Create():
                return self.create(operation)
            case SetData():
                return self.set_data(operation)
            case Delete():
                self.delete(operation)
            case Check():
                self._expect(operation.path, operation.version)
        return None

    def create(self, operation: Create) -> str:
        parent = parent_of(operation.path)
        created = self._created.get(parent)
        if created is None or operation.sequence:
            creations = self._creations_of(parent, operation.path)
            created = self._created.setdefault(parent, 0)
        path = f"{operation.path}{creations + created:010d}" if operation.sequence else operation.path
        owner = self._session_id if operation.ephemeral else 0
        change = self.change_id
        inserted = self._database.execute(
            "INSERT OR IGNORE INTO node VALUES (?, ?, ?, 0, ?, ?, ?, 0)",
            (path, parent, operation.data, change, change, owner),
        )
        if not inserted.rowcount:
            raise NodeExists(path)
        self._created[parent] = created + 1
        if not owner:
            self._created[path] = 0
        self.changes.append(WatchFired(WatchKind.CREATED, path))
        self.changes.append(WatchFired(WatchKind.CHILDREN, parent))
        return path

    def _creations_of(self, parent: str, child: str) -> int:
        row = self._database.execute("SELECT creations, owner FROM node WHERE path = ?", (parent,)).fetchone()
        if row is None:
            raise NoNode(child)
        creations, owner = row
        if owner:
            raise NoChildrenForEphemerals(child)
        return int(creations)

    def set_data(self, operation: SetData) -> NodeStat:
        stat = self._expect(operation.path, operation.version).stat
        self._database.execute(
            "UPDATE node SET data = ?, version = ?, modified_id = ? WHERE path = ?",
            (operation.data, stat.version + 1, self.change_id, operation.path),
        )
        self.changes.append(WatchFired(WatchKind.CHANGED, operation.path))
        return NodeStat(
            created_id=stat.created_id,
            modified_id=self.change_id,
            version=stat.version + 1,
            ephemeral_owner=stat.ephemeral_owner,
        )

    def delete(self, operation: Delete) -> None:
        path = operation.path
        self._expect(path, operation.version)
        if self._database.execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", (path,)).fetchone():
            raise NotEmpty(path)
        self._database.execute("DELETE FROM node WHERE path = ?", (path,))
        self._created.pop(path, None)
        self.changes.append(WatchFired(WatchKind.DELETED, path))
        self.changes.append(WatchFired(WatchKind.CHILDREN, parent_of(path)))

    def delete_ephemerals_of_others(self) -> None:
        self._delete_all("SELECT path FROM node WHERE owner NOT IN (0, ?)")

    def delete_own_ephemerals(self) -> None:
        self._delete_all("SELECT path FROM node WHERE owner = ?")

    def _delete_all(self, selection: str) -> None:
        for (path,) in self._database.execute(selection, (self._session_id,)).fetchall():
            self.delete(Delete(path))

    def _expect(self, path: str, version: int) -> Node:
        node = self.find(path)
        if node is None:
            raise NoNode(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path)
        return node
