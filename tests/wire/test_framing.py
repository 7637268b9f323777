"""Headers of requests and responses against kio's, and what is not Kafka at all."""

from io import BytesIO
from typing import Any

import pytest
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.schema.response_header.v0.header import ResponseHeader as ResponseV0
from kio.schema.response_header.v1.header import ResponseHeader as ResponseV1
from kio.serial import entity_reader, entity_writer

from kafkad.wire.api_table import API_VERSIONS, APIS, FETCH, METADATA
from kafkad.wire.framing import LENGTH, foreign_protocol, read_header, response_head
from kafkad.wire.primitives import MalformedRequest

VERSIONS = [(key, version) for key, api in APIS.items() for version in range(api.min_version, api.max_version + 1)]


def header(key: int, version: int, client: str | None, *, flexible: bool) -> bytes:
    message: Any = HeaderV2 if flexible else HeaderV1
    buffer = BytesIO()
    values = {"request_api_key": key, "request_api_version": version, "correlation_id": 77, "client_id": client}
    entity_writer(message)(buffer, message(**values))
    return buffer.getvalue()


@pytest.mark.parametrize("client", ["kafka-client", "", None])
@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_request_header_is_read_to_where_its_body_begins(key: int, version: int, client: str | None) -> None:
    raw = header(key, version, client, flexible=version >= APIS[key].flexible_from)
    read = read_header(memoryview(raw + b"body"))
    assert (read.api_key, read.version, read.correlation_id, read.client_id) == (key, version, 77, client)
    assert read.body_at == len(raw)


def test_a_client_id_in_another_encoding_is_taken_as_far_as_it_can_be_read() -> None:
    raw = header(METADATA, 9, "Mxller", flexible=True).replace(b"x", b"\xfc")
    read = read_header(memoryview(raw))
    assert (read.client_id, read.body_at) == ("M\ufffdller", len(raw))


def test_of_an_unknown_version_only_the_fields_that_never_change_are_read() -> None:
    raw = header(API_VERSIONS, 99, "client", flexible=False)
    read = read_header(memoryview(raw + b"\xff\xff"))
    assert (read.version, read.client_id, read.body_at) == (99, "client", len(raw))


def test_tagged_fields_of_a_header_are_stepped_over() -> None:
    raw = header(METADATA, 9, "c", flexible=True)
    tagged = raw[:-1] + b"\x01\x05\x02ab"
    assert read_header(memoryview(tagged + b"body")).body_at == len(tagged)


@pytest.mark.parametrize(("key", "version"), [(METADATA, 1), (FETCH, 12)])
def test_a_header_cut_off_is_malformed(key: int, version: int) -> None:
    raw = header(key, version, "client", flexible=version >= APIS[key].flexible_from)
    for end in (*range(8), *range(9, len(raw))):
        with pytest.raises(MalformedRequest):
            read_header(memoryview(raw[:end]))


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_response_header_is_kios(key: int, version: int) -> None:
    flexible = version >= APIS[key].flexible_from and key != API_VERSIONS
    message: Any = ResponseV1 if flexible else ResponseV0
    raw = response_head(key, version, 77, 10)
    read, size = entity_reader(message)(raw, 4)
    assert (read.correlation_id, 4 + size) == (77, len(raw))
    assert LENGTH.unpack_from(raw)[0] == len(raw) - 4 + 10


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (b"GET / HTTP/1.1\r\n", "an HTTP request"),
        (b"PRI * HTTP/2.0", "an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01", "a TLS hello on a PLAINTEXT listener"),
        (b"SSH-2.0-OpenSSH", "an SSH client"),
        (b"hello\r\n", "text, not a Kafka request"),
        (b"\x00\x00\x00\x20\x00\x12\x00\x03", None),
        (b"\xff\xff\xff\xff", None),
        (b"", None),
    ],
)
def test_strangers_are_told_by_their_first_bytes(first: bytes, what: str | None) -> None:
    assert foreign_protocol(first) == what
