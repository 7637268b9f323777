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

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asking = HTTPConnection("127.0.0.1", port)
            kept = {name: each for name, each in self.headers.items() if name.lower() != "if-none-match"}
            asking.request(self.command, self.path, body, kept)
            answer = asking.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            asking.close()

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _forward

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def use(port: int) -> None:
    """In this process."""
    os.environ.update(settings(port))


def _make_bucket(port: int) -> None:
    deadline_s = time.monotonic() + 60
    while True:
        asking = HTTPConnection("127.0.0.1", port)
        try:
            asking.request("PUT", f"/{BUCKET}")
            assert asking.getresponse().status == 200
        except ConnectionRefusedError:
            assert time.monotonic() < deadline_s, "moto does not listen"
            threading.Event().wait(0.05)
        else:
            return
        finally:
            asking.close()
