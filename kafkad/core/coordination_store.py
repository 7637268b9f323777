"""The port to the coordination store: a versioned tree with ephemeral nodes, one-shot watches and a session.

The words and guarantees are ZooKeeper's, because the cluster's store is ZooKeeper; the embedded store of a single
broker keeps the same contract (tests/adapters/test_coordination_contract.py runs against both). One store object is one
session: once LOST, it stays lost; a new term needs a new store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

ANY_VERSION = -1
"""Expected version that matches whatever version the node has."""


class CoordinationError(Exception):
    """The store did not do what was asked; `path` is the node concerned."""

    def __init__(self, path: str, detail: str = "") -> None:
        super().__init__(f"{type(self).__name__}: {path}{detail and f': {detail}'}")
        self.path = path


class NodeExists(CoordinationError):
    """create: there is a node of this name."""


class NoNode(CoordinationError):
    """The node, or the parent of the node to create, is not there."""


class BadVersion(CoordinationError):
    """The node was changed by someone else since the expected version."""


class NotEmpty(CoordinationError):
    """delete: the node has children."""


class NoChildrenForEphemerals(CoordinationError):
    """create: the parent is ephemeral."""


class NotPermitted(CoordinationError):
    """The node is protected, and not for this client."""


class UnexpectedResponse(CoordinationError):
    """The store answered with an error that is none of these, or with what can't be read; the operation may be done."""


class SessionSuspended(CoordinationError):
    """The connection is away; whether the operation was done is not known. Stop deciding until CONNECTED."""


class SessionLost(CoordinationError):
    """The session is over, and its ephemeral nodes with it. The term is over too."""


class SessionState(Enum):
    CONNECTED = "connected"
    """Operations are served. After SUSPENDED: the same session, but every watch has to be set again."""
    SUSPENDED = "suspended"
    """Not connected; the session may live on. Every watch is gone. Goes to CONNECTED or LOST."""
    LOST = "lost"
    """Over, for good."""


class WatchKind(Enum):
    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class WatchFired:
    """A one-shot watch went off; it has to be set again by reading again."""

    kind: WatchKind
    path: str


@dataclass(frozen=True, slots=True)
class SessionChanged:
    state: SessionState


Event = WatchFired | SessionChanged


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStat:
    """What the store knows of a node besides its data (ZooKeeper: czxid, mzxid, version, ephemeralOwner)."""

    created_id: int
    modified_id: int
    version: int
    ephemeral_owner: int
    """The session with which the node ends; 0 for a persistent node."""


@dataclass(frozen=True, slots=True)
class Node:
    data: bytes
    stat: NodeStat

    @property
    def version(self) -> int:
        return self.stat.version


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Part of a transaction: it fails unless the node has this version."""

    path: str
    version: int


Change = Create | SetData | Delete
Operation = Change | Check
Outcome = str | NodeStat | None
"""For Create the created path (a sequence number included), for SetData the new stat, else None."""


class CoordinationStore(Protocol):
    """Every method raises a `CoordinationError`; a change is durable when the method returns."""

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        """Create the node, return its path. `sequence` appends ten digits that grow per parent."""

    def get(self, path: str, *, watch: bool = False) -> Node:
        """With `watch`: CHANGED or DELETED once. No watch is left when the node is not there."""

    def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        """The nodes in order, None for those that are not there; cheaper than one `get` each. `watch` as for `get`."""

    def set_data(self, path: str, data: bytes, version: int = ANY_VERSION) -> NodeStat: ...

    def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Names, sorted. With `watch`: CHILDREN (one added or removed) or DELETED once."""

    def exists(self, path: str, *, watch: bool = False) -> NodeStat | None:
        """With `watch`: CREATED, CHANGED or DELETED once, also when the node is not there yet."""

    def sync(self, path: str) -> None:
        """What is read afterwards, by this session, has all that any session changed before: a server may lag."""

    def transaction(self, operations: Sequence[Operation]) -> list[Outcome]:
        """All or none. Raises the error of the first operation that fails."""

    def pipelined(self, changes: Sequence[Change], *, guard: Check | None = None) -> list[Outcome | CoordinationError]:
        """Each on its own, in order, one result each: for bulk changes that can be completed later.

        With `guard` each change is a transaction with that check (fencing by the controller epoch).
        """

    def events(self) -> list[Event]:
        """The events since the last call, oldest first; never waits."""

    def fileno(self) -> int:
        """Readable while `events` has something to return."""

    @property
    def state(self) -> SessionState: ...

    @property
    def session_id(self) -> int:
        """The owner of ephemeral nodes of this session."""

    def close(self) -> None:
        """Close the store. Whether the session ends with it depends on the implementation; see there."""


def parent_of(path: str) -> str:
    """The path one level up; of `/a` it is `/`."""
    return path[: path.rindex("/")] or "/"


TOGETHER, TOGETHER_BYTES = 50, 128 * 1024
"""One transaction of ZooKeeper takes little longer than one change."""


def parts_of(changes: Sequence[Change]) -> list[list[Change]]:
    """Which of many changes may be one transaction, if those of one that fails are repeated one by one.

    Changes of different kinds, or of one node, stay apart: a later one may be made before one that is repeated.
    """
    are_alike = len({type(change) for change in changes}) == 1 and len({each.path for each in changes}) == len(changes)
    most = TOGETHER if are_alike else 1
    parts: list[list[Change]] = []
    size = 0
    for change in changes:
        length = 0 if isinstance(change, Delete) else len(change.data)
        size += length
        if not parts or size > TOGETHER_BYTES or len(parts[-1]) == most:
            parts.append([])
            size = length
        parts[-1].append(change)
    return parts
