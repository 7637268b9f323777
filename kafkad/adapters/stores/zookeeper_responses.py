"""Translates kazoo's results and exceptions into values and exceptions of the port (`CoordinationError`)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from kazoo.exceptions import (
    EXCEPTIONS,
    BadVersionError,
    KazooException,
    MarshallingError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    UnimplementedError,
    ZookeeperError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, ZnodeStat

from kafkad.core.coordination_store import (
    BadVersion,
    CoordinationError,
    Create,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NodeStat,
    NoNode,
    NotEmpty,
    NotPermitted,
    Operation,
    Outcome,
    SetData,
    UnexpectedResponse,
    WatchKind,
)


class Unimplemented(UnexpectedResponse):
    """The server does not support the request."""


# Error codes of newer servers would end kazoo's thread, and with it the session.
EXCEPTIONS.default_factory = lambda: partial(ZookeeperError, "unknown error code")

_ERRORS: tuple[tuple[type[KazooException], type[CoordinationError]], ...] = (
    (NodeExistsError, NodeExists),
    (NoNodeError, NoNode),
    (BadVersionError, BadVersion),
    (NotEmptyError, NotEmpty),
    (NoChildrenForEphemeralsError, NoChildrenForEphemerals),
    (NoAuthError, NotPermitted),
    (UnimplementedError, Unimplemented),
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


def value_of(response: Any, timeout_s: float) -> Any:
    """The value of an AsyncResult. Raises KazooTimeoutError, and KazooException, also for a malformed response."""
    if not response.wait(timeout_s):
        raise KazooTimeoutError("no response in time")
    error = response.exception
    if error is None:
        return response.value
    if isinstance(error, KazooException):
        raise error
    raise MarshallingError(f"malformed response: {error!r}") from error


def translated(error: KazooException, path: str) -> CoordinationError:
    for kazoo_error, error_type in _ERRORS:
        if isinstance(error, kazoo_error):
            return error_type(path)
    return UnexpectedResponse(path, repr(error))


def nodes_of(paths: Sequence[str], results: Sequence[Node | KazooException]) -> list[Node | None]:
    """The results of one multi-read; None for missing nodes."""
    if len(results) != len(paths):
        raise UnexpectedResponse(paths[0], f"{len(results)} nodes for {len(paths)} paths")
    nodes: list[Node | None] = []
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, KazooException) and not isinstance(result, NoNodeError):
            raise translated(result, path)
        nodes.append(result if isinstance(result, Node) else None)
    return nodes


def raise_failed(operations: Sequence[Operation], results: Sequence[Any]) -> None:
    if len(results) != len(operations):
        raise UnexpectedResponse(operations[0].path, f"{len(results)} results for {len(operations)} operations")
    # The failed operation has the error; operations before it have "rolled back", after it "not run".
    for operation, result in zip(operations, results, strict=True):
        if isinstance(result, KazooException) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            raise translated(result, operation.path)
