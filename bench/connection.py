"""One plain socket to a broker: send a request, receive its reply."""

import socket
import struct
from types import TracebackType
from typing import Self

_TIMEOUT_S = 60.0


class Connection:
    """A blocking, sequential connection, for set-up and checks, not for the load."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, request: bytes) -> bytes:
        """Send a request; returns the reply without its length."""
        self.socket.sendall(request)
        return self.reply()

    def reply(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        buffer = bytearray(count)
        view = memoryview(buffer)
        while view:
            got = self.socket.recv_into(view)
            if not got:
                raise ConnectionError("the broker closed the connection")
            view = view[got:]
        return bytes(buffer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()
