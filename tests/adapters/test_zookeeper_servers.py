"""Servers of ZooKeeper that are older, silent or away: what the store does about each."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from bench.brokers.zookeeper import ZookeeperServer
from kafkad.adapters.stores.zookeeper_store import ZookeeperStore, ZookeeperUnreachable
from kafkad.adapters.stores.zookeeper_waits import LONGEST_PAUSE_S, SILENT_S, Waits
from kafkad.core.coordination_store import Create, SessionState, SessionSuspended
from tests.tools.certificates import Authority

SESSION_S = 40.0
SOON_S = 20.0
"""Far less than kazoo waits for a server that is silent."""
MULTI_READ, UNIMPLEMENTED = 22, -6


class OtherServer:
    """A real server behind a connection on which nobody knows multi-reads while `is_old`, as those before 3.6, or says
    anything while not `speaks`.
    """

    def __init__(self, server: ZookeeperServer, *, is_old: bool) -> None:
        self.is_old = is_old
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
        with waits.asking():
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
