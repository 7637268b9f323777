"""Bytes that are no request, sent to a real broker: one log line, a closed connection, and nobody else notices."""

import random
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from bench.brokers.processes import eventually
from tests.daemon.served import Served
from tests.tools.raw_requests import (
    RawClient,
    api_versions,
    batch,
    fetch,
    framed,
    metadata,
    produce,
    read_fetched,
    read_produced,
)

PRODUCE, METADATA, NO_API = 0, 3, 1000
FLOOD = 500
INVALID_REQUIRED_ACKS, UNSUPPORTED_VERSION = 21, 35


@pytest.fixture(scope="module")
def strangers() -> Iterator[str]:
    """Addresses that nobody has complained of yet: each has one line a minute."""
    return (f"127.0.1.{number}" for number in range(1, 255))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("broker"), {"socket.request.max.bytes": "1048576"}) as broker:
        yield broker


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "this looks like an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), "this looks like a TLS hello"),
        (struct.pack(">i", 0), "a request length of 0 bytes"),
        (struct.pack(">i", -5), "a request length of -5 bytes"),
        (struct.pack(">i", 2**31 - 1), "a request length of 2147483647 bytes"),
        (produce({("t", 0): bytes(1 << 20)}), "is outside 8 to 1048576"),
        (framed(NO_API, 0, b"\x00\x01g"), "unknown API key 1000"),
        (framed(METADATA, 77, b""), "Metadata version 77 is not supported"),
        *((framed(PRODUCE, version, bytes(10)), f"Produce version {version} is not supported") for version in range(3)),
        (framed(PRODUCE, 7, b"\x00"), "a malformed Produce request (version 7)"),
        (produce({("nobody", 0): batch()}, acks=0), "a Produce with acks=0 failed"),
    ],
)
def test_stranger_is_cut_off_with_one_line(served: Served, strangers: Iterator[str], data: bytes, cause: str) -> None:
    with served.connect(source=next(strangers)) as client:
        # It may be cut off before it could send all of it.
        with suppress(ConnectionError):
            client.send(data)
        assert client.is_closed_by_peer()
        assert cause in served.one_line(client.name)
    served.leaves_nothing_behind()


def test_stranger_who_comes_again_and_again_has_one_line_of_each_process(
    served: Served, strangers: Iterator[str]
) -> None:
    source = next(strangers)
    for _ in range(FLOOD):
        with served.connect(source=source) as client, suppress(ConnectionError):
            client.send(b"GET / HTTP/1.1\r\n\r\n")
            assert client.is_closed_by_peer()
    networks = sum("network" in each.name for each in served.broker.tree())
    assert 1 <= len(served.lines(f"closing the connection from {source}:")) <= max(1, networks)


def test_random_bytes_end_no_process(served: Served) -> None:
    before = [each.pid for each in served.broker.tree()]
    random_source = random.Random(4)
    for _ in range(200):
        with served.connect() as client:
            try:
                client.send(random_source.randbytes(random_source.choice([1, 4, 60, 3_000])))
            except ConnectionError:
                continue
    served.leaves_nothing_behind()
    assert [each.pid for each in served.broker.tree()] == before


def test_mutated_requests_end_no_process(served: Served) -> None:
    """Every byte of real requests, replaced: whatever the codecs make of it, it costs one connection at most."""
    before = [each.pid for each in served.broker.tree()]
    random_source = random.Random(5)
    requests = [produce({("t", 0): batch()}), fetch({("t", 0): 0}), metadata(["t"]), api_versions(3)]
    for request in requests:
        for at in range(4, len(request)):
            mutated = bytearray(request)
            mutated[at] = random_source.choice([0, 1, 0x7F, 0x80, 0xFF])
            with served.connect() as client:
                try:
                    client.send(bytes(mutated))
                except ConnectionError:
                    continue
    served.leaves_nothing_behind()
    assert [each.pid for each in served.broker.tree()] == before


def test_unknown_version_of_api_versions_is_told_which_there_are(served: Served) -> None:
    with served.connect() as client:
        body = client.ask(api_versions(99, correlation=5))
        assert struct.unpack_from(">hihhh", body) == (UNSUPPORTED_VERSION, 1, 18, 0, 4)
        assert client.ask(api_versions())[:2] == b"\x00\x00"


def test_acks_that_do_not_exist_are_an_error_and_the_connection_stays(served: Served) -> None:
    with served.connect() as client:
        body = client.ask(produce({("t", 0): batch()}, acks=2))
        assert read_produced(body)["t", 0].error == INVALID_REQUIRED_ACKS
        assert read_produced(client.ask(produce({("t", 0): batch()})))["t", 0].error == 0


def test_replies_to_mixed_requests_come_in_the_order_asked(served: Served) -> None:
    random_source = random.Random(6)
    kinds = [
        lambda at: produce({("t", 0): batch(3)}, correlation=at),
        lambda at: produce({("t", 0): batch(), ("unknown", 1): batch()}, correlation=at),
        lambda at: produce({("t", 1): batch(1, 100_000)}, acks=-1, correlation=at),
        lambda at: fetch({("t", 0): 0}, max_wait_ms=20, correlation=at),
        lambda at: metadata(["t"], correlation=at),
        lambda at: api_versions(correlation=at),
    ]
    with served.connect() as client:
        client.send(b"".join(random_source.choice(kinds)(at) for at in range(150)))
        assert [client.reply()[0] for _ in range(150)] == list(range(150))
    served.leaves_nothing_behind()


def test_client_that_leaves_with_requests_in_flight_leaves_nothing(served: Served) -> None:
    for number in range(20):
        with served.connect() as client:
            client.send(b"".join(produce({("t", 0): batch(1, 50_000)}) for _ in range(10)))
            client.send(produce({("t", 1): batch(1, 500_000)})[: 10_000 * number + 3])
    served.leaves_nothing_behind()


def test_stopped_reader_of_a_large_reply_holds_nobody_up(served: Served) -> None:
    with served.connect() as writer:
        for _ in range(20):
            assert read_produced(writer.ask(produce({("t", 1): batch(1, 900_000)})))["t", 1].error == 0
        stuck = [served.connect() for _ in range(5)]
        for client in stuck:
            client.send(fetch({("t", 1): 0}) * 3)
        with served.connect() as reader:
            found = read_fetched(reader.ask(fetch({("t", 1): 0})))["t", 1]
            assert len(found.records) > 10_000_000
        served.leaves_nothing_behind()
        for client in stuck:
            assert len([client.reply() for _ in range(3)]) == 3
            client.sock.close()


def test_connection_is_noticed_to_be_gone(served: Served) -> None:
    clients: list[RawClient] = [served.connect() for _ in range(50)]
    eventually(lambda: served.metric("kafka_server_socketservermetrics_connection_count") >= 50, what="50 are in")
    for client in clients:
        client.sock.close()
    eventually(lambda: served.metric("kafka_server_socketservermetrics_connection_count") == 0, what="none is")
