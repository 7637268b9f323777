"""Whatever bytes come in: the peer is cut off with one line that names it and the cause, and nobody else notices."""

import logging
import socket
import struct

import pytest

from kafkad.core.connections.peer_log_rate_limit import QUIET_MS
from kafkad.processes.network.connections.connection_maintenance import STALL_MS
from tests.processes.pieces import TOPIC, Client, Pieces
from tests.tools.raw_requests import api_versions, batch, fetch, framed, produce, read_produced

PRODUCE, FETCH, METADATA = 0, 1, 3


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def _cut_off(pieces: Pieces, client: Client, caplog: pytest.LogCaptureFixture, cause: str) -> None:
    """The client is closed for `cause`, which is said once; another is served, and nothing is held."""
    pieces.run(lambda: client.is_closed, "the connection is closed")
    assert _lines(caplog) == [f"closing the connection from {client.name}: {cause}"]
    other = pieces.connect()
    assert read_produced(other.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0
    assert pieces.has_empty_arena()


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "this looks like an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "this looks like a TLS hello on a PLAINTEXT listener"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "this looks like an SSH client"),
        (struct.pack(">i", 0), "a request length of 0 bytes is outside 8 to 1048576"),
        (struct.pack(">i", -1), "a request length of -1 bytes is outside 8 to 1048576"),
        (struct.pack(">i", -(2**31)), "a request length of -2147483648 bytes is outside 8 to 1048576"),
        (struct.pack(">i", 2**31 - 1), "a request length of 2147483647 bytes is outside 8 to 1048576"),
        (struct.pack(">i", (1 << 20) + 1), "a request length of 1048577 bytes is outside 8 to 1048576"),
        (b"\x00\x00\x00\x07", "a request length of 7 bytes is outside 8 to 1048576"),
        (framed(999, 0, b""), "unknown API key 999 (version 0)"),
        (framed(-1, 0, b""), "unknown API key -1 (version 0)"),
        (framed(METADATA, 99, b""), "Metadata version 99 is not supported"),
        (framed(PRODUCE, 2, b"\x00\x01" + bytes(8)), "Produce version 2 is not supported"),
        (framed(FETCH, -1, b""), "Fetch version -1 is not supported"),
    ],
)
def test_what_is_no_request_is_named(pieces: Pieces, caplog: pytest.LogCaptureFixture, data: bytes, cause: str) -> None:
    client = pieces.connect()
    client.send(data)
    _cut_off(pieces, client, caplog, cause)


@pytest.mark.parametrize(
    "bad",
    [
        struct.pack(">i", -1),
        framed(999, 0, b""),
        framed(METADATA, 99, b""),
        framed(METADATA, 1, struct.pack(">i", 2**31 - 1)),
        framed(PRODUCE, 7, b"\x00"),
        struct.pack(">ihhih", 10, METADATA, 1, 7, 1000),
    ],
)
@pytest.mark.parametrize("last", [api_versions(correlation=3), produce({(TOPIC, 0): batch()}, correlation=3)])
def test_requests_before_what_is_none_are_answered(
    pieces: Pieces, caplog: pytest.LogCaptureFixture, last: bytes, bad: bytes
) -> None:
    client = pieces.connect()
    client.send(api_versions(correlation=1) + api_versions(correlation=2) + last + bad + api_versions(correlation=4))
    pieces.run(lambda: client.is_closed, "the connection is closed")
    assert [number for number, _ in client.replies] == [1, 2, 3]
    assert len(_lines(caplog)) == 1
    assert pieces.has_empty_arena()


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xff", b"\xff\xff\x00\x01", b"\xff\xff" + struct.pack(">hiii", 1, 9, 1, 5)]
)
def test_produce_that_ends_too_early_gives_its_space_back(
    pieces: Pieces, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    client = pieces.connect()
    client.send(framed(PRODUCE, 7, body))
    pieces.run(lambda: client.is_closed, "the connection is closed")
    (line,) = _lines(caplog)
    assert line.startswith(f"closing the connection from {client.name}: a malformed Produce request (version 7): ")
    assert pieces.has_empty_arena()


def test_large_produce_that_is_malformed_gives_its_space_back(pieces: Pieces, caplog: pytest.LogCaptureFixture) -> None:
    client = pieces.connect()
    beginning = b"\xff\xff" + struct.pack(">hii", 1, 1000, 1) + b"\x00\x01t" + struct.pack(">iii", 1, 0, 600_000)
    client.send(framed(PRODUCE, 7, beginning + bytes(500_000)))
    pieces.run(lambda: client.is_closed, "the connection is closed")
    assert len(_lines(caplog)) == 1
    assert pieces.has_empty_arena()


@pytest.mark.parametrize("padding", [0, 200_000])
def test_header_that_can_not_be_read_gives_the_space_back(
    pieces: Pieces, caplog: pytest.LogCaptureFixture, padding: int
) -> None:
    client = pieces.connect()
    client.send(struct.pack(">ihhih", 10 + padding, PRODUCE, 7, 1, -9 if padding else 999) + bytes(padding))
    text = f"a client id of {-9 if padding else 999} bytes does not fit in the rest of the request"
    _cut_off(pieces, client, caplog, f"a request header can't be read: {text}")


@pytest.mark.parametrize("sent", [2, 10, 100_000])
def test_half_a_request_and_silence_is_cut_off_after_the_stall_time(
    pieces: Pieces, caplog: pytest.LogCaptureFixture, sent: int
) -> None:
    client = pieces.connect()
    request = produce({(TOPIC, 0): batch(1, 500_000 if sent > 1000 else 100)})
    client.send(request[:sent])
    clients = pieces.network.clients
    (connection,) = clients.unread.connections()

    def received() -> int:
        return connection.filling.got if connection.filling is not None else len(connection.head)

    pieces.run(lambda: received() == sent, "all of it has arrived")
    pieces.network.maintenance.close_stalled(STALL_MS)
    assert not _lines(caplog)
    clients.now_ms += STALL_MS
    pieces.network.maintenance.close_stalled(STALL_MS)
    came = f"{sent} of {len(request)}" if sent > 1000 else str(sent)
    _cut_off(pieces, client, caplog, f"{came} bytes of a request received, then the client stalled")


def test_half_a_request_behind_a_long_poll_is_not_called_stalled(pieces: Pieces) -> None:
    from_long_ago = pieces.connect()
    from_long_ago.send(fetch({(TOPIC, 0): 0}, max_wait_ms=60_000) + produce({(TOPIC, 0): batch()})[:50])
    pieces.settle()
    pieces.network.clients.now_ms += 2 * STALL_MS
    pieces.network.maintenance.close_stalled(STALL_MS)
    assert len(pieces.network.clients) == 1


def test_unknown_version_of_api_versions_is_answered_and_the_connection_stays(pieces: Pieces) -> None:
    client = pieces.connect()
    body = client.ask(api_versions(99))
    assert struct.unpack_from(">hihhh", body) == (35, 1, 18, 0, 4)
    assert client.ask(api_versions(0))[:2] == b"\x00\x00"


def test_peer_that_closed_its_sending_side_gets_its_replies(pieces: Pieces) -> None:
    client = pieces.connect()
    client.send(produce({(TOPIC, 0): batch()}, correlation=1) + api_versions(correlation=2))
    client.sock.shutdown(socket.SHUT_WR)
    pieces.run(lambda: client.is_closed, "everything is answered, and then the connection closed")
    assert [number for number, _ in client.replies] == [1, 2]


def test_acks_0_that_fails_closes_the_connection_and_says_why(pieces: Pieces, caplog: pytest.LogCaptureFixture) -> None:
    client = pieces.connect()
    client.send(produce({("unknown", 0): batch()}, acks=0))
    _cut_off(pieces, client, caplog, "a Produce request with acks=0 failed: 'unknown'-0 UNKNOWN_TOPIC_OR_PARTITION")


def test_peer_that_does_not_read_its_replies_is_closed_when_no_byte_moves(
    pieces: Pieces, caplog: pytest.LogCaptureFixture
) -> None:
    writer = pieces.connect()
    for _ in range(8):
        writer.ask(produce({(TOPIC, 0): batch(1, 900_000)}))
    stuck = pieces.connect()
    pieces.clients.remove(stuck)
    stuck.sock.send(fetch({(TOPIC, 0): 0}))
    clients = pieces.network.clients
    pieces.run(lambda: any(each.out for each in clients.unread.connections()), "a part of the reply can't be sent")
    clients.now_ms += 600_001
    pieces.network.maintenance.close_idle(600_000)
    (line,) = [line for line in _lines(caplog) if stuck.name in line]
    assert line.endswith("bytes of replies are not read")
    stuck.close()


def test_peer_that_does_not_read_its_replies_keeps_nobody_waiting_when_the_broker_stops(pieces: Pieces) -> None:
    """Everybody's connection stayed open without a word until the stop's deadline."""
    quiet, polls = pieces.connect(), pieces.connect()
    for _ in range(8):
        quiet.ask(produce({(TOPIC, 0): batch(1, 900_000)}))
    polls.send(fetch({(TOPIC, 1): 0}, max_wait_ms=60_000))
    stuck = pieces.connect()
    pieces.clients.remove(stuck)
    stuck.sock.send(fetch({(TOPIC, 0): 0}))
    pieces.settle()
    network = pieces.network
    network.stop(network.clients.now_ms + 3_600_000)
    pieces.run(lambda: quiet.is_closed and polls.is_closed, "those who have got everything see the end")
    assert len(polls.replies) == 1
    assert not network.clients.is_quiet()
    stuck.close()


def test_peer_that_is_cut_off_again_and_again_has_one_line_a_minute_and_a_count(
    pieces: Pieces, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(30):
        client = pieces.connect()
        client.send(b"GET / HTTP/1.1\r\n\r\n")
        pieces.run(lambda client=client: client.is_closed, "the connection is closed")  # type: ignore[misc]
    assert len(_lines(caplog)) == 1
    pieces.network.tick(pieces.network._now_ms + QUIET_MS)
    (count,) = _lines(caplog)[1:]
    assert count == "29 more connections from 127.0.0.1 were closed or rejected in the minute after that"
    assert pieces.network._peer_log.next_ms is None
