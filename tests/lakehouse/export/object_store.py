"""An object store on loopback: moto's S3, in a process of its own, as deltalake holds Python's lock while it asks."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from bench.brokers.processes import WITHIN_S

BUCKET = "lake"


@contextmanager
def object_store() -> Iterator[int]:
    """Its port; the bucket is there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _make_bucket(port)
        yield port
    finally:
        server.terminate()
        server.wait()


def settings(port: int) -> dict[str, str]:
    """The variables with which an export finds the store."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }


@contextmanager
def forgetful(port: int) -> Iterator[int]:
    """The port of a store that ignores If-None-Match, and is otherwise the one at `port`."""
    with _in_front(port, dropped="if-none-match") as its_port:
        yield its_port


class Rejection(NamedTuple):
    """An answer of S3 to somebody whose credentials are not, or no longer, right."""

    status: int
    code: str


EXPIRED = Rejection(400, "ExpiredToken")
WITHDRAWN = Rejection(403, "InvalidAccessKeyId")


class Credentials:
    """They are good for the next requests, as many as `good_for`; after `lost_for` more they are good again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refusal = EXPIRED
        self.good_again()

    def good_again(self) -> None:
        self.lose(sys.maxsize, sys.maxsize, self._refusal)

    def lose(self, good_for: int, lost_for: int, refusal: Rejection) -> None:
        with self._lock:
            self.asked = 0
            self._good_for, self._lost_for, self._refusal = good_for, lost_for, refusal

    def refusal(self) -> Rejection | None:
        """Of a request that is made now."""
        with self._lock:
            number = self.asked
            self.asked += 1
        return self._refusal if self._good_for <= number < self._good_for + self._lost_for else None


@contextmanager
def asking_for(credentials: Credentials, port: int) -> Iterator[int]:
    """The port of a store that wants them, and is otherwise the one at `port`."""
    with _in_front(port, credentials=credentials) as its_port:
        yield its_port


@contextmanager
def _in_front(port: int, *, dropped: str = "", credentials: Credentials | None = None) -> Iterator[int]:
    """Forwards what is asked, without the header `dropped`."""
    server = _Front(port, dropped, credentials)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Front(ThreadingHTTPServer):
    def __init__(self, port: int, dropped: str, credentials: Credentials | None) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.store = port
        self.left_out = {dropped, "transfer-encoding"}
        self.credentials = credentials

    def handle_error(self, request: object, client_address: object) -> None:
        # Who has heard enough closes the connection.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Front

    def _forward(self) -> None:
        body = self._body()
        refusal = None if self.server.credentials is None else self.server.credentials.refusal()
        if refusal is not None:
            self._refuse(refusal)
            return
        connected_client = HTTPConnection("127.0.0.1", self.server.store)
        kept = {name: each for name, each in self.headers.items() if name.lower() not in self.server.left_out}
        connected_client.request(self.command, self.path, body, kept)
        answer = connected_client.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        connected_client.close()

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _forward

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def _refuse(self, refusal: Rejection) -> None:
        said = f"<Error><Code>{refusal.code}</Code><Message>These are not, or no longer, right.</Message></Error>"
        content = b"" if self.command == "HEAD" else said.encode()
        self.send_response(refusal.status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def use(port: int) -> None:
    """In this process."""
    os.environ.update(settings(port))


def _make_bucket(port: int) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        connected_client = HTTPConnection("127.0.0.1", port)
        try:
            connected_client.request("PUT", f"/{BUCKET}")
            assert connected_client.getresponse().status == 200
        except ConnectionRefusedError:
            assert time.monotonic() < deadline_s, "moto does not listen"
            threading.Event().wait(0.05)
        else:
            return
        finally:
            connected_client.close()
