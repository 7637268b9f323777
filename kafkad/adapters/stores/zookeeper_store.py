"""The coordination store of a cluster: ZooKeeper through kazoo.

kazoo's threads only put events into a queue. A store is one session: kazoo would open a new one by itself after an
expiry; here a session that was LOST stays lost, so that no decision is made in a term that is over. Requests in
flight when the connection broke have an unknown outcome: SessionSuspended or SessionLost.
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
from kafkad.adapters.stores.zookeeper_client import knows_multi_reads, make_root, read_together, start, stop
from kafkad.adapters.stores.zookeeper_reads import TOGETHER
from kafkad.adapters.stores.zookeeper_responses import (
    KINDS,
    Unimplemented,
    nodes_of,
    outcome_of,
    raise_what_failed,
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

# What kazoo says of each attempt to connect is no news: the state of the session is, and is told by events.
logging.getLogger("kazoo").setLevel(logging.ERROR)

_OLD_CONSUMERS = "/consumers"
_SECRETS = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Nobody else may even read what is below these."""


class ZookeeperUnreachable(Exception):
    """No server of the ensemble has answered; the message names the hosts."""


class ZookeeperStore:
    """`close` ends the session and its ephemeral nodes; the session of a process that dies can be resumed.

    `session` (id, password) resumes the session of a process before this one, as long as it has not expired. With
    `protects` only who shows the identity of this client's certificate may change the nodes that it makes. No more than
    `max_in_flight` requests wait for an answer: the server answers in order anyway. Once `stopping` is set no silent
    server is waited for.
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
        self._reads_together = True
        self._server_is_known = False
        """Whether this connection has answered a multi-read."""
        attempt_s = session_timeout_s / (hosts.count(",") + 1)
        self._waits = Waits(self._is_to_end, lambda: self._state is SessionState.CONNECTED, attempt_s, secured)
        waits = self._waits.of_client()
        try:
            self._client = KazooClient(hosts=hosts, timeout=session_timeout_s, client_id=session, **waits)
        except ValueError as refused:
            raise ZookeeperUnreachable(f"{hosts} are no servers of ZooKeeper: {refused}") from refused
        self._client.add_listener(self._state_changed)
        try:
            with self._waits.asking():
                start(self._client, connect_timeout_s, self._is_to_end)
                make_root(self._client, self._acl, connect_timeout_s)
                self._reads_together = knows_multi_reads(self._client, connect_timeout_s)
        except (KazooException, KazooTimeoutError, OSError, ValueError) as error:
            self.close()
            why = error if secured is None or secured.refused is None else secured.refused
            raise ZookeeperUnreachable(f"ZooKeeper at {hosts} does not answer: {why}") from error
        if session is not None and self._client.client_id[0] != session[0]:
            self.close()
            raise SessionLost("/")
        self._session: tuple[int, bytes] = self._client.client_id

    @property
    def session(self) -> tuple[int, bytes]:
        """What another process needs to resume this session."""
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
        if watch or not self._reads_together:
            return self._read_each(paths, self._data_changed if watch else None)
        parts = [paths[at : at + TOGETHER] for at in range(0, len(paths), TOGETHER)]
        # The connection may be a new one, to an older server than before: that would close it on all but the first.
        alone = 0 if self._server_is_known else 1
        try:
            found = [*self._read_parts(parts[:alone]), *self._read_parts(parts[alone:])]
        except Unimplemented as error:
            self._reads_together = False
            raise SessionSuspended(paths[0]) from error
        self._server_is_known = self._server_is_known or bool(parts)
        return found

    def _read_each(self, paths: Sequence[str], watcher: Callable[[WatchedEvent], None] | None) -> list[Node | None]:
        nodes: list[Node | None] = []
        for path, answer in self._pipeline(paths, str, lambda path: self._client.get_async(path, watcher)):
            try:
                data, stat = self._wait(path, answer)
                nodes.append(Node(data or b"", stat_of(stat)))
            except NoNode:
                nodes.append(None)
        return nodes

    def _read_parts(self, parts: Sequence[Sequence[str]]) -> list[Node | None]:
        nodes: list[Node | None] = []
        for part, answer in self._pipeline(parts, lambda part: part[0], partial(read_together, self._client)):
            nodes += nodes_of(part, self._wait(part[0], answer))
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
        # Empty is no data at all, as in Apache Kafka's nodes without any: it reads empty data as broken.
        return str(self._call(path, self._client.create_async, path, data or None, **options))

    def set_data(self, path: str, data: bytes, version: int = ANY_VERSION) -> NodeStat:
        return stat_of(self._call(path, self._client.set_async, path, data, version))

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._call(path, self._client.delete_async, path, version)

    def transaction(self, operations: Sequence[Operation]) -> list[Outcome]:
        if not operations:
            return []
        results = self._call(operations[0].path, self._send, operations)
        raise_what_failed(operations, results)
        return [outcome_of(operation, result) for operation, result in zip(operations, results, strict=True)]

    def pipelined(self, changes: Sequence[Change], *, guard: Check | None = None) -> list[Outcome | CoordinationError]:
        return self._by_parts(batches_of(changes), [] if guard is None else [guard])

    def _by_parts(
        self, parts: Sequence[Sequence[Change]], guards: Sequence[Check]
    ) -> list[Outcome | CoordinationError]:
        """Each part is one transaction. The changes of one that fails are made one by one, in their order: those of
        later parts that needed them fail with theirs, and are repeated after them.
        """
        outcomes: list[Outcome | CoordinationError] = []
        for part, answer in self._pipeline(parts, _first_path, lambda part: self._send([*guards, *part])):
            try:
                results = self._wait(part[0].path, answer)
                raise_what_failed([*guards, *part], results)
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
        """After `close`: no server has answered, so that the session goes on until its time is over."""
        return self._is_left_open

    def _is_to_end(self) -> bool:
        return self._closed or self._stopping.is_set()

    def _acl(self, path: str) -> list[ACL]:
        """Whom ZooKeeper lets do what with a new node, as Apache Kafka's ZkData.defaultAcls has it."""
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
        answers: list[tuple[Item, Any]] = []
        for at in range(0, len(items), self._max_in_flight):
            part = items[at : at + self._max_in_flight]
            self._require_connection(path_of(part[0]))
            with self._waits.asking():
                sent = [(item, send(item)) for item in part]
                sent[-1][1].wait(self._operation_timeout_s)
            answers.extend(sent)
        return answers

    def _call(self, path: str, send: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self._require_connection(path)
        with self._waits.asking():
            return self._wait(path, send(*arguments, **options))

    def _wait(self, path: str, answer: Any) -> Any:
        try:
            result = value_of(answer, self._operation_timeout_s)
        except KazooTimeoutError as timeout:
            raise SessionSuspended(path) from timeout
        except _CONNECTION_ERRORS as disconnected:
            raise (SessionLost if self._is_lost() else SessionSuspended)(path) from disconnected
        except KazooException as error:
            raise translated(error, path) from error
        # Sent just before an expiry, answered in kazoo's next session: not ours any more.
        if self._is_lost():
            raise SessionLost(path)
        return result

    def _require_connection(self, path: str) -> None:
        if self._is_lost():
            raise SessionLost(path)
        # kazoo would keep the request until it is connected again: a decision made on old knowledge.
        if self._state is SessionState.SUSPENDED:
            raise SessionSuspended(path)

    def _is_lost(self) -> bool:
        return self._state is SessionState.LOST

    def _state_changed(self, state: str) -> None:
        self._server_is_known = False
        if self._closed and state == KazooState.SUSPENDED:
            self._is_left_open = True
        if self._state is SessionState.LOST:
            return
        if state == KazooState.CONNECTED:
            self._state = SessionState.CONNECTED
        else:
            self._state = SessionState.LOST if state == KazooState.LOST else SessionState.SUSPENDED
        self._events.put(SessionChanged(self._state))

    # Two callbacks, so that kazoo, which keeps a set per path, holds a data and a child watch apart.
    def _data_changed(self, event: WatchedEvent) -> None:
        self._watch_fired(event)

    def _children_changed(self, event: WatchedEvent) -> None:
        self._watch_fired(event)

    def _watch_fired(self, event: WatchedEvent) -> None:
        # Other types report a change of the connection, for which there is SessionChanged.
        if event.type in KINDS:
            self._events.put(WatchFired(KINDS[event.type], event.path))


def _first_path(part: Sequence[Change]) -> str:
    return part[0].path
