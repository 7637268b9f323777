"""A stop answers the first request of a connection that it had only just accepted: other clients wait in the queue of
the kernel for the next start, and this one must not be worse off.
"""

from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.connections.graceful_close import FIRST_REQUEST_MS, next_abandoned_ms
from tests.processes.pieces import NETWORK, Client, Pieces
from tests.tools.raw_requests import api_versions, heartbeat

LONG_MS = 600_000


def stop(pieces: Pieces) -> None:
    pieces.stop(NETWORK, deadline_ms=pieces.network._now_ms + LONG_MS)
    pieces.turn(NETWORK)


def connection_of(pieces: Pieces, client: Client) -> Connection:
    (found,) = (each for each in pieces.network.clients if each.peer == client.name)
    return found


def test_first_request_that_comes_after_the_stop_began_is_answered(pieces: Pieces) -> None:
    early, late = pieces.connect(), pieces.connect()
    early.ask(api_versions())
    stop(pieces)
    pieces.settle()
    assert early.is_closed, "it has had its answer"
    assert not late.is_closed and not pieces.network.is_done
    assert late.ask(api_versions())
    pieces.run(lambda: pieces.network.is_done and late.is_closed, "nobody else is waited for")


def test_large_first_request_is_answered_too(pieces: Pieces) -> None:
    client = pieces.connect()
    stop(pieces)
    assert client.ask(heartbeat("g" * 1_000))
    pieces.run(lambda: pieces.network.is_done, "nobody else is waited for")


def test_second_request_that_comes_after_the_stop_began_is_not_taken(pieces: Pieces) -> None:
    client = pieces.connect()
    client.ask(api_versions())
    stop(pieces)
    client.send(api_versions())
    pieces.run(lambda: pieces.network.is_done and client.is_closed, "the network process is done")
    assert not client.replies


def test_connection_that_stays_silent_is_waited_for_only_so_long(pieces: Pieces) -> None:
    client = pieces.connect()
    connection = connection_of(pieces, client)
    stop(pieces)
    pieces.settle()
    assert not pieces.network.is_done
    network = pieces.network
    assert next_abandoned_ms(network.clients, network._now_ms) == connection.last_active_ms + FIRST_REQUEST_MS
    connection.last_active_ms -= FIRST_REQUEST_MS
    pieces.run(lambda: pieces.network.is_done and client.is_closed, "it is given up")
    assert not client.replies
