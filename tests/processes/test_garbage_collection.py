"""The garbage collector walks through all there is hardly ever: nothing that a process does for clients needs it."""

import gc
import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from kafkad.processes.runtime.child import COLLECTION_THRESHOLDS
from tests.processes.pieces import NETWORK, TOPIC, Client, Pieces
from tests.simulation.requests import fetch
from tests.tools.raw_requests import batch, framed, produce

OLDEST = 2


@pytest.fixture
def collector() -> Iterator[None]:
    """As it is in a process of the broker, and as it was afterwards."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def _large(rows: int) -> bytes:
    partitions = {(f"none-{number}", 0): 0 for number in range(rows)}
    return fetch(partitions, 1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session=0, epoch=0)


def test_large_requests_do_not_have_everything_walked_through(pieces: Pieces, collector: None) -> None:
    clients = [pieces.connect() for _ in range(5)]
    generations: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            generations.append(info["generation"])

    gc.callbacks.append(note)
    try:
        for client in clients:
            client.send(_large(9_000))
        for client in clients:
            client.reply()
    finally:
        gc.callbacks.remove(note)
    assert generations
    assert OLDEST not in generations


def _lost(pieces: Pieces, client: Client) -> None:
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    _forget(pieces, client)
    pieces.run(lambda: not len(pieces.network.clients), "the connection is gone")


def _forget(pieces: Pieces, client: Client) -> None:
    pieces.clients.remove(client)
    client.close()


def _is_served(pieces: Pieces) -> None:
    client = pieces.connect()
    client.ask(produce({(TOPIC, 0): batch(), ("none", 0): batch()}))
    client.ask(_large(500))
    _lost(pieces, client)


def _is_refused(pieces: Pieces) -> None:
    client = pieces.connect()
    client.send(framed(0, 9, b"\xff\xff\xff"))
    pieces.run(lambda: client.is_closed, "it is malformed")
    _forget(pieces, client)


def _waits(pieces: Pieces) -> None:
    client = pieces.connect()
    client.send(fetch({(TOPIC, 1): 0}, 1, max_wait_ms=60_000, min_bytes=1, max_bytes=1, session=0, epoch=0))
    pieces.turn(NETWORK)
    _lost(pieces, client)


@pytest.mark.parametrize("happens", [_is_served, _is_refused, _waits])
def test_client_leaves_nothing_that_only_the_collector_finds(pieces: Pieces, happens: Callable[[Pieces], None]) -> None:
    # What is made once, at the first request, may have cycles.
    happens(pieces)
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            happens(pieces)
        assert gc.collect() == 0
    finally:
        gc.enable()
