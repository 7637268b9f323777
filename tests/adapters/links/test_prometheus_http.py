"""The pages over real sockets: good clients, bad clients, slow clients, on a virtual clock."""

import socket
from collections.abc import Iterator

import pytest

from kafkad.adapters.links.prometheus_http import CLIENT_TIME_MS, MAX_CLIENTS, HttpPages, health_page
from kafkad.core.metrics.metric import Page


@pytest.fixture
def pages() -> Iterator[HttpPages]:
    served = HttpPages("127.0.0.1", 0)
    served.add_page("/health", lambda: health_page(3))
    served.add_page("/big", lambda: Page(content_type="text/plain", body=b"x" * 20_000_000))
    yield served
    served.close()


def client_of(pages: HttpPages, request: bytes = b"") -> socket.socket:
    client = socket.create_connection(pages.address)
    client.sendall(request)
    return client


def serve_until_closed(pages: HttpPages, client: socket.socket, now_ms: int = 0) -> bytes:
    """What the client is sent until the other side closes its end."""
    client.setblocking(False)
    received = b""
    for _ in range(100_000):
        pages.serve_ready(now_ms)
        try:
            chunk = client.recv(1 << 20)
        except BlockingIOError:
            continue
        if not chunk:
            return received
        received += chunk
    raise AssertionError(f"still open after {len(received)} bytes")


def answer(pages: HttpPages, request: bytes) -> bytes:
    with client_of(pages, request) as client:
        return serve_until_closed(pages, client)


def test_a_page_is_answered_with_its_length_and_the_connection_ends(pages: HttpPages) -> None:
    head, body = answer(pages, b"GET /health?verbose=1 HTTP/1.1\r\nHost: x\r\n\r\n").split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close" in head
    assert body == b'{"serving": true, "state": 3}\n'
    assert b"Content-Length: %d\r\n" % len(body) in head


def test_a_page_larger_than_the_socket_buffer_arrives_whole(pages: HttpPages) -> None:
    assert answer(pages, b"GET /big HTTP/1.0\n\n").endswith(b"x" * 20_000_000)


def test_head_is_answered_without_a_body(pages: HttpPages) -> None:
    assert answer(pages, b"HEAD /health HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nowhere HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"POST /health HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"405 Method Not Allowed"),
        (b"GET /health\r\n\r\n", b"400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\n\n", b"400 Bad Request"),
        (b"GET /" + b"x" * 20_000, b"431 Request Header Fields Too Large"),
    ],
)
def test_bad_requests_are_told_why(pages: HttpPages, request_bytes: bytes, status: bytes) -> None:
    assert answer(pages, request_bytes).startswith(b"HTTP/1.1 " + status)


def test_a_request_may_come_in_pieces(pages: HttpPages) -> None:
    with client_of(pages, b"GET /hea") as client:
        pages.serve_ready(0)
        client.sendall(b"lth HTTP/1.1\r\n")
        pages.serve_ready(0)
        client.sendall(b"\r\n")
        assert b"200 OK" in serve_until_closed(pages, client)


def test_a_client_that_dawdles_is_closed_at_its_deadline(pages: HttpPages) -> None:
    with client_of(pages, b"GET /hea") as client:
        pages.serve_ready(1_000)
        pages.serve_ready(1_000)
        assert pages.next_deadline_ms() == 1_000 + CLIENT_TIME_MS
        client.sendall(b"l")
        pages.serve_ready(999 + CLIENT_TIME_MS)
        assert pages.next_deadline_ms() is not None
        assert serve_until_closed(pages, client, now_ms=1_000 + CLIENT_TIME_MS) == b""
        assert pages.next_deadline_ms() is None


def test_silent_clients_cannot_keep_prometheus_out(pages: HttpPages) -> None:
    silent = [client_of(pages) for _ in range(MAX_CLIENTS)]
    for _ in range(MAX_CLIENTS):
        pages.serve_ready(0)
    assert b"200 OK" in answer(pages, b"GET /health HTTP/1.1\r\n\r\n")
    assert serve_until_closed(pages, silent[0]) == b""
    for client in silent:
        client.close()


def test_silent_clients_take_no_place_of_one_that_reads_its_answer(pages: HttpPages) -> None:
    with client_of(pages, b"GET /big HTTP/1.1\r\n\r\n") as reader:
        pages.serve_ready(0)
        pages.serve_ready(0)
        silent = [client_of(pages) for _ in range(3 * MAX_CLIENTS)]
        assert serve_until_closed(pages, reader).endswith(b"x" * 20_000_000)
    for client in silent:
        client.close()


def test_clients_that_ask_at_once_share_a_page(pages: HttpPages) -> None:
    """A page takes as long as there are partitions: a crowd made /health wait for one page for each of it."""
    made = []

    def render() -> Page:
        made.append(1)
        return Page(content_type="text/plain", body=b"%d\n" % len(made))

    pages.add_page("/slow", render)
    crowd = [client_of(pages, b"GET /slow HTTP/1.1\r\n\r\n") for _ in range(20)]
    with client_of(pages, b"GET /health HTTP/1.1\r\n\r\n") as prober:
        assert serve_until_closed(pages, prober).startswith(b"HTTP/1.1 200")
    assert len(made) == 1
    assert answer(pages, b"GET /slow HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\n2\n")
    for client in crowd:
        client.close()


def test_a_client_that_goes_away_leaves_nothing_behind(pages: HttpPages) -> None:
    client_of(pages, b"GET /").close()
    for _ in ("accepts", "reads", "sees the end"):
        pages.serve_ready(0)
    assert pages.next_deadline_ms() is None


@pytest.mark.parametrize(("state", "status"), [(3, 200), (4, 200), (1, 503), (6, 503)])
def test_health_is_good_only_while_clients_are_served(state: int, status: int) -> None:
    assert health_page(state).status == status


def test_a_taken_port_is_told_to_the_caller(pages: HttpPages) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        HttpPages(*pages.address)
