"""Clients that make the broker hold much for them and go no further: others are served, and memory stays bounded.

It needs real processes, as it measures their memory. One broker has them all; none of them may cost it more than that.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from bench.brokers.processes import WITHIN_S, eventually
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
TOPICS = 1_000
NAMES = [f"a-topic-with-a-name-{at}" for at in range(TOPICS)]
STALLED = "bytes of a request received, then the client stalled"
"""So the broker gives up requests that stand still. Nobody else may have to wait for that."""


class Watched(Served):
    """Its memory is compared with that before the first of them came. It has a thousand topics."""

    def __init__(self, folder: Path, overrides: Mapping[str, str]) -> None:
        super().__init__(folder, {"auto.create.topics.enable": "false", **overrides})
        self._at_start = 0
        self._sources = iter(range(2, 250))

    def __enter__(self) -> "Watched":
        super().__enter__()
        with self.connect() as client:
            for name in NAMES:
                client.ask(create_topic(name))
        self._at_start = self.memory()
        return self

    def memory(self) -> int:
        """PSS of the broker's processes in bytes."""
        total = 0
        for process in self.broker.tree():
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
        return total

    def grown(self) -> int:
        return self.memory() - self._at_start

    def next_source(self) -> str:
        """An address of which the broker has not complained yet: it does so once a minute."""
        return f"127.0.3.{next(self._sources)}"

    def serves_others(self, size: int, others: str) -> None:
        """Another producer gets its acknowledgements, and not because `others` were given up."""
        with self.connect(patience_s=WITHIN_S) as other:
            for _ in range(5):
                assert read_produced(other.ask(produce({("t", 0): batch(1, size)})))["t", 0].error == 0
        self.has_given_up_none_of(others)

    def has_given_up_none_of(self, others: str) -> None:
        assert not [line for line in self.lines(STALLED) if f"from {others}:" in line]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with Watched(tmp_path_factory.mktemp("broker"), {"socket.listen.backlog.size": "2000"}) as broker:
        yield broker


def _begun(size: int, sent: int) -> bytes:
    return size.to_bytes(4, "big") + framed(PRODUCE, 7, bytes(sent))[4:]


def _trickle(clients: list[RawClient]) -> None:
    for client in clients:
        with suppress(ConnectionError):
            client.send(b"\x00")


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
def test_requests_that_trickle_hold_no_other_producer_up(served: Watched, count: int, claimed: int, sent: int) -> None:
    source = served.next_source()
    with ExitStack() as stack:
        clients = [stack.enter_context(served.connect(source=source)) for _ in range(count)]
        for client in clients:
            with suppress(ConnectionError):
                client.send(_begun(claimed, sent))
        for size in (20, 900_000):
            _trickle(clients)
            served.serves_others(size, source)
        _trickle(clients)
        grown = served.grown()
        print(f"{grown >> 20} MB")
        assert grown < MOST_FOR_STRANGERS
    served.leaves_nothing_behind()


def test_requests_that_trickle_are_said_once_with_who_sends_them(tmp_path: Path) -> None:
    with Served(tmp_path) as served, ExitStack() as stack:
        clients = [stack.enter_context(served.connect()) for _ in range(140)]
        for client in clients:
            client.send(_begun(1 << 20, 100_000))
        line = served.one_line("memory for requests is short")
        assert any(client.name in line for client in clients)


def test_large_requests_of_others_than_producers_do_not_wait_for_those_that_trickle(served: Watched) -> None:
    begun = (1 << 20).to_bytes(4, "big") + framed(METADATA, 5, bytes(900_000))[4:]
    source = served.next_source()
    with ExitStack() as stack:
        clients = [stack.enter_context(served.connect(source=source)) for _ in range(140)]
        for client in clients:
            client.sock.setblocking(False)
            with suppress(BlockingIOError, ConnectionError):
                client.sock.send(begun)
        with served.connect(patience_s=WITHIN_S) as other:
            assert other.ask(metadata(["t"] * 100_000))
        served.has_given_up_none_of(source)
    served.leaves_nothing_behind()


@pytest.mark.parametrize("count", [20, 100])
def test_large_replies_that_nobody_reads_are_bounded(served: Watched, count: int) -> None:
    """Each connection asks for replies that are its own."""
    names = [f"no-{name}" for name in NAMES]
    source = served.next_source()
    with ExitStack() as stack:
        for _ in range(count):
            sock = stack.enter_context(served.connect(source=source)).sock
            sock.setblocking(False)
            with suppress(BlockingIOError):
                sock.send(metadata(names) * 40)
        served.serves_others(20, source)
        with served.connect(patience_s=WITHIN_S) as other:
            assert other.ask(metadata(["t"]))
        grown = served.grown()
        print(f"{grown >> 20} MB")
        assert grown < MOST_FOR_STRANGERS
    served.leaves_nothing_behind()


def _all_topics(correlation: int = 1) -> bytes:
    return framed(METADATA, 1, b"\xff\xff\xff\xff", correlation)


@pytest.mark.parametrize(("count", "size"), [(5, 840_000), (50, 100_000)])
def test_replies_that_nobody_reads_are_not_made(served: Watched, count: int, size: int) -> None:
    """Each connection asks for all topics thousands of times, and reads nothing."""
    request = _all_topics()
    with ExitStack() as stack:
        with served.connect() as client:
            assert len(client.ask(_all_topics())) > 40 * TOPICS
        before = served.grown()
        socks = []
        for _ in range(count):
            sock = stack.enter_context(served.connect()).sock
            sock.setblocking(False)
            socks.append(sock)
        for sock in socks:
            with suppress(BlockingIOError):
                sock.send(request * (size // len(request)))
        with served.connect(patience_s=WITHIN_S) as other:
            assert other.ask(api_versions())
            assert other.ask(metadata(["t"]))
        grown = served.grown()
        print(f"{grown >> 20} MB")
        assert grown < MOST_FOR_STRANGERS
        for sock in socks:
            sock.close()
        eventually(lambda: served.grown() - before < 32 << 20, what="memory is given back")


def test_requests_for_which_the_machine_has_no_memory_cost_their_own_connections(tmp_path: Path) -> None:
    """As with `ulimit -d`, or a container without swap and overcommit; so its broker is its own."""
    with Served(tmp_path) as served, ExitStack() as stack:
        network = next(process for process in served.broker.tree() if process.name.startswith("network"))
        status = Path(f"/proc/{network.pid}/status").read_text()
        data = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:"))
        subprocess.run(["prlimit", "--pid", str(network.pid), f"--data={data + (2 << 20)}:"], check=True)
        request = metadata([f"nobody-{number}" for number in range(100_000)])
        others = [stack.enter_context(served.connect()) for _ in range(20)]
        for other in others:
            other.sock.setblocking(False)
            with suppress(BlockingIOError, ConnectionError):
                other.send(request)
        eventually(lambda: served.lines("not enough memory"), what="a connection is closed")
        for other in others:
            other.sock.close()
        with served.connect() as client:
            client.ask(api_versions())
        assert network.pid in {process.pid for process in served.broker.tree()}
