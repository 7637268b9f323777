"""The length prefixes and headers of requests and responses.

Lengths are checked before memory is allocated. `foreign_protocol` recognizes other protocols, so that log lines name
"a TLS hello" instead of an invalid length.
"""

from struct import Struct

import msgspec

from kafkad.wire.api_table import API_VERSIONS, APIS
from kafkad.wire.primitives import MalformedRequest, skip_tags

LENGTH = Struct(">i")
HEADER = Struct(">hhi")
HEADER_AND_CLIENT_LENGTH = Struct(">hhih")


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a request. A msgspec Struct, because it is the cheapest object and each request has one."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def read_header(frame: memoryview) -> RequestHeader:
    """The header at the start of `frame` (a request without its length prefix). Raises MalformedRequest.

    For unknown APIs and versions only the fields of header version 1 are read, which suffice for the response to an
    unsupported ApiVersions version (KIP-511).
    """
    size = len(frame)
    if size < 8:
        raise MalformedRequest(f"a request of {size} bytes is shorter than a request header")
    if size == 9:
        raise MalformedRequest("the length of the client id is cut off")
    if size == 8:
        api_key, version, correlation_id = HEADER.unpack_from(frame)
        return RequestHeader(api_key, version, correlation_id, None, 8)
    api_key, version, correlation_id, length = HEADER_AND_CLIENT_LENGTH.unpack_from(frame)
    if length == -1:
        client_id, position = None, 10
    elif length < 0 or 10 + length > size:
        raise MalformedRequest(f"a client id of {length} bytes does not fit in the rest of the request")
    else:
        # Some clients send client ids in other encodings; Apache Kafka accepts them too.
        client_id, position = str(frame[10 : 10 + length], "utf-8", "replace"), 10 + length
    api = APIS.get(api_key)
    if api is not None and api.flexible_from <= version <= api.max_version:
        position = skip_tags(frame, position)
    return RequestHeader(api_key, version, correlation_id, client_id, position)


def response_head(api_key: int, version: int, correlation_id: int, body_length: int) -> bytes:
    """Length prefix and response header for a body of `body_length` bytes.

    The header of ApiVersions responses always has version 0 (KIP-511).
    """
    if api_key != API_VERSIONS and version >= APIS[api_key].flexible_from:
        return FLEXIBLE_HEAD.pack(body_length + 5, correlation_id, 0)
    return PLAIN_HEAD.pack(body_length + 4, correlation_id)


PLAIN_HEAD = Struct(">ii")
FLEXIBLE_HEAD = Struct(">iiB")

_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"TRAC", b"PRI ")


def foreign_protocol(first: bytes) -> str | None:
    """The protocol of a connection that begins with `first` instead of a Kafka request; None if unknown."""
    if first[:4] in _HTTP_METHODS:
        return "an HTTP request"
    if len(first) >= 3 and first[0] == 0x16 and first[1] == 0x03:
        return "a TLS hello on a PLAINTEXT listener"
    if first[:4] == b"SSH-":
        return "an SSH client"
    if len(first) >= 4 and all(0x20 <= byte < 0x7F or byte in (9, 10, 13) for byte in first[:4]):
        return "text, not a Kafka request"
    return None
