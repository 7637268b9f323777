"""The arena is full: producers wait in line, nobody else notices, and all of it comes back."""

import pytest

from kafkad.core.metrics.catalogue import ARENA_EXHAUSTED, ARENA_USED
from kafkad.processes.network.connections.connection_maintenance import STALL_MS
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Client, Pieces
from tests.tools.raw_requests import api_versions, batch, fetch, metadata, produce, read_fetched, read_produced

LARGEST = (1 << 20) - 200
"""Records that, with all that is around them, just make a legal request."""
NEVER_MS = 1 << 62


def _fill(pieces: Pieces, *, is_looked_at: bool = False, sent: int = 50_000) -> tuple[Client, bytes]:
    """A producer whose begun request has taken nearly everything; what is left of its request."""
    if not is_looked_at:
        pieces.network.maintenance.slow_requests.next_check_ms = NEVER_MS
    client = pieces.connect()
    request = produce({(TOPIC, 0): batch(1, LARGEST)}, correlation=7)
    client.send(request[:sent])
    pieces.settle()
    assert not pieces.has_empty_arena()
    return client, request[sent:]


def _error(body: bytes, partition: int = 0) -> int:
    return read_produced(body)[TOPIC, partition].error


def test_largest_request_fits_after_small_ones(pieces: Pieces) -> None:
    client, other = pieces.connect(), pieces.connect()
    assert _error(client.ask(produce({(TOPIC, 1): batch()})), 1) == 0
    assert _error(other.ask(produce({(TOPIC, 0): batch(1, LARGEST)}))) == 0
    assert pieces.has_empty_arena()


def test_full_arena_stops_no_fetch_and_no_metadata(pieces: Pieces) -> None:
    reader = pieces.connect()
    assert _error(reader.ask(produce({(TOPIC, 0): batch()}))) == 0
    _fill(pieces)
    starved = pieces.connect()
    starved.send(produce({(TOPIC, 0): batch(1, 100_000)}))
    pieces.settle()
    assert starved.replies == []
    assert read_fetched(reader.ask(fetch({(TOPIC, 0): 0})))[TOPIC, 0].records
    assert reader.ask(metadata([TOPIC]))
    assert pieces.connect().ask(api_versions())


def test_producers_that_wait_for_space_are_all_served(pieces: Pieces) -> None:
    first, rest = _fill(pieces)
    waiting = [pieces.connect() for _ in range(4)]
    sizes = (900_000, 90_000, 200_000, 500_000)
    for client, size in zip(waiting, sizes, strict=True):
        client.send(produce({(TOPIC, 0): batch(1, size)}))
        pieces.settle()
    assert [client.replies for client in waiting] == [[], [], [], []]
    first.send(rest)
    pieces.run(lambda: all(client.replies for client in waiting), "all have been served")
    offsets = [read_produced(client.replies[0][1])[TOPIC, 0].base_offset for client in waiting]
    assert sorted(offsets) == [1, 2, 3, 4]
    pieces.run(pieces.has_empty_arena, "everything is given back")
    assert pieces.network.clients.reader.space.used == 0


def test_small_producer_is_let_past_a_large_one_that_waits(pieces: Pieces) -> None:
    _fill(pieces)
    large, small = pieces.connect(), pieces.connect()
    large.send(produce({(TOPIC, 0): batch(1, LARGEST)}))
    pieces.settle()
    assert _error(small.ask(produce({(TOPIC, 0): batch()}))) == 0
    assert large.replies == []


def test_request_that_comes_slowly_leaves_the_arena_to_those_who_wait_and_goes_on(pieces: Pieces) -> None:
    slow, rest = _fill(pieces, is_looked_at=True)
    waiting = pieces.connect()
    assert _error(waiting.ask(produce({(TOPIC, 1): batch(1, 90_000)})), 1) == 0
    slow.send(rest)
    assert _error(slow.reply()) == 0
    pieces.run(pieces.has_empty_arena, "everything is given back")


def test_request_that_comes_slowly_is_given_up_where_there_is_no_room_for_it(pieces: Pieces) -> None:
    slow, _ = _fill(pieces, is_looked_at=True, sent=250_000)
    waiting = pieces.connect()
    assert _error(waiting.ask(produce({(TOPIC, 1): batch(1, 500_000)})), 1) == 0
    assert slow.is_closed
    pieces.run(pieces.has_empty_arena, "everything is given back")


def test_large_claims_hold_nobody_up(pieces: Pieces) -> None:
    claim = produce({(TOPIC, 0): batch(1, LARGEST)})[:17_000]
    clients = [pieces.connect() for _ in range(30)]
    for client in clients:
        client.send(claim)
        pieces.turn()
    other = pieces.connect()
    assert _error(other.ask(produce({(TOPIC, 1): batch(1, 100)})), 1) == 0
    assert _error(other.ask(produce({(TOPIC, 1): batch(1, 500_000)})), 1) == 0


def test_request_that_comes_slowly_is_taken_where_nobody_waits(pieces: Pieces) -> None:
    client = pieces.connect()
    request = produce({(TOPIC, 0): batch(1, 600_000)})
    for at in range(0, len(request), 20_000):
        client.send(request[at : at + 20_000])
        pieces.turn()
        assert not pieces.network.maintenance.slow_requests.is_requested
    assert _error(client.reply()) == 0


def test_connection_that_is_dropped_gives_its_space_to_those_who_wait(pieces: Pieces) -> None:
    greedy, _ = _fill(pieces)
    waiting = pieces.connect()
    waiting.send(produce({(TOPIC, 0): batch(1, LARGEST)}))
    pieces.settle()
    greedy.close()
    pieces.clients.remove(greedy)
    assert _error(waiting.reply()) == 0
    assert pieces.has_empty_arena()


def test_stalled_request_gives_its_space_to_those_who_wait(pieces: Pieces) -> None:
    _fill(pieces)
    waiting = pieces.connect()
    waiting.send(produce({(TOPIC, 0): batch(1, LARGEST)}))
    pieces.settle()
    pieces.network.clients.now_ms += STALL_MS
    pieces.network.maintenance.close_stalled(STALL_MS)
    assert _error(waiting.reply()) == 0


def test_who_waits_for_space_is_not_called_stalled(pieces: Pieces) -> None:
    _fill(pieces)
    waiting = pieces.connect()
    waiting.send(produce({(TOPIC, 0): batch(1, 500_000)}))
    pieces.settle()
    pieces.network.clients.now_ms += STALL_MS
    pieces.network.maintenance.close_stalled(STALL_MS)
    pieces.settle()
    assert not waiting.is_closed


def test_waiting_producer_that_goes_away_leaves_the_line(pieces: Pieces) -> None:
    first, rest = _fill(pieces)
    impatient, patient = pieces.connect(), pieces.connect()
    impatient.send(produce({(TOPIC, 0): batch(1, 500_000)}))
    pieces.settle()
    patient.send(produce({(TOPIC, 1): batch()}))
    pieces.settle()
    impatient.close()
    pieces.clients.remove(impatient)
    first.send(rest)
    assert _error(patient.reply(), 1) == 0
    pieces.run(lambda: len(pieces.network.clients) == 2, "the network process has noticed")
    assert pieces.has_empty_arena()


def test_connection_that_is_dropped_with_requests_in_flight_gives_everything_back(pieces: Pieces) -> None:
    client = pieces.connect()
    client.send(b"".join(produce({(TOPIC, 0): batch(1, 60_000)}, correlation=at) for at in range(10)))
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    client.close()
    pieces.clients.remove(client)
    pieces.run(lambda: len(pieces.network.clients) == 0, "the network process has noticed")
    pieces.run(pieces.has_empty_arena, "the worker has written what it was lent")
    assert pieces.published().leo_offset > 0


@pytest.mark.parametrize("is_reborn", [False, True])
def test_dead_worker_gives_everything_back_and_clients_are_told_to_retry(pieces: Pieces, is_reborn: bool) -> None:
    client = pieces.connect()
    client.send(produce({(TOPIC, 0): batch(1, 60_000)}))
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    pieces.kill(WORKER)
    if is_reborn:
        pieces.begin(WORKER)
    else:
        pieces.tell_roster()
    assert _error(client.reply()) == 7
    assert pieces.has_empty_arena()


def test_metrics_tell_how_much_is_lent_and_how_often_there_was_none(pieces: Pieces) -> None:
    block = pieces.shared.counters.block(pieces.registry.slot(NETWORK))
    client, rest = _fill(pieces)
    other = pieces.connect()
    other.send(produce({(TOPIC, 0): batch(1, 500_000)}))
    pieces.settle()
    assert block[ARENA_USED] >= LARGEST
    assert block[ARENA_EXHAUSTED] == 1
    client.send(rest)
    other.reply()
    pieces.settle()
    assert block[ARENA_USED] == 0
