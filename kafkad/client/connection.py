"""One TCP connection to one broker, for one thread: sends a request, and receives its response.

The first request is ApiVersions; requests that the broker does not support raise an error. All errors are
`BrokerCallFailed`. `broker_client` finds the leaders.
"""

import socket
from io import BytesIO
from struct import Struct
from typing import Self, TypeVar

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.request_header.v1.header import RequestHeader as PlainHeader
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.primitive import i16, i32
from kio.static.protocol import Payload

from kafkad import __version__
from kafkad.core.errors import ErrorCode

CLIENT_ID = "kafkad-cli"
LARGEST_RESPONSE = 256 * 1024 * 1024
"""More than the largest response: a larger length is not Kafka's protocol."""

_LENGTH = Struct(">i")
_ERROR_CODE = Struct(">h")
_CORRELATION_ID = Struct(">i")

Response = TypeVar("Response", bound=Payload)


class BrokerCallFailed(Exception):
    """A broker was unreachable or returned an error; the message is one sentence for users.

    `code` is None without an error code in a response.
    """

    def __init__(self, sentence: str, code: ErrorCode | None = None) -> None:
        super().__init__(sentence)
        self.code = code


class BrokerConnection:
    """A connection to a broker, after ApiVersions."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self.peer = f"{host}:{port}"
        self._timeout_s = timeout_s
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise BrokerCallFailed(f"no broker responds at {self.peer}: {_reason(error)}") from error
        except UnicodeError as invalid_name:
            raise BrokerCallFailed(f"no broker responds at {self.peer}: unknown host name") from invalid_name
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._negotiate()
        except BrokerCallFailed:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, request: Payload, response_type: type[Response], *, wait_s: float = 0.0) -> Response:
        """Send `request` and return its response, which the broker may delay for `wait_s`."""
        self.send(request)
        return self._decode(response_type, self._receive_response(wait_s), 5 if request.__flexible__ else 4)

    def send(self, request: Payload) -> None:
        """Send a request without waiting for a response: Produce with acks=0 has none."""
        api_key, version = request.__api_key__, request.__version__
        self._check_served(api_key, version, type(request).__name__.removesuffix("Request"))
        body = BytesIO()
        entity_writer(type(request))(body, request)
        self._send(api_key, version, body.getvalue(), is_flexible=request.__flexible__)

    def _send(self, api_key: int, version: int, body: bytes, *, is_flexible: bool) -> None:
        self._correlation_id += 1
        make_header = RequestHeader if is_flexible else PlainHeader
        header = make_header(
            request_api_key=i16(api_key),
            request_api_version=i16(version),
            correlation_id=i32(self._correlation_id),
            client_id=CLIENT_ID,
        )
        head = BytesIO()
        entity_writer(make_header)(head, header)
        frame = head.getvalue() + body
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
        except OSError as error:
            raise BrokerCallFailed(f"the connection to {self.peer} broke: {_reason(error)}") from error

    def _receive_response(self, wait_s: float) -> bytes:
        frame = self._receive(wait_s)
        if _CORRELATION_ID.unpack_from(frame)[0] != self._correlation_id:
            raise BrokerCallFailed(f"{self.peer} sent a response with a wrong correlation id")
        return frame

    def _negotiate(self) -> None:
        request = ApiVersionsRequest(client_software_name="kafkad", client_software_version=__version__)
        self._versions[request.__api_key__] = (request.__version__, request.__version__)
        self.send(request)
        frame = self._receive(0.0)
        # An error response has version 0; in all versions the error code is the first field.
        code = _ERROR_CODE.unpack_from(frame, 4)[0] if len(frame) >= 6 else ErrorCode.UNKNOWN_SERVER_ERROR
        if code:
            raise BrokerCallFailed(f"{self.peer} returned error {code} for ApiVersions 3; it may be too old")
        response = self._decode(ApiVersionsResponse, frame, 4)
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def _decode(self, response_type: type[Response], frame: bytes, body_at: int) -> Response:
        """The body after correlation id and tagged fields (an ApiVersions header has none, KIP-511)."""
        try:
            return entity_reader(response_type)(frame, body_at)[0]
        except SerialError as error:
            raise BrokerCallFailed(f"{self.peer} sent a response that can't be read: {error}") from error

    def _check_served(self, api_key: int, version: int, name: str) -> None:
        lowest, highest = self._versions.get(api_key, (0, -1))
        if lowest <= version <= highest:
            return
        served = f"versions {lowest} to {highest}" if highest >= 0 else "no version"
        raise BrokerCallFailed(
            f"{self.peer} supports {served} of {name}, this client requires version {version}",
            ErrorCode.UNSUPPORTED_VERSION,
        )

    def _receive(self, wait_s: float) -> bytes:
        """The next response without its length prefix."""
        self._socket.settimeout(self._timeout_s + wait_s)
        prefix = self._read_exactly(4)
        (length,) = _LENGTH.unpack(prefix)
        if not 4 <= length <= LARGEST_RESPONSE:
            found = _looks_like(prefix)
            raise BrokerCallFailed(f"{self.peer} does not speak Kafka's protocol: it sent {found}")
        return self._read_exactly(length)

    def _read_exactly(self, size: int) -> bytes:
        buffer = bytearray(size)
        view, filled = memoryview(buffer), 0
        while filled < size:
            try:
                received = self._socket.recv_into(view[filled:])
            except OSError as error:
                raise BrokerCallFailed(f"{self.peer} did not respond: {_reason(error)}") from error
            if not received:
                raise BrokerCallFailed(f"{self.peer} closed the connection without a response")
            filled += received
        return bytes(buffer)


def _looks_like(prefix: bytes) -> str:
    """The protocol of a server whose response begins with `prefix` instead of a length."""
    if prefix[:2] == b"\x15\x03":
        return "a TLS alert (this client speaks plain text only)"
    if prefix.isascii() and prefix.decode().isprintable():
        return f"text that starts with {prefix.decode()!r}"
    return f"a response length of {_LENGTH.unpack(prefix)[0]}"


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return error.strerror or str(error)
