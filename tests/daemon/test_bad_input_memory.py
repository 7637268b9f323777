"""Clients that make the broker hold much for them and go no further: others are served, and memory stays bounded."""

import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from tests.daemon.served import Served
from tests.tools.raw_requests import (
    METADATA,
    PRODUCE,
    RawClient,
    api_versions,
    batch,
    create_topic,
    framed,
    metadata,
    produce,
    read_produced,
)

MOST_FOR_STRANGERS = 200 << 20
PATIENCE_S = 20.0
"""Far more than anybody has to wait, and less than after which requests that stand still are given up."""
TOPICS = 1_000


def _memory(served: Served) -> int:
    """PSS of the broker's processes in bytes."""
    total = 0
    for process in served.broker.tree():
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        total += next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def _begun(size: int, sent: int) -> bytes:
    return size.to_bytes(4, "big") + framed(PRODUCE, 7, bytes(sent))[4:]


def _others_are_served(served: Served, size: int) -> float:
    """Another producer gets its acknowledgements; the longest that it had to wait for one."""
    longest = 0.0
    with served.connect(patience_s=PATIENCE_S) as other:
        for _ in range(5):
            before = time.monotonic()
            assert read_produced(other.ask(produce({("t", 0): batch(1, size)})))["t", 0].error == 0
            longest = max(longest, time.monotonic() - before)
    return longest


def _trickle(clients: list[RawClient]) -> None:
    for client in clients:
        with suppress(ConnectionError):
            client.send(b"\x00")


@pytest.mark.parametrize("size", [20, 900_000])
@pytest.mark.parametrize(
    ("count", "claimed", "sent"),
    [
        (140, 1 << 20, 100),
        (140, 1 << 20, 900_000),
        (3, 66 << 20, 40_000),
        (3, 66 << 20, 30 << 20),
        (3_000, 16_380, 16_300),
    ],
)
def test_requests_that_trickle_hold_no_other_producer_up(
    tmp_path: Path, count: int, claimed: int, sent: int, size: int
) -> None:
    with Served(tmp_path, {"socket.listen.backlog.size": "2000"}) as served, ExitStack() as stack:
        before = _memory(served)
        clients = [stack.enter_context(served.connect()) for _ in range(count)]
        for client in clients:
            with suppress(ConnectionError):
                client.send(_begun(claimed, sent))
        _trickle(clients)
        longest = _others_are_served(served, size)
        _trickle(clients)
        grown = _memory(served) - before
        print(f"{longest:.2f} s, {grown >> 20} MB")
        assert grown < MOST_FOR_STRANGERS
        assert len(served.lines("memory for requests is short")) <= 1
        stack.close()
        served.leaves_nothing_behind()


def test_requests_that_trickle_are_said_once_with_who_sends_them(tmp_path: Path) -> None:
    with Served(tmp_path) as served, ExitStack() as stack:
        clients = [stack.enter_context(served.connect()) for _ in range(140)]
        for client in clients:
            client.send(_begun(1 << 20, 100_000))
        line = served.one_line("memory for requests is short")
        assert any(client.name in line for client in clients)
        _others_are_served(served, 20)
        assert served.one_line("memory for requests is short") == line


def test_large_requests_of_others_than_producers_do_not_wait_for_those_that_trickle(tmp_path: Path) -> None:
    begun = (1 << 20).to_bytes(4, "big") + framed(METADATA, 5, bytes(900_000))[4:]
    with Served(tmp_path) as served, ExitStack() as stack:
        clients = [stack.enter_context(served.connect()) for _ in range(140)]
        for client in clients:
            client.sock.setblocking(False)
            with suppress(BlockingIOError, ConnectionError):
                client.sock.send(begun)
        with served.connect(patience_s=PATIENCE_S) as other:
            started = time.monotonic()
            assert other.ask(metadata(["t"] * 100_000))
            print(f"{time.monotonic() - started:.2f} s")


@pytest.mark.parametrize("count", [20, 100])
def test_large_replies_that_nobody_reads_are_bounded(tmp_path: Path, count: int) -> None:
    """Each connection asks for replies that are its own."""
    names = [f"a-topic-with-a-name-{at}" for at in range(TOPICS)]
    settings = {"auto.create.topics.enable": "false", "socket.listen.backlog.size": "2000"}
    with Served(tmp_path, settings) as served, ExitStack() as stack:
        before = _memory(served)
        for _ in range(count):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", served.broker.port), 30))
            sock.setblocking(False)
            with suppress(BlockingIOError):
                sock.send(metadata(names) * 40)
        longest = _others_are_served(served, 20)
        with served.connect(patience_s=PATIENCE_S) as other:
            started = time.monotonic()
            assert other.ask(metadata(["t"]))
            longest = max(longest, time.monotonic() - started)
        grown = _memory(served) - before
        print(f"{longest:.2f} s, {grown >> 20} MB")
        assert grown < MOST_FOR_STRANGERS


def _all_topics(correlation: int = 1) -> bytes:
    return framed(METADATA, 1, b"\xff\xff\xff\xff", correlation)


@pytest.mark.parametrize(("count", "size"), [(5, 840_000), (50, 100_000)])
def test_replies_that_nobody_reads_are_not_made(tmp_path: Path, count: int, size: int) -> None:
    """Each connection asks for all topics thousands of times, and reads nothing."""
    request = _all_topics()
    with Served(tmp_path, {"auto.create.topics.enable": "false"}) as served, ExitStack() as stack:
        with served.connect() as client:
            for at in range(TOPICS):
                client.ask(create_topic(f"a-topic-with-a-name-{at}"))
            assert len(client.ask(_all_topics())) > 40 * TOPICS
        before = _memory(served)
        socks = []
        for _ in range(count):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", served.broker.port), 30))
            sock.setblocking(False)
            socks.append(sock)
        for sock in socks:
            with suppress(BlockingIOError):
                sock.send(request * (size // len(request)))
        with served.connect(patience_s=PATIENCE_S) as other:
            started = time.monotonic()
            assert other.ask(api_versions())
            assert other.ask(metadata(["t"]))
            longest = time.monotonic() - started
        grown = _memory(served) - before
        print(f"{longest:.2f} s, {grown >> 20} MB")
        assert grown < MOST_FOR_STRANGERS
        for sock in socks:
            sock.close()
        eventually(lambda: _memory(served) - before < 32 << 20, what="memory is given back")


def test_requests_for_which_the_machine_has_no_memory_cost_their_own_connections(tmp_path: Path) -> None:
    """As with `ulimit -d`, or a container without swap and overcommit."""
    with Served(tmp_path) as served, ExitStack() as stack:
        network = next(process for process in served.broker.tree() if process.name.startswith("network"))
        status = Path(f"/proc/{network.pid}/status").read_text()
        data = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:"))
        subprocess.run(["prlimit", "--pid", str(network.pid), f"--data={data + (2 << 20)}:"], check=True)
        request = metadata([f"nobody-{number}" for number in range(100_000)])
        strangers = [stack.enter_context(served.connect()) for _ in range(20)]
        for stranger in strangers:
            stranger.sock.setblocking(False)
            with suppress(BlockingIOError, ConnectionError):
                stranger.send(request)
        eventually(lambda: served.lines("there is no memory"), what="a connection is closed")
        for stranger in strangers:
            stranger.sock.close()
        with served.connect() as client:
            client.ask(api_versions())
        assert network.pid in {process.pid for process in served.broker.tree()}
