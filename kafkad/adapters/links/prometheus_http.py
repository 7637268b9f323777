"""Pages over HTTP for users and Prometheus: /metrics, /health, and the pages of reporters.

The reporter's loop polls `fileno()` (an epoll descriptor) and calls `serve_ready`; there is no thread. A connection
gets one response, within `CLIENT_TIME_MS`, to a request of at most `MAX_REQUEST_BYTES`. Beyond `MAX_CLIENTS` a new
connection replaces the oldest one, preferably one without a request, so that no client can block Prometheus. All
requests for a page in one pass share one rendering, because a page of many partitions takes a tenth of a second.
"""

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

from kafkad.core.metrics.metric import Page

CLIENT_TIME_MS = 5_000
MAX_REQUEST_BYTES = 8_192
MAX_CLIENTS = 64
BACKLOG = 1_024
"""Beyond this number, new connections wait for a second in the kernel."""
_END_OF_HEADERS = (b"\r\n\r\n", b"\n\n")
_TEXT = "text/plain; charset=utf-8"


def health_page(broker_state: int) -> Page:
    """200 while the broker serves clients (Kafka's states 3 and 4), else 503."""
    is_serving = broker_state in (3, 4)
    status = HTTPStatus.OK if is_serving else HTTPStatus.SERVICE_UNAVAILABLE
    body = b'{"serving": %s, "state": %d}\n' % (b"true" if is_serving else b"false", broker_state)
    return Page(content_type="application/json", body=body, status=status)


class _Client:
    """One connection: the received bytes, and the bytes to send (None: no response yet)."""

    __slots__ = ("deadline_ms", "request", "response", "socket")

    def __init__(self, connection: socket.socket, deadline_ms: int) -> None:
        self.socket = connection
        self.deadline_ms = deadline_ms
        self.request = bytearray()
        self.response: memoryview | None = None


class HttpPages:
    """A listening socket, its clients, and the pages."""

    def __init__(self, host: str, port: int) -> None:
        """Listen; port 0 selects a free port. Raises OSError if the address is in use or not local."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._listener.setblocking(False)
        self._selector = selectors.EpollSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._pages: dict[str, Callable[[], Page]] = {}
        # In the order of their connections, so the first client has the earliest deadline.
        self._clients: dict[int, _Client] = {}
        self._rendered: dict[str, Page] = {}
        """The pages that were rendered in this pass."""

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()[:2]
        return host, port

    def add_page(self, path: str, render: Callable[[], Page]) -> None:
        """Serve the result of `render` at `path`."""
        assert path not in self._pages, f"two reporters add the page {path}"
        self._pages[path] = render

    def fileno(self) -> int:
        """Readable when `serve_ready` is due."""
        return self._selector.fileno()

    def next_deadline_ms(self) -> int | None:
        """The time when `serve_ready` is due even if nothing is readable; None for never."""
        return next((client.deadline_ms for client in self._clients.values()), None)

    def serve_ready(self, now_ms: int) -> None:
        """Accept, read and respond without waiting, and close clients after their deadlines."""
        for key, events in self._selector.select(0):
            if key.fileobj is self._listener:
                self._accept(now_ms)
                continue
            client = self._clients.get(key.fd)
            if client is None or client.socket is not key.fileobj:
                continue  # replaced in this pass by a new client, which may have the same descriptor
            try:
                self._serve(client, events)
            except BlockingIOError:
                continue
            except OSError:
                self._close(client)
        self._rendered.clear()
        late = [client for client in self._clients.values() if client.deadline_ms <= now_ms]
        for client in late:
            self._close(client)

    def close(self) -> None:
        for client in list(self._clients.values()):
            self._close(client)
        self._selector.close()
        self._listener.close()

    def _accept(self, now_ms: int) -> None:
        for _ in range(MAX_CLIENTS // 2):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # no more connections, a disconnected client, or no free descriptor
            connection.setblocking(False)
            if len(self._clients) == MAX_CLIENTS:
                oldest = next(iter(self._clients.values()))
                self._close(next((each for each in self._clients.values() if each.response is None), oldest))
            self._clients[connection.fileno()] = _Client(connection, now_ms + CLIENT_TIME_MS)
            self._selector.register(connection, selectors.EVENT_READ)

    def _serve(self, client: _Client, events: int) -> None:
        if events & selectors.EVENT_READ:
            received = client.socket.recv(MAX_REQUEST_BYTES)
            if not received:
                self._close(client)
                return
            if client.response is None:
                self._read(client, received)
        if client.response:
            self._write(client)

    def _read(self, client: _Client, received: bytes) -> None:
        client.request += received
        if any(end in client.request for end in _END_OF_HEADERS):
            client.response = memoryview(self._respond(bytes(client.request)))
        elif len(client.request) > MAX_REQUEST_BYTES:
            client.response = memoryview(_response(_error_page(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)))

    def _write(self, client: _Client) -> None:
        assert client.response is not None
        with suppress(BlockingIOError):
            sent = client.socket.send(client.response)
            client.response = client.response[sent:]
        if client.response:
            self._selector.modify(client.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
        else:
            # A close with unread input would reset the connection before the response arrives: wait for the client.
            self._selector.modify(client.socket, selectors.EVENT_READ)
            client.socket.shutdown(socket.SHUT_WR)

    def _respond(self, request: bytes) -> bytes:
        words = request.split(b"\n", 1)[0].split()
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(_error_page(HTTPStatus.BAD_REQUEST))
        method, target, _ = words
        if method not in (b"GET", b"HEAD"):
            return _response(_error_page(HTTPStatus.METHOD_NOT_ALLOWED))
        path = target.split(b"?", 1)[0].decode("latin-1")
        render = self._pages.get(path)
        if render is None:
            return _response(_error_page(HTTPStatus.NOT_FOUND, f"the pages are {' '.join(sorted(self._pages))}"))
        if path not in self._rendered:
            self._rendered[path] = render()
        return _response(self._rendered[path], with_body=method == b"GET")

    def _close(self, client: _Client) -> None:
        del self._clients[client.socket.fileno()]
        self._selector.unregister(client.socket)
        client.socket.close()


def _error_page(status: HTTPStatus, hint: str = "") -> Page:
    text = f"{status.value} {status.phrase}{': ' if hint else ''}{hint}\n"
    return Page(content_type=_TEXT, body=text.encode(), status=status)


def _response(page: Page, *, with_body: bool = True) -> bytes:
    allow = "Allow: GET, HEAD\r\n" if page.status == HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {int(page.status)} {HTTPStatus(page.status).phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        f"{allow}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + (page.body if with_body else b"")
