"""What kazoo answers, in the words of the port."""

from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import EventType, ZnodeStat

from kafkad.core.coordination_store import (
    BadVersion,
    CoordinationError,
    Create,
    NoChildrenForEphemerals,
    NodeExists,
    NodeStat,
    NoNode,
    NotEmpty,
    NotPermitted,
    Operation,
    Outcome,
    SetData,
    WatchKind,
)

_ERRORS: tuple[tuple[type[KazooException], type[CoordinationError]], ...] = (
    (NodeExistsError, NodeExists),
    (NoNodeError, NoNode),
    (BadVersionError, BadVersion),
    (NotEmptyError, NotEmpty),
    (NoChildrenForEphemeralsError, NoChildrenForEphemerals),
    (NoAuthError, NotPermitted),
)

KINDS = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.CHILD: WatchKind.CHILDREN,
}


def stat_of(stat: ZnodeStat) -> NodeStat:
    return NodeStat(
        created_id=stat.czxid,
        modified_id=stat.mzxid,
        version=stat.version,
        ephemeral_owner=stat.ephemeralOwner,
    )


def outcome_of(operation: Operation, result: Any) -> Outcome:
    match operation:
        case Create():
            return str(result)
        case SetData():
            return stat_of(result)
        case _:
            return None


def translated(error: KazooException, path: str) -> CoordinationError:
    """Raises an error that the port has no word for."""
    for kazoo_error, ours in _ERRORS:
        if isinstance(error, kazoo_error):
            return ours(path)
    raise error


def raise_what_failed(operations: Sequence[Operation], results: Sequence[Any]) -> None:
    # The failed operation has the error; those before it have "rolled back", those after it "not run".
    for operation, result in zip(operations, results, strict=True):
        if isinstance(result, KazooException) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            raise translated(result, operation.path)
