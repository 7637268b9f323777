"""A pass in which nothing is due and no connection waits leaves the rest of a network process alone; nobody is late."""

import pytest

from tests.processes.pieces import NETWORK, TOPIC, Pieces
from tests.tools.raw_requests import batch, produce, read_produced


def _append(pieces: Pieces) -> None:
    client = pieces.clients[0] if pieces.clients else pieces.connect()
    assert read_produced(client.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0


def test_a_pass_with_small_requests_looks_after_no_connection(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    _append(pieces)
    pieces.settle()
    looks: list[int] = []
    monkeypatch.setattr(pieces.network.maintenance, "tick", looks.append)
    _append(pieces)
    assert not looks


def test_a_request_that_has_begun_is_looked_after_from_then_on(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pieces.connect()
    pieces.settle()
    assert pieces.network.maintenance.is_calm
    looks: list[int] = []
    monkeypatch.setattr(pieces.network.maintenance, "tick", looks.append)
    client.send(produce({(TOPIC, 0): batch()})[:20])
    pieces.turn(NETWORK)
    assert not pieces.network.maintenance.is_calm
    assert looks


def test_what_is_due_is_done_though_requests_come_all_the_time(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    _append(pieces)
    limits: list[int] = []
    monkeypatch.setattr(pieces.network.maintenance, "close_idle", limits.append)
    pieces.network.maintenance.set_max_idle(10_000, pieces.network._now_ms - 10_000)
    _append(pieces)
    assert limits == [10_000]
