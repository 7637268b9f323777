"""Requests start and replies leave in the order in which they were asked, whatever gets ready first."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from tests.amounts import amount
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Client, Pieces
from tests.tools.raw_requests import (
    api_versions,
    batch,
    fetch,
    metadata,
    produce,
    read_fetched,
    read_produced,
)

LONG_MS = 60_000


def _numbers(client: Client) -> list[int]:
    return [number for number, _ in client.replies]


def test_produce_requests_are_under_way_side_by_side(pieces: Pieces) -> None:
    client = pieces.connect()
    for number in range(3):
        client.send(produce({(TOPIC, 0): batch()}, correlation=number))
    pieces.turn(NETWORK)
    assert len(pieces.network.request_handlers.produce) == 3


def test_other_request_waits_until_the_produce_before_it_is_answered(pieces: Pieces) -> None:
    client = pieces.connect()
    client.send(produce({(TOPIC, 0): batch()}, correlation=1) + api_versions(correlation=2))
    pieces.turn(NETWORK)
    pieces.turn(NETWORK)
    client.pump()
    assert client.replies == []
    pieces.run(lambda: len(client.replies) == 2, "both are answered")
    assert _numbers(client) == [1, 2]


def test_produce_waits_until_the_fetch_before_it_is_answered(pieces: Pieces) -> None:
    client, other = pieces.connect(), pieces.connect()
    client.send(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS, correlation=1))
    client.send(produce({(TOPIC, 1): batch()}, correlation=2))
    pieces.settle()
    assert (client.replies, pieces.published(partition=1).leo_offset) == ([], 0)
    other.ask(produce({(TOPIC, 0): batch()}))
    pieces.run(lambda: len(client.replies) == 2, "both are answered")
    assert _numbers(client) == [1, 2]
    assert read_produced(client.replies[1][1])[TOPIC, 1] == (0, 0)


@pytest.mark.parametrize("sizes", [(10,), (100_000,), (10, 100_000)])
def test_request_behind_a_long_poll_holds_nothing_of_the_arena(pieces: Pieces, sizes: tuple[int, ...]) -> None:
    behind = b"".join(produce({(TOPIC, 1): batch(1, size)}) for size in sizes)
    clients = [pieces.connect() for _ in range(8)]
    for client in clients:
        client.send(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS) + behind)
    pieces.settle()
    assert pieces.has_empty_arena()
    pieces.connect().ask(produce({(TOPIC, 0): batch()}))
    pieces.run(lambda: all(len(client.replies) == 1 + len(sizes) for client in clients), "all are answered")


def test_batches_of_one_connection_and_partition_keep_their_order(pieces: Pieces) -> None:
    client = pieces.connect()
    sent = [batch(1, size) for size in (10, 40_000, 20, 90_000, 30)]
    client.send(b"".join(produce({(TOPIC, 0): each}, correlation=at) for at, each in enumerate(sent)))
    pieces.run(lambda: len(client.replies) == len(sent), "all are answered")
    assert [read_produced(body)[TOPIC, 0].base_offset for _, body in client.replies] == [0, 1, 2, 3, 4]
    client.replies.clear()
    records = read_fetched(client.ask(fetch({(TOPIC, 0): 0})))[TOPIC, 0].records
    assert len(records) == sum(map(len, sent))


REQUESTS = st.lists(
    st.sampled_from(["small", "large", "two", "nobody", "versions", "metadata", "fetch"]), min_size=1, max_size=12
)


def _request(kind: str, number: int) -> bytes:
    match kind:
        case "small":
            return produce({(TOPIC, 0): batch(2)}, correlation=number)
        case "large":
            return produce({(TOPIC, 1): batch(1, 70_000)}, correlation=number)
        case "two":
            return produce({(TOPIC, 0): batch(1)}, acks=-1, correlation=number)
        case "nobody":
            return produce({("unknown", 7): batch(1)}, correlation=number)
        case "versions":
            return api_versions(correlation=number)
        case "metadata":
            return metadata([TOPIC], correlation=number)
    return fetch({(TOPIC, 0): 0}, max_wait_ms=1, correlation=number)


@settings(max_examples=amount("stream_examples"), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    streams=st.lists(REQUESTS, min_size=1, max_size=3),
    cuts=st.lists(st.integers(1, 90_000), max_size=40),
    turns=st.lists(st.sampled_from([NETWORK, WORKER, None]), min_size=1, max_size=30),
)
def test_any_stream_cut_anywhere_is_answered_in_order_and_leaves_the_arena_empty(
    pieces: Pieces,
    streams: list[list[str]],
    cuts: list[int],
    turns: list[ProcessKey | None],
) -> None:
    clients = [pieces.connect() for _ in streams]
    unsent = [b"".join(_request(kind, at) for at, kind in enumerate(stream)) for stream in streams]
    for step, cut in enumerate(cuts):
        at = step % len(clients)
        clients[at].send(unsent[at][:cut])
        unsent[at] = unsent[at][cut:]
        who = turns[step % len(turns)]
        pieces.turn(who) if who is not None else pieces.turn()
    for client, rest in zip(clients, unsent, strict=True):
        client.send(rest)
    pieces.run(
        lambda: [len(client.replies) for client in clients] == [len(stream) for stream in streams],
        "every request is answered",
    )
    for client, stream in zip(clients, streams, strict=True):
        assert _numbers(client) == list(range(len(stream)))
        assert not client.is_closed
        client.close()
        pieces.clients.remove(client)
    pieces.run(lambda: len(pieces.network.clients) == 0, "the network process has noticed that they are gone")
    assert pieces.has_empty_arena()


def test_large_requests_that_wait_for_their_turn_are_answered_in_the_order_in_which_they_came(pieces: Pieces) -> None:
    client = pieces.connect()
    large = [metadata([TOPIC] * 300, correlation=number) for number in (1, 3, 4)]
    client.send(large[0] + api_versions(correlation=2) + large[1] + large[2] + api_versions(correlation=5))
    pieces.run(lambda: len(client.replies) == 5, "all are answered")
    assert _numbers(client) == [1, 2, 3, 4, 5]
