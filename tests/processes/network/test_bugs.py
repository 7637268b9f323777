"""A bug that a request meets in a network process: its connection is closed with one line, and the process goes on.

A handler that fails stands in for the bug.
"""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from kafkad.handlers.fetch import FetchEvaluator
from kafkad.handlers.produce import ProduceInFlight
from kafkad.handlers.requests.apis_of_network import LOCAL
from kafkad.handlers.requests.steps import Pause
from kafkad.processes.network import produce_requests
from kafkad.processes.network.fetch_watches import FetchWatches
from kafkad.wire.api_table import DESCRIBE_CLUSTER
from tests.processes.pieces import TOPIC, Client, Pieces
from tests.tools.raw_requests import batch, fetch, framed, metadata, produce, read_fetched, read_produced

LONG_MS = 600_000
BUG = "ZeroDivisionError: a bug"
DESCRIBE = framed(DESCRIBE_CLUSTER, 0, b"\0\0\0")


def _fail(*_: Any, **__: Any) -> NoReturn:
    raise ZeroDivisionError("a bug")


def _fail_later(*_: Any) -> Iterator[Pause]:
    yield Pause.TURN
    _fail()


def _ends(pieces: Pieces, client: Client, caplog: pytest.LogCaptureFixture, api: str) -> None:
    """Its connection does, with the one line; others are served."""
    pieces.run(lambda: client.is_closed, "its connection is closed")
    assert not client.replies
    (line,) = caplog.messages
    assert line.startswith(f"closing the connection from {client.name}: {api} failed: {BUG} (")
    assert f"{__file__}:" in line
    assert pieces.connect().ask(metadata([TOPIC]))


@pytest.mark.parametrize("handler", [_fail, _fail_later])
def test_request_that_is_answered_here(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, handler: Callable[..., Any]
) -> None:
    monkeypatch.setitem(LOCAL, DESCRIBE_CLUSTER, handler)
    client = pieces.connect()
    client.send(DESCRIBE)
    _ends(pieces, client, caplog, "DescribeCluster (version 0)")


def test_lines_are_limited_as_those_about_bad_requests(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(LOCAL, DESCRIBE_CLUSTER, _fail)
    clients = [pieces.connect() for _ in range(5)]
    for client in clients:
        client.send(DESCRIBE)
    pieces.run(lambda: all(client.is_closed for client in clients), "their connections are closed")
    assert len(caplog.messages) == 1


@pytest.mark.interpreted
@pytest.mark.parametrize("partitions", [1, 1_000], ids=["small", "in steps"])
@pytest.mark.parametrize("method", ["measure", "add_to_response"])
def test_fetch(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str, partitions: int
) -> None:
    client = pieces.connect()
    client.ask(produce({(TOPIC, 0): batch()}))
    with monkeypatch.context() as failing:
        failing.setattr(FetchEvaluator, method, _fail)
        client.send(fetch({(TOPIC, partition): 0 for partition in range(partitions)}))
        _ends(pieces, client, caplog, "Fetch (version 4)")
    _left_nothing(pieces)


@pytest.mark.interpreted
def test_fetch_that_waits(pieces: Pieces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    client, producer = pieces.connect(), pieces.connect()
    client.send(fetch({(TOPIC, 0): 0}, max_wait_ms=LONG_MS))
    pieces.settle()
    with monkeypatch.context() as failing:
        failing.setattr(FetchEvaluator, "measure", _fail)
        producer.ask(produce({(TOPIC, 0): batch()}))
        _ends(pieces, client, caplog, "Fetch (version 4)")
    _left_nothing(pieces)


def _left_nothing(pieces: Pieces) -> None:
    """Of the fetch that failed; another one is answered."""
    handler = pieces.network.request_handlers.fetch
    assert (len(handler), handler.held_bytes) == (0, 0)
    watches: FetchWatches = handler.watches
    assert watches.interested == {}
    assert read_fetched(pieces.connect().ask(fetch({(TOPIC, 0): 0})))[TOPIC, 0].records


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("owner", "name", "is_written"), [(produce_requests, "plan", False), (ProduceInFlight, "reply", True)]
)
def test_produce_gives_its_place_in_the_arena_back(
    pieces: Pieces,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: object,
    name: str,
    is_written: bool,
) -> None:
    client = pieces.connect()
    with monkeypatch.context() as failing:
        failing.setattr(owner, name, _fail)
        client.send(produce({(TOPIC, 0): batch()}))
        _ends(pieces, client, caplog, "Produce (version 7)")
    assert pieces.has_empty_arena()
    assert read_produced(pieces.connect().ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].base_offset == is_written
