"""Cold file slices: read by a thread before they are sent, and sent whole."""

import fcntl
import os
import select
import socket
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.processes.network.connections.connection import JOINED_BYTES, Connection
from kafkad.processes.network.logs.cached_reads import is_cached
from kafkad.processes.network.logs.page_cache_prefetch import PageCachePrefetch
from kafkad.processes.network.logs.reading_threads import ReadingThreads
from kafkad.wire.messages.fetch import FileSlice
from tests.contexts import a_client, a_context

SLOT = 7
CONTENT = os.urandom(600_000)


class _Client:
    """A connection over a socket pair, and the other end of it."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        self.connection = Connection(ours, 1, "peer", a_client(), a_context().connection, 0)

    def received(self, size: int) -> bytes:
        self.theirs.settimeout(WITHIN_S)
        got = b""
        while len(got) < size:
            got += self.theirs.recv(size - len(got))
        return got

    def close(self) -> None:
        self.theirs.close()
        if not self.connection.closed:
            self.connection.drop()


@pytest.fixture
def client() -> Iterator[_Client]:
    client = _Client()
    yield client
    client.close()


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def threads() -> Iterator[ReadingThreads]:
    threads = ReadingThreads("reading")
    yield threads
    threads.close()


def _never_truncated(_slot: int) -> int:
    return 0


def _ring(threads: ReadingThreads) -> None:
    assert select.select([threads.doorbell], [], [], WITHIN_S)[0], f"no slice was read within {WITHIN_S} s"
    threads.rung(0)


def test_slice_that_is_in_memory_is_sent_at_once(client: _Client, threads: ReadingThreads, segment: int) -> None:
    prefetch = PageCachePrefetch(lambda _: None, threads, _never_truncated, probe=lambda _fd, _position: True)
    client.connection.out.append(FileSlice(segment, 100, 5000, lambda: None, SLOT, 1))
    assert client.connection.send(prefetch.is_cached, prefetch.check)
    assert client.received(5000) == CONTENT[100:5100]


@pytest.mark.parametrize("tail", [b"", b"behind it"])
def test_few_records_leave_with_what_is_around_them_however_little_the_socket_takes(
    client: _Client, threads: ReadingThreads, segment: int, tail: bytes
) -> None:
    prefetch = PageCachePrefetch(lambda _: None, threads, _never_truncated)
    connection, size = client.connection, JOINED_BYTES
    released: list[None] = []
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    for at in range(20):
        records = FileSlice(segment, at, size, lambda: released.append(None), SLOT, 1)
        connection.out.extend([b"head%02d" % at, records, *([tail] if tail else [])])
        connection.out_bytes += 6 + size + len(tail)

    got, wanted = b"", b"".join(b"head%02d" % at + CONTENT[at : at + size] + tail for at in range(20))
    while len(got) < len(wanted):
        connection.send(prefetch.is_cached, prefetch.check)
        assert connection.out_bytes == len(wanted) - len(got) - _waiting(client)
        got += client.theirs.recv(1000)

    assert got == wanted
    assert (len(released), len(connection.out), connection.out_bytes) == (20, 0, 0)


def _waiting(client: _Client) -> int:
    """What was sent and is not received."""
    raw = fcntl.ioctl(client.theirs, termios.FIONREAD, bytes(4))
    return int.from_bytes(raw, "little")


def test_cold_slice_keeps_its_connection_waiting_and_nobody_else(
    client: _Client, threads: ReadingThreads, segment: int
) -> None:
    ready: list[Connection] = []
    prefetch = PageCachePrefetch(ready.append, threads, _never_truncated, probe=lambda _fd, _position: False)
    released: list[bool] = []
    client.connection.out.append(b"head")
    client.connection.out.append(FileSlice(segment, 0, 50_000, lambda: released.append(True), SLOT, 1))
    assert not client.connection.send(prefetch.is_cached, prefetch.check)
    assert client.received(4) == b"head"
    assert client.connection.is_prefetching
    assert not client.connection.send(prefetch.is_cached, prefetch.check), "nothing is sent before the thread is done"
    _ring(threads)
    assert ready == [client.connection]
    assert client.connection.send(prefetch.is_cached, prefetch.check)
    assert client.received(50_000) == CONTENT[:50_000]
    assert released == [True]


def test_connection_that_went_away_meanwhile_is_not_called(
    client: _Client, threads: ReadingThreads, segment: int
) -> None:
    ready: list[Connection] = []
    prefetch = PageCachePrefetch(ready.append, threads, _never_truncated, probe=lambda _fd, _position: False)
    client.connection.out.append(FileSlice(segment, 0, len(CONTENT), lambda: None, SLOT, 1))
    assert not client.connection.send(prefetch.is_cached, prefetch.check)
    client.connection.drop()
    _ring(threads)
    assert ready == []


def test_page_that_was_read_is_cached(segment: int) -> None:
    """A machine short of memory may drop it at once: then it is read again."""
    deadline = time.monotonic() + WITHIN_S
    os.pread(segment, 1, 0)
    while not is_cached(segment, 0):
        assert time.monotonic() < deadline, f"a page that is read all the time is not cached within {WITHIN_S} s"
        os.pread(segment, 1, 0)
