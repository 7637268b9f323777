"""Processes of a real broker die or stand still while clients wait: who notices, and what they are told.

Real, for the signals. One broker for all tests that need no settings of their own, with a topic for each.
"""

import os
import signal
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bench.brokers.processes import WITHIN_S, eventually
from tests.daemon.served import Served
from tests.tools.names import name_of
from tests.tools.raw_requests import (
    Produced,
    RawClient,
    batch,
    create_topic,
    fetch,
    metadata,
    produce,
    read_fetched,
    read_produced,
)

RETRIABLE = {5, 6, 7, 56}
KILLED = ": it has not stopped in time"
ONE_OF_EACH = {"num.network.threads": "1", "num.io.threads": "1"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("broker"), ONE_OF_EACH) as broker:
        yield broker


@pytest.fixture
def topic(served: Served, request: pytest.FixtureRequest) -> str:
    """Of two partitions."""
    eventually(served.is_serving, what="the broker serves")
    name = name_of(request)
    with served.connect() as client:
        assert name.encode() + b"\x00\x00" in client.ask(create_topic(name, 2))
    return name


def _until_served(served: Served) -> None:
    eventually(served.is_serving, what="the broker serves again")


def _write(served: Served, topic: str) -> int:
    with served.connect() as client:
        return read_produced(client.ask(produce({(topic, 0): batch()})))[topic, 0].error


def _numbered(sequence: int) -> bytes:
    return batch(producer_id=9_000, producer_epoch=0, base_sequence=sequence)


def _acknowledge(client: RawClient, topic: str, sequence: int) -> int:
    """Produce until acknowledged, as an idempotent producer does; the offset."""
    found: list[Produced] = []

    def acknowledged() -> bool:
        found[:] = [read_produced(client.ask(produce({(topic, 0): _numbered(sequence)}, acks=-1)))[topic, 0]]
        assert found[0].error in RETRIABLE | {0}
        return found[0].error == 0

    eventually(acknowledged, what="the record is acknowledged")
    return found[0].base_offset


def test_killed_worker_doubles_and_loses_nothing(served: Served, topic: str) -> None:
    """Five requests in flight each time; every one is answered, and what failed is sent again in order."""
    sent = 0
    with served.connect() as client:
        for _ in range(5):
            client.send(b"".join(produce({(topic, 0): _numbered(sent + at)}, acks=-1) for at in range(5)))
            os.kill(served.pid_of("worker-0"), signal.SIGKILL)
            for _ in range(5):
                assert read_produced(client.reply()[1])[topic, 0].error in RETRIABLE | {0, 45}
            for at in range(5):
                assert _acknowledge(client, topic, sent + at) == sent + at
            sent += 5
        found = read_fetched(client.ask(fetch({(topic, 0): 0})))[topic, 0]
    assert found.high_watermark == sent
    assert len(found.records) == sent * len(_numbered(0))
    served.leaves_nothing_behind()


def test_killed_network_process_closes_its_connections_and_the_next_one_serves(served: Served, topic: str) -> None:
    client = served.connect()
    client.send(b"".join(produce({(topic, 0): batch(1, 200_000)}) for _ in range(20)))
    victim = served.pid_of("network-0")
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(ConnectionError):
        while True:
            client.reply()
    _until_served(served)
    assert served.pid_of("network-0") != victim
    served.leaves_nothing_behind()


def test_controller_killed_while_it_creates_topics_creates_them_once(served: Served) -> None:
    names = [f"made-{number}" for number in range(12)]
    clients = [served.connect() for _ in names]
    for client, name in zip(clients, names, strict=True):
        client.send(create_topic(name, 3))
    os.kill(served.pid_of("controller-0"), signal.SIGKILL)
    codes = {}
    for client, name in zip(clients, names, strict=True):
        codes[name] = _code_of(name, client.reply()[1])
        client.sock.close()
    # A question that was put twice finds its topic made. The one that was being handled is not put twice.
    assert set(codes.values()) <= {0, 36, -1}
    interrupted = [name for name, code in codes.items() if code == -1]
    assert len(interrupted) <= 1
    with served.connect() as client:
        assert all(_code_of(name, client.ask(create_topic(name, 3))) in (0, 36) for name in interrupted)
        rows = {(name, 2): batch() for name in names}
        eventually(
            lambda: {row.error for row in read_produced(client.ask(produce(rows))).values()} == {0},
            what="all topics can be written to",
        )


def _code_of(name: str, reply: bytes) -> int:
    """Of a CreateTopics 2 of this topic."""
    code: int = struct.unpack_from(">h", reply, 4 + 4 + 2 + len(name))[0]
    return code


def test_data_goes_on_without_a_controller(served: Served, topic: str) -> None:
    controller = served.pid_of("controller-0")
    os.kill(controller, signal.SIGSTOP)
    try:
        with served.connect() as client:
            assert read_produced(client.ask(produce({(topic, 0): batch()})))[topic, 0].error == 0
            assert read_fetched(client.ask(fetch({(topic, 0): 0})))[topic, 0].records
            assert client.ask(metadata([topic]))
    finally:
        with suppress(ProcessLookupError):
            os.kill(controller, signal.SIGCONT)


def test_worker_that_stands_still_delays_its_producers_and_no_reader(served: Served, topic: str) -> None:
    assert _write(served, topic) == 0
    worker = served.pid_of("worker-0")
    os.kill(worker, signal.SIGSTOP)
    try:
        with served.connect() as writer, served.connect() as reader:
            writer.send(produce({(topic, 0): batch()}))
            assert read_fetched(reader.ask(fetch({(topic, 0): 0})))[topic, 0].records
            assert reader.ask(metadata([topic]))
            os.kill(worker, signal.SIGCONT)
            error = read_produced(writer.reply()[1])[topic, 0].error
        # On a machine that was busy for seconds the supervisor has taken it for one that hangs.
        assert error == 0 or served.lines("killing worker-0: its heartbeat has stopped")
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)


def test_worker_that_finds_its_log_shorter_gives_the_partition_up_loudly(served: Served, topic: str) -> None:
    for _ in range(3):
        assert _write(served, topic) == 0
    (log_file,) = (served.broker.log_dir / f"{topic}-0").glob("*.log")
    worker = served.pid_of("worker-0")
    os.kill(worker, signal.SIGSTOP)
    with open(log_file, "r+b") as file:
        file.truncate(len(batch()))
    os.kill(worker, signal.SIGKILL)
    assert "ends at offset 1, below its published high watermark 3" in served.one_line("stays offline")
    _until_served(served)
    assert _write(served, topic) in RETRIABLE


def test_long_polls_return_when_something_is_produced(served: Served, topic: str) -> None:
    """Hundreds of rounds; a wake-up that is lost would last until the poll's own end."""
    with served.connect() as reader, served.connect() as writer:
        for offset in range(500):
            reader.send(fetch({(topic, 0): offset, (topic, 1): 0}, max_wait_ms=300_000))
            if offset % 3:
                # So that the fetch is sometimes looked at before, sometimes after the append.
                writer.ask(metadata([topic]))
            assert read_produced(writer.ask(produce({(topic, 0): batch()})))[topic, 0] == (0, offset)
            assert read_fetched(reader.reply()[1])[topic, 0].high_watermark == offset + 1


def test_many_slow_producers_share_a_small_arena_and_all_finish(tmp_path: Path) -> None:
    """Sixteen times the arena is wanted at once, in dribbles: all wait for each other, and none for ever."""
    size, producers = 900_000, 16
    overrides = {**ONE_OF_EACH, "socket.request.max.bytes": "1048576", "kafkad.arena.bytes": "1048576"}
    with Served(tmp_path, overrides) as served:
        failures: list[object] = []

        def dribble(number: int) -> None:
            request = produce({("t", number % 2): batch(1, size)})
            with served.connect(patience_s=WITHIN_S) as client:
                for at in range(0, len(request), 50_000):
                    client.send(request[at : at + 50_000])
                found = read_produced(client.reply()[1])
                if {row.error for row in found.values()} != {0}:
                    failures.append(found)

        threads = [threading.Thread(target=dribble, args=(number,)) for number in range(producers)]
        for thread in threads:
            thread.start()
        with served.connect() as reader:
            for _ in range(20):
                assert read_fetched(reader.ask(fetch({("t", 0): 0}, max_bytes=1000)))["t", 0].error == 0
        for thread in threads:
            thread.join(WITHIN_S)
        assert not any(thread.is_alive() for thread in threads)
        assert failures == []
        assert served.metric("kafkad_arena_exhausted") > 0
        served.leaves_nothing_behind()


def test_stop_with_requests_in_flight_answers_them(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        waiting, writer = served.connect(), served.connect()
        waiting.send(fetch({("t", 0): 0}, max_wait_ms=60_000))
        writer.send(b"".join(produce({("t", 1): batch(1, 100_000)}) for _ in range(20)))
        with served.connect() as client:
            assert client.ask(metadata(["t"]))
        assert served.broker.stop() == 0
        assert served.lines(KILLED) == []
        assert read_fetched(waiting.reply()[1])["t", 0].error == 0
        answered = 0
        with pytest.raises(ConnectionError):
            while True:
                assert read_produced(writer.reply()[1])["t", 1].error == 0
                answered += 1
        served.broker.start()
        with served.connect() as reader:
            eventually(
                lambda: read_fetched(reader.ask(fetch({("t", 1): 0}, max_bytes=1)))["t", 1].high_watermark >= answered,
                what="what was acknowledged is there",
            )
