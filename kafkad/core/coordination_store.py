"""The port to the coordination store: a versioned tree with ephemeral nodes, one-shot watches and a session.

The words and guarantees are ZooKeeper's, because a cluster's store is ZooKeeper; the embedded store of a single broker
has the same contract (tests/adapters/test_coordination_contract.py runs against both). One store object is one session:
once LOST, it stays lost; a new term requires a new store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

ANY_VERSION = -1
"""Expected version that matches every version."""


class CoordinationError(Exception):
    """An operation of the store failed; `path` is its node."""

    def __init__(self, path: str, detail: str = "") -> None:
        super().__init__(f"{type(self).__name__}: {path}{detail and f': {detail}'}")
        self.path = path


class NodeExists(CoordinationError):
    """create: a node of this name exists."""


class NoNode(CoordinationError):
    """The node, or the parent of the node to create, does not exist."""


class BadVersion(CoordinationError):
    """Another client changed the node since the expected version."""


class NotEmpty(CoordinationError):
    """delete: the node has children."""


class NoChildrenForEphemerals(CoordinationError):
    """create: the parent is ephemeral."""


class NotPermitted(CoordinationError):
    """The node is protected from this client."""


class UnexpectedResponse(CoordinationError):
    """An unknown error or unreadable response of the store; the operation may have succeeded."""


class SessionSuspended(CoordinationError):
    """The connection is lost, and the outcome of the operation is unknown. Make no decisions until CONNECTED."""


class SessionLost(CoordinationError):
    """The session and its ephemeral nodes have ended, and the term with them."""


class SessionState(Enum):
    CONNECTED = "connected"
    """Operations are served. After SUSPENDED: the same session, but all watches have to be set again."""
    SUSPENDED = "suspended"
    """Not connected; the session may still be live. All watches are lost. Next: CONNECTED or LOST."""
    LOST = "lost"
    """The session has ended, for good."""


class WatchKind(Enum):
    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class WatchFired:
    """A one-shot watch has fired; the next read can set it again."""

    kind: WatchKind
    path: str


@dataclass(frozen=True, slots=True)
class SessionChanged:
    state: SessionState


Event = WatchFired | SessionChanged


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStat:
    """The store's data about a node (ZooKeeper: czxid, mzxid, version, ephemeralOwner)."""

    created_id: int
    modified_id: int
    version: int
    ephemeral_owner: int
    """The session whose end removes the node; 0 for a persistent node."""


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
    """An operation of a transaction, which fails unless the node has this version."""

    path: str
    version: int


Change = Create | SetData | Delete
Operation = Change | Check
Outcome = str | NodeStat | None
"""For Create the created path (a sequence number included), for SetData the new stat, else None."""


class CoordinationStore(Protocol):
    """Every method raises a `CoordinationError`; a change is durable when the method returns."""

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        """Create the node and return its path. `sequence` appends ten digits that increase per parent."""

    def get(self, path: str, *, watch: bool = False) -> Node:
        """With `watch`: CHANGED or DELETED once. A missing node gets no watch."""

    def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        """The nodes in order, None for missing ones; cheaper than one `get` each. `watch` as for `get`."""

    def set_data(self, path: str, data: bytes, version: int = ANY_VERSION) -> NodeStat: ...

    def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Names, sorted. With `watch`: CHILDREN (one added or removed) or DELETED once."""

    def exists(self, path: str, *, watch: bool = False) -> NodeStat | None:
        """With `watch`: CREATED, CHANGED or DELETED once, also for a missing node."""

    def sync(self, path: str) -> None:
        """Later reads of this session see all changes that any session made before; otherwise a server may lag."""

    def transaction(self, operations: Sequence[Operation]) -> list[Outcome]:
        """All or none. Raises the error of the first operation that fails."""

    def pipelined(self, changes: Sequence[Change], *, guard: Check | None = None) -> list[Outcome | CoordinationError]:
        """Apply each change by itself, in order, with one result each: for bulk changes that can be completed later.

        With `guard` each change is a transaction with this check (fencing by the controller epoch).
        """

    def events(self) -> list[Event]:
        """The events since the last call, oldest first, without waiting."""

    def fileno(self) -> int:
        """Readable while there are `events`."""

    @property
    def state(self) -> SessionState: ...

    @property
    def session_id(self) -> int:
        """The owner of ephemeral nodes of this session."""

    def close(self) -> None:
        """Close the store. Whether this ends the session depends on the implementation."""


def parent_of(path: str) -> str:
    """The parent's path; `/` for `/a`."""
    return path[: path.rindex("/")] or "/"


MAX_BATCH_CHANGES, MAX_BATCH_BYTES = 50, 128 * 1024
"""A transaction of ZooKeeper takes little longer than a single change."""


def batches_of(changes: Sequence[Change]) -> list[list[Change]]:
    """The changes in batches for transactions. The caller repeats the changes of a failed transaction one by one.

    Changes of different types or of one node are not batched, because repetition may change their order.
    """
    are_alike = len({type(change) for change in changes}) == 1 and len({each.path for each in changes}) == len(changes)
    most = MAX_BATCH_CHANGES if are_alike else 1
    batches: list[list[Change]] = []
    size = 0
    for change in changes:
        length = 0 if isinstance(change, Delete) else len(change.data)
        size += length
        if not batches or size > MAX_BATCH_BYTES or len(batches[-1]) == most:
            batches.append([])
            size = length
        batches[-1].append(change)
    return batches
