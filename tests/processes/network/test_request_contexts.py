"""What handlers are told of a request: who sent it, over which connection, and what a connection keeps of that."""

from struct import Struct

import pytest

from kafkad.core.request_context import ANONYMOUS, UNKNOWN_SOFTWARE, ClientInformation, RequestContext
from kafkad.handlers.api_versions import FLEXIBLE_FROM
from kafkad.processes.network.connections.connection import KEPT_CLIENT_ID, Connection
from kafkad.processes.network.connections.frames import Frame
from kafkad.wire.api_table import API_VERSIONS
from kafkad.wire.framing import LENGTH
from tests.handlers.kio_calls import KioApi
from tests.processes.pieces import Client, Pieces

_HEADER = Struct(">hhih")


class Overheard:
    """The contexts of the requests that begin."""

    def __init__(self, pieces: Pieces) -> None:
        self.contexts: list[RequestContext] = []
        self._clients = pieces.network.clients
        self._begin, self._clients._start = self._clients._start, self._started

    def _started(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        self.contexts.append(context)
        self._begin(connection, frame, context)


@pytest.fixture
def overheard(pieces: Pieces) -> Overheard:
    return Overheard(pieces)


def api_versions(client: Client, version: int, *, client_id: str | None = "me", software: str = "librdkafka") -> None:
    body = KioApi("api_versions", version).request(client_software_name=software, client_software_version="2.3.0")
    name = b"" if client_id is None else client_id.encode()
    header = _HEADER.pack(API_VERSIONS, version, 1, -1 if client_id is None else len(name)) + name
    request = header + (b"\0" if version >= FLEXIBLE_FROM else b"") + bytes(body)
    client.send(LENGTH.pack(len(request)) + request)
    client.reply()


def test_a_request_says_who_sent_it_and_where(pieces: Pieces, overheard: Overheard) -> None:
    client = pieces.connect()
    api_versions(client, 3)
    (context,) = overheard.contexts
    assert (context.client.principal, context.client.client_id) == (ANONYMOUS, "me")
    assert context.client.address == "127.0.0.1"
    assert (context.connection.listener, context.connection.security_protocol) == ("PLAINTEXT", "PLAINTEXT")
    assert context.connection.advertised[0] == "127.0.0.1"
    assert (context.api_key, context.version) == (API_VERSIONS, 3)
    assert context.received_ms <= pieces.network.clients.now_ms


def test_what_stays_the_same_is_made_once_a_connection(pieces: Pieces, overheard: Overheard) -> None:
    client = pieces.connect()
    for _ in range(2):
        api_versions(client, 0)
    first, second = overheard.contexts
    assert first.client is second.client and first.connection is second.connection


def test_each_request_has_the_client_id_that_it_brings(pieces: Pieces, overheard: Overheard) -> None:
    client = pieces.connect()
    for client_id in ("me", "you", None):
        api_versions(client, 0, client_id=client_id)
    assert [context.client.client_id for context in overheard.contexts] == ["me", "you", ""]


def test_a_connection_keeps_no_client_id_that_is_long(pieces: Pieces, overheard: Overheard) -> None:
    client = pieces.connect()
    longest = "n" * (KEPT_CLIENT_ID + 1)
    api_versions(client, 0, client_id=longest)
    assert overheard.contexts[0].client.client_id == longest
    (connection,) = pieces.network.clients._by_fd.values()
    assert connection.client.client_id == ""


def test_requests_after_api_versions_know_the_software(pieces: Pieces, overheard: Overheard) -> None:
    client = pieces.connect()
    api_versions(client, 3)
    api_versions(client, 3, software="no name")
    api_versions(client, 3)
    known = ClientInformation("librdkafka", "2.3.0")
    told = [context.connection.information for context in overheard.contexts]
    assert told == [UNKNOWN_SOFTWARE, known, known], "a name that is none changes nothing"
