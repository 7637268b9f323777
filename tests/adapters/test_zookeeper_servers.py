"""Servers of ZooKeeper that are older, silent or away: what the store does about each."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from bench.brokers.zookeeper import ZookeeperServer
from kafkad.adapters.stores.zookeeper_store import ZookeeperStore, ZookeeperUnreachable
from kafkad.adapters.stores.zookeeper_waits import LONGEST_PAUSE_S, SILENT_S, Waits
from kafkad.core.coordination_store import (
    Check,
    CoordinationError,
    Create,
    NotPermitted,
    SessionState,
    SessionSuspended,
    SetData,
    UnexpectedResponse,
)
from tests.tools.certificates import Authority

SESSION_S = 40.0
SOON_S = 20.0
"""Far less than kazoo waits for a server that is silent."""
MULTI_READ, UNIMPLEMENTED = 22, -6
CREATE, DELETE, EXISTS, GET, SET, SYNC, CHILDREN, MULTI = 1, 2, 3, 4, 5, 9, 8, 14
SESSION_MOVED, NO_AUTH, NOBODY_KNOWS = -118, -102, -9_999
CALLS: dict[int, Callable[[ZookeeperStore], object]] = {
    CREATE: lambda store: store.create("/x"),
    DELETE: lambda store: store.delete("/x"),
    EXISTS: lambda store: store.exists("/x"),
    GET: lambda store: store.get("/x"),
    SET: lambda store: store.set_data("/x", b""),
    SYNC: lambda store: store.sync("/x"),
    CHILDREN: lambda store: store.children("/x"),
    MULTI: lambda store: store.transaction([SetData("/x", b"")]),
    MULTI_READ: lambda store: store.get_many(["/x"]),
}
_END = struct.pack(">i?i", -1, True, -1)


def failed_part(code: int) -> bytes:
    """The answer to one operation of several, and the end."""
    return struct.pack(">i?ii", -1, False, code, code) + _END


class OtherServer:
    """A real server behind a connection on which nobody knows multi-reads while `is_old`, as those before 3.6, or says
    anything while not `speaks`. `instead` has the error and the body that an operation is answered with.
    """

    def __init__(self, server: ZookeeperServer, *, is_old: bool) -> None:
        self.is_old = is_old
        self.instead: dict[int, tuple[int, bytes]] = {}
        self.speaks = threading.Event()
        self.speaks.set()
        self.connections: list[socket.socket] = []
        self.operations: list[int] = []
        self._behind = server.hosts.rpartition(":")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.hosts = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((self._behind[0], int(self._behind[2])))
                self.connections.append(client)
                threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answers, args=(server, client), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        is_first = True
        with suppress(OSError, struct.error):
            while True:
                size = client.recv(4, socket.MSG_WAITALL)
                frame = client.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
                xid, operation = struct.unpack_from(">ii", frame)
                if not is_first and operation == MULTI_READ and self.is_old:
                    client.sendall(struct.pack(">iiqi", 16, xid, 0, UNIMPLEMENTED))
                    break
                if not is_first and operation in self.instead:
                    code, body = self.instead[operation]
                    client.sendall(struct.pack(">iiqi", 16 + len(body), xid, 0, code) + body)
                    continue
                if not is_first:
                    self.operations.append(operation)
                is_first = False
                self.speaks.wait()
                server.sendall(size + frame)
        for each in (client, server):
            self._end(each)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while answer := server.recv(65536):
                client.sendall(answer)
        self._end(client)

    def _end(self, each: socket.socket) -> None:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()

    def break_connections(self) -> None:
        for each in self.connections:
            self._end(each)

    def close(self) -> None:
        self.speaks.set()
        self._listener.close()
        self.break_connections()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperServer]:
    server = ZookeeperServer(tmp_path_factory.mktemp("zookeeper"))
    yield server
    server.stop()


@pytest.fixture
def old(zookeeper: ZookeeperServer) -> Iterator[OtherServer]:
    made = OtherServer(zookeeper, is_old=True)
    yield made
    made.close()


@pytest.fixture
def other(zookeeper: ZookeeperServer) -> Iterator[OtherServer]:
    made = OtherServer(zookeeper, is_old=False)
    yield made
    made.close()


def opened(hosts: str, stopping: threading.Event | None = None) -> ZookeeperStore:
    return ZookeeperStore(hosts, session_timeout_s=SESSION_S, connect_timeout_s=20, stopping=stopping)


def written(store: ZookeeperStore, root: str) -> tuple[list[str], list[bytes | None]]:
    """Paths, of which every third is missing, and their data."""
    store.create(root)
    rows = [(f"{root}/{number}", None if number % 3 == 2 else b"%d" % number) for number in range(170)]
    store.pipelined([Create(path, data) for path, data in rows if data is not None])
    return [path for path, _ in rows], [data for _, data in rows]


def read(store: ZookeeperStore, paths: list[str]) -> list[bytes | None]:
    return [None if node is None else node.data for node in store.get_many(paths)]


@pytest.mark.parametrize("code", [SESSION_MOVED, NOBODY_KNOWS])
@pytest.mark.parametrize("operation", CALLS)
def test_an_error_that_nobody_has_a_word_for_is_one_of_that_request(
    other: OtherServer, operation: int, code: int
) -> None:
    """kazoo's thread ended, or ours did, and the controller process with it."""
    store = opened(f"{other.hosts}/codes")
    other.instead[operation] = (code, b"")
    with pytest.raises(UnexpectedResponse, match="/x"):
        CALLS[operation](store)
    other.instead.clear()
    assert store.exists("/x") is None
    assert store.state is SessionState.CONNECTED
    store.close()


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        (GET, b""),
        (GET, b"\0\0\0\x05abc"),
        (CHILDREN, struct.pack(">ii", 2, 1) + b"\xff"),
        (EXISTS, b"\0"),
        (MULTI, b""),
        (MULTI, _END),
        (MULTI, failed_part(NOBODY_KNOWS)),
        (MULTI, failed_part(SESSION_MOVED)),
        (MULTI_READ, b""),
        (MULTI_READ, _END),
        (MULTI_READ, failed_part(NOBODY_KNOWS)),
    ],
)
def test_an_answer_that_can_not_be_read_is_an_error_of_that_request(
    other: OtherServer, operation: int, body: bytes
) -> None:
    store = opened(f"{other.hosts}/answers")
    other.instead[operation] = (0, body)
    with pytest.raises(UnexpectedResponse, match="/x"):
        CALLS[operation](store)
    other.instead.clear()
    assert store.exists("/x") is None
    store.close()


def test_changes_of_a_pipeline_have_such_errors_one_by_one(other: OtherServer) -> None:
    store = opened(f"{other.hosts}/pipeline")
    other.instead[MULTI] = (0, failed_part(NOBODY_KNOWS))
    outcomes = store.pipelined([Create("/a"), Create("/b")])
    assert [type(each) for each in outcomes] == [UnexpectedResponse, UnexpectedResponse]
    other.instead[MULTI] = (NO_AUTH, b"")
    guarded = store.pipelined([Create("/a")], guard=Check("/", 0))
    assert [type(each) for each in guarded] == [NotPermitted]
    assert all(isinstance(each, CoordinationError) for each in (*outcomes, *guarded))
    store.close()


@pytest.mark.parametrize("code", [SESSION_MOVED, NOBODY_KNOWS])
@pytest.mark.parametrize("operation", [EXISTS, MULTI_READ])
def test_such_errors_at_the_start_are_a_server_that_can_not_be_reached(
    other: OtherServer, operation: int, code: int
) -> None:
    other.instead[operation] = (code, b"")
    with pytest.raises(ZookeeperUnreachable):
        opened(f"{other.hosts}/start")


def test_fifty_nodes_are_one_request(other: OtherServer) -> None:
    store = opened(f"{other.hosts}/many")
    paths, data = written(store, "/nodes")
    other.operations.clear()
    assert read(store, paths) == data
    assert other.operations == [MULTI_READ] * 4
    store.close()


def test_a_server_that_knows_no_multi_reads_costs_a_connection_and_no_session(old: OtherServer) -> None:
    store = opened(f"{old.hosts}/older")
    paths, data = written(store, "/nodes")
    store.create("/nodes/own", ephemeral=True)
    assert read(store, paths) == data
    assert read(store, ["/", *paths])[1:] == data
    assert len(old.connections) == 2
    assert store.state is SessionState.CONNECTED
    own = store.exists("/nodes/own")
    assert own is not None and own.ephemeral_owner == store.session_id
    store.close()
    assert not store.is_left_open


def test_the_next_connection_may_be_with_a_server_that_knows_no_multi_reads(other: OtherServer) -> None:
    store = opened(f"{other.hosts}/next")
    paths, data = written(store, "/nodes")
    assert read(store, paths) == data
    session, other.is_old = store.session_id, True

    def is_suspended() -> bool:
        return store.state is SessionState.SUSPENDED

    other.break_connections()
    eventually(lambda: len(other.connections) == 2 and not is_suspended(), what="it is connected again")
    with pytest.raises(SessionSuspended):
        store.get_many(paths)
    eventually(lambda: len(other.connections) == 3 and not is_suspended(), what="it is connected again")
    assert read(store, paths) == data
    assert store.session_id == session and len(other.connections) == 3
    store.close()


def test_a_session_is_closed_soon_when_the_server_is_silent(other: OtherServer) -> None:
    store = opened(other.hosts)
    other.speaks.clear()
    began = time.monotonic()
    store.close()
    assert time.monotonic() - began < SOON_S
    assert store.is_left_open


def test_a_session_is_closed_soon_when_names_are_not_resolved(
    other: OtherServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(other.hosts)
    asked, answered = threading.Event(), threading.Event()

    def resolves(*_: object) -> list[object]:
        asked.set()
        answered.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolves)
    other.break_connections()
    assert asked.wait(SOON_S)
    began = time.monotonic()
    store.close()
    answered.set()
    assert time.monotonic() - began < SOON_S
    assert store.is_left_open


def test_what_waits_for_a_silent_server_fails_soon_when_the_broker_stops(other: OtherServer) -> None:
    stopping = threading.Event()
    store = opened(other.hosts, stopping)
    other.speaks.clear()
    began = time.monotonic()
    threading.Timer(0.2, stopping.set).start()
    with pytest.raises(SessionSuspended):
        store.exists("/")
    store.close()
    assert time.monotonic() - began < SOON_S


def test_an_attempt_to_connect_ends_soon_when_the_broker_stops() -> None:
    stopping = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        threading.Timer(0.2, stopping.set).start()
        with pytest.raises(ZookeeperUnreachable):
            opened(f"127.0.0.1:{silent.getsockname()[1]}", stopping)
        assert time.monotonic() - began < SOON_S


def test_the_pause_between_attempts_to_connect_does_not_grow_for_ever() -> None:
    slept: list[float] = []
    retry = Waits(lambda: False, lambda: True, 1.0, None).of_client()["connection_retry"]
    retry.sleep_func = slept.append

    def fails_often() -> None:
        if len(slept) < 30:
            raise retry.retry_exceptions[0]

    retry(fails_often)
    assert len(slept) == 30 and max(slept) <= LONGEST_PAUSE_S * 1.4


def test_a_wait_that_is_not_to_end_lasts_as_long_as_it_was_asked_to() -> None:
    ours, others = socket.socketpair()
    with ours, others:
        waits = Waits(lambda: False, lambda: True, 1.0, None)
        began = time.monotonic()
        assert waits.select([ours], [], [], 0.7) == ([], [], [])
        assert 0.7 <= time.monotonic() - began < SILENT_S
        others.send(b"x")
        assert waits.select([ours, others], [others], [], 30) == ([ours], [others], [])


def test_a_connection_that_nobody_uses_costs_nothing() -> None:
    looks: list[float] = []

    def is_stopping() -> bool:
        looks.append(time.monotonic())
        return False

    ours, pipe = socket.socketpair()
    with ours, pipe:
        waits = Waits(is_stopping, lambda: True, 1.0, None)
        assert waits.select([ours, pipe], [], [], 1.2) == ([], [], [])
        assert len(looks) <= 1
        with waits.pending_request():
            assert waits.select([ours, pipe], [], [], 1.2) == ([], [], [])
        assert len(looks) > 2
        looks.clear()
        # In the midst of an answer no request ends the wait.
        assert waits.select([ours], [], [], 1.2) == ([], [], [])
        assert len(looks) > 2


def test_silence_counts_from_when_somebody_wants_an_end() -> None:
    stopping = threading.Event()
    ours, pipe = socket.socketpair()
    with ours, pipe:
        waits = Waits(stopping.is_set, lambda: True, 1.0, None)
        threading.Timer(0.1, stopping.set).start()
        assert waits.select([ours, pipe], [], [], SILENT_S + 0.1) == ([], [], [])


def test_an_answer_that_came_in_one_tls_record_with_another_is_not_waited_for(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    accepts, connects = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    accepts.load_cert_chain(authority.keystore("server", "IP:127.0.0.1"))
    connects.load_verify_locations(authority.truststore)
    ours, others = socket.socketpair()
    with ThreadPoolExecutor(1) as elsewhere, ours, others:
        accepted = elsewhere.submit(accepts.wrap_socket, others, server_side=True)
        with connects.wrap_socket(ours, server_hostname="127.0.0.1") as secured, accepted.result() as server:
            server.send(b"twoanswers")
            assert secured.recv(3) == b"two"
            waits = Waits(lambda: False, lambda: True, 1.0, None)
            assert waits.select([secured, others], [], [], SOON_S) == ([secured], [], [])
