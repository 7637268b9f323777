"""Large requests that are not received into the arena: claims cost nothing, and what came in is bounded."""

from collections.abc import Callable

import pytest

from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.connections.connection_maintenance import STALL_MS
from kafkad.processes.network.connections.request_memory import FIRST_STEP_BYTES, RequestMemory, next_step
from tests.processes.pieces import TOPIC, Client, Pieces
from tests.tools.raw_requests import api_versions, batch, create_topic, metadata, produce

LIMIT = 1 << 20
LARGE = metadata([TOPIC, *("/" * 30_000 for _ in range(20))])
"""Some 600 KB, answered with two topics."""


@pytest.fixture
def bounded(make_pieces: Callable[..., Pieces]) -> Pieces:
    return make_pieces(queued_max_request_bytes=str(LIMIT))


def _begun(pieces: Pieces, request: bytes = LARGE) -> Client:
    """A client that has sent all of its request but the last byte."""
    client = pieces.connect()
    client.send(request[:-1])
    pieces.run(lambda: client.is_sent or pieces.network.clients.reader.space.crowded, "it is taken or has to wait")
    pieces.settle()
    return client


def test_claimed_lengths_take_no_memory(bounded: Pieces) -> None:
    for _ in range(40):
        bounded.connect().send(LARGE[:200])
    bounded.settle()
    space = bounded.network.clients.reader.space
    assert space.used == 40 * FIRST_STEP_BYTES < LIMIT
    assert not space.crowded


def test_requests_beyond_the_limit_wait_in_line_and_all_are_served(bounded: Pieces) -> None:
    space = bounded.network.clients.reader.space
    clients = [_begun(bounded) for _ in range(5)]
    assert len(space.crowded) == 3
    assert space.used <= LIMIT + len(LARGE)
    assert bounded.connect().ask(api_versions())
    for client in clients:
        client.send(LARGE[-1:])
    bounded.run(lambda: all(client.replies for client in clients), "all of them are answered")
    assert (space.used, len(space.crowded)) == (0, 0)


def test_who_waits_in_line_and_leaves_is_forgotten(bounded: Pieces) -> None:
    space = bounded.network.clients.reader.space
    clients = [_begun(bounded) for _ in range(4)]
    for client in clients:
        client.close()
        bounded.clients.remove(client)
    bounded.run(lambda: not len(bounded.network.clients), "they are noticed to be gone")
    assert (space.used, len(space.crowded)) == (0, 0)
    patient = bounded.connect()
    assert patient.ask(LARGE)


def test_who_stops_in_the_middle_gives_its_place_to_the_next(bounded: Pieces) -> None:
    clients = [_begun(bounded) for _ in range(3)]
    last = clients[-1]
    last.send(LARGE[-1:])
    bounded.settle()
    assert not last.replies
    bounded.network.clients.now_ms += STALL_MS
    bounded.network.maintenance.close_stalled(STALL_MS)
    bounded.run(lambda: last.replies, "the one that waited is served")
    assert not last.is_closed


def test_who_comes_slowly_gives_its_place_to_those_who_wait(bounded: Pieces) -> None:
    clients = [_begun(bounded) for _ in range(3)]
    last = clients[-1]
    last.send(LARGE[-1:])
    bounded.run(lambda: last.replies, "the one that waited is served")
    assert not last.is_closed


def test_beginnings_of_small_requests_count(bounded: Pieces) -> None:
    """Each too short to be received by itself; together they are more than there may be."""
    begun = produce({(TOPIC, 0): batch(1, 16_000)})[:-1]
    clients = [bounded.connect() for _ in range(LIMIT // len(begun) + 2)]
    for client in clients:
        client.send(begun)
        bounded.turn()
    bounded.run(lambda: any(client.is_closed for client in clients), "some are closed")
    bounded.run(lambda: not bounded.network.maintenance.slow_requests.is_requested, "there is room again")
    assert bounded.network.clients.reader.space.used <= LIMIT
    patient = bounded.connect()
    assert patient.ask(LARGE)


def test_what_the_controller_has_not_answered_counts(bounded: Pieces) -> None:
    """The played controller answers nothing."""
    waiting = bounded.connect()
    waiting.send(create_topic("x" * 30_000))
    bounded.settle()
    held = bounded.network.request_handlers.controller.held_bytes
    assert held > 30_000
    space = RequestMemory(held + 100, lambda: held)
    first, second = (bounded.network.clients.get(fd) for fd in _descriptors(bounded, 2))
    assert isinstance(first, Connection) and isinstance(second, Connection)
    assert space.grow(first, 100)
    assert space.grow(first, 200), "one goes on whatever there is"
    assert not space.grow(second, 1)


def _descriptors(pieces: Pieces, count: int) -> list[int]:
    before = set(pieces.network.clients._by_fd)
    for _ in range(count):
        pieces.connect()
    return list(set(pieces.network.clients._by_fd) - before)


@pytest.mark.parametrize(("got", "total", "room"), [(0, 10**8, 16384), (200, 300, 300), (50_000, 10**8, 100_000)])
def test_room_grows_with_what_has_arrived(got: int, total: int, room: int) -> None:
    assert next_step(got, total) == room


def test_of_many_large_requests_few_are_begun_at_once_and_all_are_answered(make_pieces: Callable[..., Pieces]) -> None:
    pieces = make_pieces(queued_max_request_bytes=str(8 << 20))
    request = metadata([TOPIC, *(f"{number:04}/" * 12 for number in range(8_000))])
    clients = [pieces.connect() for _ in range(6)]
    for client in clients:
        client.send(request)
    answers, begun = pieces.network.request_handlers.responses, 0

    def all_answered() -> bool:
        nonlocal begun
        begun = max(begun, answers.held_bytes)
        return all(client.replies for client in clients)

    pieces.run(all_answered, "all of them are answered")
    assert begun > 2 * len(request)
    assert answers.held_bytes == 0


def test_large_requests_of_clients_that_leave_are_forgotten(make_pieces: Callable[..., Pieces]) -> None:
    pieces = make_pieces(queued_max_request_bytes=str(8 << 20))
    request = metadata([TOPIC, *(f"{number:04}/" * 12 for number in range(8_000))])
    answers = pieces.network.request_handlers.responses
    clients = [pieces.connect() for _ in range(6)]
    for client in clients:
        client.send(request)
    pieces.run(lambda: answers.held_bytes > 2 * len(request), "they are in work")
    for client in clients:
        client.close()
        pieces.clients.remove(client)
    pieces.run(lambda: not answers.held_bytes, "nothing is held of them")
    assert pieces.connect().ask(api_versions())
