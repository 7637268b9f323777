"""What kazoo answers, in the words of the port: any answer of a server becomes a value or a `CoordinationError`."""

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
    """The server is older than the request."""


# A server may be newer than kazoo, whose thread would end by its error code, and with it the session.
EXCEPTIONS.default_factory = lambda: partial(ZookeeperError, "kazoo does not know the error code")

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


def value_of(answer: Any, timeout_s: float) -> Any:
    """The value of an AsyncResult. Raises KazooTimeoutError, and KazooException, also when it can't be read."""
    if not answer.wait(timeout_s):
        raise KazooTimeoutError("it has not answered in time")
    error = answer.exception
    if error is None:
        return answer.value
    if isinstance(error, KazooException):
        raise error
    raise MarshallingError(f"the answer can't be read: {error!r}") from error


def translated(error: KazooException, path: str) -> CoordinationError:
    for kazoo_error, ours in _ERRORS:
        if isinstance(error, kazoo_error):
            return ours(path)
    return UnexpectedResponse(path, repr(error))


def nodes_of(paths: Sequence[str], answers: Sequence[Node | KazooException]) -> list[Node | None]:
    """The answer to one multi-read; None for nodes that are not there."""
    if len(answers) != len(paths):
        raise UnexpectedResponse(paths[0], f"{len(answers)} nodes for {len(paths)} paths")
    nodes: list[Node | None] = []
    for path, found in zip(paths, answers, strict=True):
        if isinstance(found, KazooException) and not isinstance(found, NoNodeError):
            raise translated(found, path)
        nodes.append(found if isinstance(found, Node) else None)
    return nodes


def raise_what_failed(operations: Sequence[Operation], results: Sequence[Any]) -> None:
    if len(results) != len(operations):
        raise UnexpectedResponse(operations[0].path, f"{len(results)} results for {len(operations)} operations")
    # The failed operation has the error; those before it have "rolled back", those after it "not run".
    for operation, result in zip(operations, results, strict=True):
        if isinstance(result, KazooException) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            raise translated(result, operation.path)
