"""The frames of a connection to another broker: encodes request headers, and receives response frames.

Lengths are checked before memory is allocated, because the peer may not be a Kafka broker.
"""

import socket
from collections.abc import Callable
from struct import Struct

from kafkad.wire.api_table import API_VERSIONS
from kafkad.wire.primitives import EMPTY_TAGS, MalformedRequest, skip_tags, string

LARGEST_RESPONSE = 256 * 1024 * 1024
"""More than the largest response to a broker's requests; fetches limit their responses to less."""
_LENGTH = Struct(">i")
_HEAD = Struct(">ihhi")
_CORRELATION_ID = Struct(">i")


class NotKafka(Exception):
    """The peer does not speak Kafka's protocol, or has closed the connection; see the message."""


def request_frame(
    api_key: int, version: int, correlation_id: int, client_id: str, body: bytes, *, is_flexible: bool
) -> bytes:
    """A request with its length and header (version 2 if flexible, else 1)."""
    client = string(client_id) + (EMPTY_TAGS if is_flexible else b"")
    length = _HEAD.size - _LENGTH.size + len(client) + len(body)
    return b"".join((_HEAD.pack(length, api_key, version, correlation_id), client, body))


class FrameReceiver:
    """Receives response frames from a non-blocking socket."""

    def __init__(self) -> None:
        self._prefix = bytearray()
        self._frame: memoryview | None = None
        self._filled = 0

    def receive(self, connected: socket.socket, place: Callable[[int], memoryview] | None) -> memoryview | None:
        """The next complete frame, or None. Raises BlockingIOError while it is incomplete, another OSError or NotKafka.

        `place` allocates the memory for a frame of a given length; it returns None without space.
        """
        while self._frame is None:
            received = connected.recv(4 - len(self._prefix))
            if not received:
                raise NotKafka("the peer closed the connection before its response")
            self._prefix += received
            if len(self._prefix) == 4:
                length = _length(bytes(self._prefix))
                self._frame = place(length) if place is not None else memoryview(bytearray(length))
                self._filled = 0
        frame = self._frame
        while self._filled < len(frame):
            count = connected.recv_into(frame[self._filled :])
            if not count:
                raise NotKafka("the peer closed the connection within a response")
            self._filled += count
        self._frame, self._prefix = None, bytearray()
        return frame

    @staticmethod
    def body_of(frame: memoryview, api_key: int, correlation_id: int, *, is_flexible: bool) -> memoryview:
        """The body after the response header; the header of ApiVersions responses has no tagged fields (KIP-511)."""
        if _CORRELATION_ID.unpack_from(frame)[0] != correlation_id:
            raise NotKafka("the peer sent a response with an unknown correlation id")
        if not is_flexible or api_key == API_VERSIONS:
            return frame[4:]
        try:
            body_at = skip_tags(frame, 4)
        except MalformedRequest as error:
            raise NotKafka(f"the header of the peer's response is malformed: {error}") from error
        return frame[body_at:]


def _length(prefix: bytes) -> int:
    (length,) = _LENGTH.unpack(prefix)
    if 4 <= length <= LARGEST_RESPONSE:
        return int(length)
    if prefix[:2] == b"\x15\x03":
        raise NotKafka("the peer does not speak Kafka's protocol: it sent a TLS alert")
    if prefix.isascii() and prefix.decode().isprintable():
        raise NotKafka(f"the peer does not speak Kafka's protocol: it sent text that starts with {prefix.decode()!r}")
    raise NotKafka(f"the peer does not speak Kafka's protocol: it sent a response length of {length}")
