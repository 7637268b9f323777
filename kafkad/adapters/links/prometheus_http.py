"""Pages over HTTP for people and Prometheus: /metrics, /health, and what reporters add.

No thread: the reporter's loop waits on `fileno()` (an epoll descriptor) and calls `serve_ready`. A connection gets
one response, within `CLIENT_TIME_MS`, for a request of at most `MAX_REQUEST_BYTES`. A new connection replaces the
oldest when there are too many, first of all one without a request, so that no client can lock Prometheus out. All that
ask for a page in one pass share it: a page of many partitions takes a tenth of a second, and everybody waits for it.
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
"""Beyond it the kernel makes a new connection wait for a second."""
_END_OF_HEADERS = (b"\r\n\r\n", b"\n\n")
_TEXT = "text/plain; charset=utf-8"


def health_page(broker_state: int) -> Page:
    """200 while clients are served (Kafka's states 3 and 4), else 503."""
    is_serving = broker_state in (3, 4)
    status = HTTPStatus.OK if is_serving else HTTPStatus.SERVICE_UNAVAILABLE
    body = b'{"serving": %s, "state": %d}\n' % (b"true" if is_serving else b"false", broker_state)
    return Page(content_type="application/json", body=body, status=status)


class _Client:
    """One connection: the bytes received, and the bytes still to send (None: no response yet)."""

    __slots__ = ("answer", "deadline_ms", "request", "socket")

    def __init__(self, connection: socket.socket, deadline_ms: int) -> None:
        self.socket = connection
        self.deadline_ms = deadline_ms
        self.request = bytearray()
        self.answer: memoryview | None = None


class HttpPages:
    """A listening socket, its clients, and the pages they may ask for."""

    def __init__(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one. Raises OSError when the address is taken or not ours."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._listener.setblocking(False)
        self._selector = selectors.EpollSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._pages: dict[str, Callable[[], Page]] = {}
        # In the order in which they came, so the first has the earliest deadline.
        self._clients: dict[int, _Client] = {}
        self._rendered: dict[str, Page] = {}
        """The pages that were made in this pass."""

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()[:2]
        return host, port

    def add_page(self, path: str, render: Callable[[], Page]) -> None:
        """Answer GET `path` with what `render` returns, called per request."""
        assert path not in self._pages, f"two reporters answer {path}"
        self._pages[path] = render

    def fileno(self) -> int:
        """Readable when `serve_ready` has something to do."""
        return self._selector.fileno()

    def next_deadline_ms(self) -> int | None:
        """When `serve_ready` is due even if nothing is readable."""
        return next((client.deadline_ms for client in self._clients.values()), None)

    def serve_ready(self, now_ms: int) -> None:
        """Accept, read, answer whatever is ready, without waiting; close clients that are out of time."""
        for key, events in self._selector.select(0):
            if key.fileobj is self._listener:
                self._accept(now_ms)
                continue
            client = self._clients.get(key.fd)
            if client is None or client.socket is not key.fileobj:
                continue  # closed in this pass to make room; its descriptor may be reused already
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
                return  # there is no more, the client has disconnected already, or there is no free descriptor
            connection.setblocking(False)
            if len(self._clients) == MAX_CLIENTS:
                oldest = next(iter(self._clients.values()))
                self._close(next((each for each in self._clients.values() if each.answer is None), oldest))
            self._clients[connection.fileno()] = _Client(connection, now_ms + CLIENT_TIME_MS)
            self._selector.register(connection, selectors.EVENT_READ)

    def _serve(self, client: _Client, events: int) -> None:
        if events & selectors.EVENT_READ:
            received = client.socket.recv(MAX_REQUEST_BYTES)
            if not received:
                self._close(client)
                return
            if client.answer is None:
                self._read(client, received)
        if client.answer:
            self._write(client)

    def _read(self, client: _Client, received: bytes) -> None:
        client.request += received
        if any(end in client.request for end in _END_OF_HEADERS):
            client.answer = memoryview(self._answer(bytes(client.request)))
        elif len(client.request) > MAX_REQUEST_BYTES:
            client.answer = memoryview(_response(_refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)))

    def _write(self, client: _Client) -> None:
        assert client.answer is not None
        with suppress(BlockingIOError):
            sent = client.socket.send(client.answer)
            client.answer = client.answer[sent:]
        if client.answer:
            self._selector.modify(client.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
        else:
            # Closing with unread input would reset the connection under the answer: wait for the client's end.
            self._selector.modify(client.socket, selectors.EVENT_READ)
            client.socket.shutdown(socket.SHUT_WR)

    def _answer(self, request: bytes) -> bytes:
        words = request.split(b"\n", 1)[0].split()
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(_refusal(HTTPStatus.BAD_REQUEST))
        method, target, _ = words
        if method not in (b"GET", b"HEAD"):
            return _response(_refusal(HTTPStatus.METHOD_NOT_ALLOWED))
        path = target.split(b"?", 1)[0].decode("latin-1")
        render = self._pages.get(path)
        if render is None:
            return _response(_refusal(HTTPStatus.NOT_FOUND, f"there is {' '.join(sorted(self._pages))}"))
        if path not in self._rendered:
            self._rendered[path] = render()
        return _response(self._rendered[path], with_body=method == b"GET")

    def _close(self, client: _Client) -> None:
        del self._clients[client.socket.fileno()]
        self._selector.unregister(client.socket)
        client.socket.close()


def _refusal(status: HTTPStatus, hint: str = "") -> Page:
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
