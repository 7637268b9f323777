"""The coordination store of a cluster: ZooKeeper through kazoo.

kazoo's threads only put events into a queue. A store is one session: kazoo would open a new session after an expiry,
but here a LOST session stays lost, so that no decision is made after the end of a term. Requests that are pending when
the connection breaks have an unknown outcome: SessionSuspended or SessionLost.
"""

import logging
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event as Flag
from typing import Any, TypeVar

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import WatchedEvent
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from kafkad.adapters.links.event_queue import EventQueue
from kafkad.adapters.stores.zookeeper_client import make_root, multi_read, start, stop, supports_multi_reads
from kafkad.adapters.stores.zookeeper_reads import NODES_PER_REQUEST
from kafkad.adapters.stores.zookeeper_responses import (
    KINDS,
    Unimplemented,
    nodes_of,
    outcome_of,
    raise_failed,
    stat_of,
    translated,
    value_of,
)
from kafkad.adapters.stores.zookeeper_tls import TlsConnections
from kafkad.adapters.stores.zookeeper_waits import Waits
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
    SessionSuspended,
    SetData,
    WatchFired,
    batches_of,
)

Item = TypeVar("Item")

_CONNECTION_ERRORS = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, AuthFailedError)

# kazoo's lines about attempts to connect are not logged; events report the state of the session.
logging.getLogger("kazoo").setLevel(logging.ERROR)

_OLD_CONSUMERS = "/consumers"
_SECRETS = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Other clients may not even read the nodes below these."""


class ZookeeperUnreachable(Exception):
    """No server of the ensemble responds; the message has the hosts."""


class ZookeeperStore:
    """`close` ends the session and its ephemeral nodes; the session of a dead process can be resumed.

    `session` (id, password) resumes the session of an earlier process, if it has not expired. With `protects` only
    clients with the same certificate identity may change the created nodes. At most `max_in_flight` requests are
    pending. After `stopping` is set, calls do not wait for a silent server.
    """

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_s: float,
        connect_timeout_s: float,
        operation_timeout_s: float = 30.0,
        session: tuple[int, bytes] | None = None,
        tls: ssl.SSLContext | None = None,
        protects: bool = False,
        max_in_flight: int = 500,
        stopping: Flag | None = None,
    ) -> None:
        self._protects = protects
        self._max_in_flight = max_in_flight
        self._stopping = Flag() if stopping is None else stopping
        secured = None if tls is None else TlsConnections(tls)
        self._events: EventQueue[Event] = EventQueue()
        self._state = SessionState.SUSPENDED
        self._closed = False
        self._operation_timeout_s = operation_timeout_s
        self._is_left_open = False
        self._uses_multi_reads = True
        self._has_multi_reads = False
        """Whether the server of this connection supports multi-reads."""
        attempt_s = session_timeout_s / (hosts.count(",") + 1)
        self._waits = Waits(self._must_end, lambda: self._state is SessionState.CONNECTED, attempt_s, secured)
        waits = self._waits.of_client()
        try:
            self._client = KazooClient(hosts=hosts, timeout=session_timeout_s, client_id=session, **waits)
        except ValueError as invalid:
            raise ZookeeperUnreachable(f"{hosts} is not a valid zookeeper.connect: {invalid}") from invalid
        self._client.add_listener(self._state_changed)
        try:
            with self._waits.pending_request():
                start(self._client, connect_timeout_s, self._must_end)
                make_root(self._client, self._acl, connect_timeout_s)
                self._uses_multi_reads = supports_multi_reads(self._client, connect_timeout_s)
        except (KazooException, KazooTimeoutError, OSError, ValueError) as error:
            self.close()
            reason = error if secured is None or secured.error is None else secured.error
            raise ZookeeperUnreachable(f"ZooKeeper at {hosts} does not respond: {reason}") from error
        if session is not None and self._client.client_id[0] != session[0]:
            self.close()
            raise SessionLost("/")
        self._session: tuple[int, bytes] = self._client.client_id

    @property
    def session(self) -> tuple[int, bytes]:
        """(id, password), with which another process can resume this session."""
        return self._session

    @property
    def session_id(self) -> int:
        return self._session[0]

    @property
    def state(self) -> SessionState:
        return self._state

    def get(self, path: str, *, watch: bool = False) -> Node:
        data, stat = self._call(path, self._client.get_async, path, self._data_changed if watch else None)
        return Node(data or b"", stat_of(stat))

    def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        if watch or not self._uses_multi_reads:
            return self._read_each(paths, self._data_changed if watch else None)
        parts = [paths[at : at + NODES_PER_REQUEST] for at in range(0, len(paths), NODES_PER_REQUEST)]
        # A new connection may be to an older server, which would close it after the first multi-read.
        alone = 0 if self._has_multi_reads else 1
        try:
            found = [*self._read_parts(parts[:alone]), *self._read_parts(parts[alone:])]
        except Unimplemented as error:
            self._uses_multi_reads = False
            raise SessionSuspended(paths[0]) from error
        self._has_multi_reads = self._has_multi_reads or bool(parts)
        return found

    def _read_each(self, paths: Sequence[str], watcher: Callable[[WatchedEvent], None] | None) -> list[Node | None]:
        nodes: list[Node | None] = []
        for path, response in self._pipeline(paths, str, lambda path: self._client.get_async(path, watcher)):
            try:
                data, stat = self._wait(path, response)
                nodes.append(Node(data or b"", stat_of(stat)))
            except NoNode:
                nodes.append(None)
        return nodes

    def _read_parts(self, parts: Sequence[Sequence[str]]) -> list[Node | None]:
        nodes: list[Node | None] = []
        for part, response in self._pipeline(parts, lambda part: part[0], partial(multi_read, self._client)):
            nodes += nodes_of(part, self._wait(part[0], response))
        return nodes

    def exists(self, path: str, *, watch: bool = False) -> NodeStat | None:
        stat = self._call(path, self._client.exists_async, path, self._data_changed if watch else None)
        return None if stat is None else stat_of(stat)

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        watcher = self._children_changed if watch else None
        names: list[str] = self._call(path, self._client.get_children_async, path, watcher)
        return sorted(names)

    def sync(self, path: str) -> None:
        self._call(path, self._client.sync_async, path)

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        options = {"acl": self._acl(path), "ephemeral": ephemeral, "sequence": sequence}
        # Empty data is null, as in Apache Kafka's nodes without data: it rejects empty data.
        return str(self._call(path, self._client.create_async, path, data or None, **options))

    def set_data(self, path: str, data: bytes, version: int = ANY_VERSION) -> NodeStat:
        return stat_of(self._call(path, self._client.set_async, path, data, version))

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._call(path, self._client.delete_async, path, version)

    def transaction(self, operations: Sequence[Operation]) -> list[Outcome]:
        if not operations:
            return []
        results = self._call(operations[0].path, self._send, operations)
        raise_failed(operations, results)
        return [outcome_of(operation, result) for operation, result in zip(operations, results, strict=True)]

    def pipelined(self, changes: Sequence[Change], *, guard: Check | None = None) -> list[Outcome | CoordinationError]:
        return self._by_parts(batches_of(changes), [] if guard is None else [guard])

    def _by_parts(
        self, parts: Sequence[Sequence[Change]], guards: Sequence[Check]
    ) -> list[Outcome | CoordinationError]:
        """Each part is one transaction. The changes of a failed transaction are made one by one, in order. Later parts
        that depend on them fail too, and are repeated after them.
        """
        outcomes: list[Outcome | CoordinationError] = []
        for part, response in self._pipeline(parts, _first_path, lambda part: self._send([*guards, *part])):
            try:
                results = self._wait(part[0].path, response)
                raise_failed([*guards, *part], results)
            except (SessionSuspended, SessionLost):
                raise
            except CoordinationError as error:
                outcomes += [error] if len(part) == 1 else self._by_parts([[change] for change in part], guards)
            else:
                outcomes += map(outcome_of, part, results[len(guards) :])
        return outcomes

    def events(self) -> list[Event]:
        return self._events.drain()

    def fileno(self) -> int:
        return self._events.fileno()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._state is SessionState.SUSPENDED:
                self._is_left_open = True
            self._state = SessionState.LOST
            if not stop(self._client):
                self._is_left_open = True
            self._events.close()

    @property
    def is_left_open(self) -> bool:
        """Whether `close` got no response from a server, so that the session continues until its timeout."""
        return self._is_left_open

    def _must_end(self) -> bool:
        return self._closed or self._stopping.is_set()

    def _acl(self, path: str) -> list[ACL]:
        """The ACL of a new node, as in Apache Kafka's ZkData.defaultAcls."""
        if not self._protects or path == _OLD_CONSUMERS:
            return list(OPEN_ACL_UNSAFE)
        return [*CREATOR_ALL_ACL, *(() if path.startswith(_SECRETS) else READ_ACL_UNSAFE)]

    def _send(self, operations: Sequence[Operation]) -> Any:
        request = self._client.transaction()
        for operation in operations:
            match operation:
                case Create(path, data, ephemeral, sequence):
                    request.create(path, data, self._acl(path), ephemeral=ephemeral, sequence=sequence)
                case SetData(path, data, version):
                    request.set_data(path, data, version)
                case Delete(path, version):
                    request.delete(path, version)
                case Check(path, version):
                    request.check(path, version)
        return request.commit_async()

    def _pipeline(
        self, items: Sequence[Item], path_of: Callable[[Item], str], send: Callable[[Item], Any]
    ) -> list[tuple[Item, Any]]:
        responses: list[tuple[Item, Any]] = []
        for at in range(0, len(items), self._max_in_flight):
            part = items[at : at + self._max_in_flight]
            self._require_connection(path_of(part[0]))
            with self._waits.pending_request():
                sent = [(item, send(item)) for item in part]
                sent[-1][1].wait(self._operation_timeout_s)
            responses.extend(sent)
        return responses

    def _call(self, path: str, send: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self._require_connection(path)
        with self._waits.pending_request():
            return self._wait(path, send(*arguments, **options))

    def _wait(self, path: str, response: Any) -> Any:
        try:
            result = value_of(response, self._operation_timeout_s)
        except KazooTimeoutError as timeout:
            raise SessionSuspended(path) from timeout
        except _CONNECTION_ERRORS as disconnected:
            raise (SessionLost if self._is_lost() else SessionSuspended)(path) from disconnected
        except KazooException as error:
            raise translated(error, path) from error
        # The request was sent just before an expiry; the response is from kazoo's next session.
        if self._is_lost():
            raise SessionLost(path)
        return result

    def _require_connection(self, path: str) -> None:
        if self._is_lost():
            raise SessionLost(path)
        # kazoo would queue the request until it is connected again: then the decision may be outdated.
        if self._state is SessionState.SUSPENDED:
            raise SessionSuspended(path)

    def _is_lost(self) -> bool:
        return self._state is SessionState.LOST

    def _state_changed(self, state: str) -> None:
        self._has_multi_reads = False
        if self._closed and state == KazooState.SUSPENDED:
            self._is_left_open = True
        if self._state is SessionState.LOST:
            return
        if state == KazooState.CONNECTED:
            self._state = SessionState.CONNECTED
        else:
            self._state = SessionState.LOST if state == KazooState.LOST else SessionState.SUSPENDED
        self._events.put(SessionChanged(self._state))

    # Two callbacks, because kazoo has a set of watchers per path, and data and child watches must be distinct.
    def _data_changed(self, event: WatchedEvent) -> None:
        self._watch_fired(event)

    def _children_changed(self, event: WatchedEvent) -> None:
        self._watch_fired(event)

    def _watch_fired(self, event: WatchedEvent) -> None:
        # Other types report changes of the connection, which SessionChanged reports too.
        if event.type in KINDS:
            self._events.put(WatchFired(KINDS[event.type], event.path))


def _first_path(part: Sequence[Change]) -> str:
    return part[0].path
