"""Ten thousand connections that say nothing, beside ten thousand partitions, under 20,000 open files.

It needs real processes, as it counts their descriptors and measures their memory.
"""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from tests.daemon.served import Served
from tests.tools.raw_requests import (
    METADATA,
    PRODUCE,
    RawClient,
    batch,
    create_topic,
    fetch,
    framed,
    metadata,
    produce,
    read_fetched,
    read_produced,
)

CONNECTIONS, PARTITIONS, OPEN_FILES = 10_000, 10_000, 20_000
FROM_ONE_ADDRESS = 5_000
"""An address has some 28,000 ports for connections to the same place; two leave room for other tests."""
CONNECTED = "kafka_server_socketservermetrics_connection_count"
MOST_PER_CONNECTION = 4_096


@pytest.fixture
def _room_for_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard >= OPEN_FILES, f"this test needs {OPEN_FILES} open files, the hard limit is {hard}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _memory(served: Served) -> int:
    """PSS of the broker's processes in bytes."""
    total = 0
    for process in served.broker.tree():
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        total += next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def _crowd(port: int) -> list[socket.socket]:
    sockets = []
    for number in range(CONNECTIONS):
        source = (f"127.0.0.{2 + number // FROM_ONE_ADDRESS}", 0)
        sockets.append(socket.create_connection(("127.0.0.1", port), 30, source_address=source))
    return sockets


def _logs(served: Served) -> int:
    return sum(1 for _ in served.broker.log_dir.glob("big-*/*.log"))


def _is_online(client: RawClient) -> bool:
    last = "big", PARTITIONS - 1
    return read_produced(client.ask(produce({last: batch()})))[last].error == 0


def _write_and_read(client: RawClient, topic: str, first: int, last: int) -> None:
    rows = {(topic, partition): batch() for partition in range(first, last)}
    assert {row.error for row in read_produced(client.ask(produce(rows))).values()} == {0}
    found = read_fetched(client.ask(fetch(dict.fromkeys(rows, 0))))
    assert all(row.error == 0 and row.records for row in found.values())


def test_silent_crowd_costs_little_and_holds_nobody_up(tmp_path: Path, _room_for_files: None) -> None:
    # A crowd that comes faster than the kernel's default queue of 50 is made to wait a second each time.
    with Served(tmp_path, {"socket.listen.backlog.size": "2000"}) as served:
        for process in served.broker.tree():
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
        with served.connect(patience_s=60) as client:
            client.ask(create_topic("big", PARTITIONS))
            # On a slow file system this takes longer than the response to CreateTopics waits.
            eventually(lambda: _logs(served) == PARTITIONS, what="all logs are created")
            eventually(lambda: _is_online(client), what="the last partition is online")
            before = _memory(served)
            crowd = _crowd(served.broker.port)
            eventually(lambda: served.metric(CONNECTED) >= CONNECTIONS, what="all of them are in")
            each = (_memory(served) - before) / CONNECTIONS
            assert each < MOST_PER_CONNECTION, f"an idle connection costs {each:.0f} bytes"
            for first in range(0, PARTITIONS, 250):
                _write_and_read(client, "big", first, first + 250)
            with served.connect() as late:
                _write_and_read(late, "big", 0, 20)
            most = max(len(list(Path(f"/proc/{process.pid}/fd").iterdir())) for process in served.broker.tree())
            print(f"{each:.0f} bytes a connection, {most} descriptors")
            assert most < OPEN_FILES
            for sock in crowd:
                sock.close()
            eventually(lambda: served.metric(CONNECTED) < 10, what="they are noticed to be gone")
        assert not served.lines("Too many open files")
        served.leaves_nothing_behind()


CLAIMANTS, CLAIMED_BYTES, MOST_FOR_A_CLAIM = 1_000, 90 << 20, 32 * 1024


def test_lengths_that_are_only_claimed_take_no_memory(tmp_path: Path) -> None:
    """Together they claim 90 GB; a part of it that nobody ever sends must not be set aside."""
    with Served(tmp_path, {"socket.listen.backlog.size": "2000"}) as served:
        before = _memory(served)
        for key in (METADATA, PRODUCE):
            begun = CLAIMED_BYTES.to_bytes(4, "big") + framed(key, 5, bytes(400))[4:]
            with ExitStack() as stack:
                clients = [stack.enter_context(served.connect()) for _ in range(CLAIMANTS)]
                eventually(lambda: served.metric(CONNECTED) >= CLAIMANTS, what="all of them are in")
                for client in clients:
                    client.send(begun)
                with served.connect() as other:
                    assert other.ask(metadata(["t"]))
                each = (_memory(served) - before) / CLAIMANTS
                assert each < MOST_FOR_A_CLAIM, f"a claim costs {each:.0f} bytes"
            eventually(lambda: served.metric(CONNECTED) < CLAIMANTS, what="they are noticed to be gone")
