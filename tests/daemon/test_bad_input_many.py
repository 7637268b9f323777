"""Requests with millions of elements, of every API, sent to a real broker: nobody else waits for them, nothing ends.

It needs real processes, as others are served while one of them is busy.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

import pytest

from kafkad.wire.api_table import API_VERSIONS, APIS
from tests.daemon.served import Served
from tests.tools.raw_requests import RawClient, api_versions, batch, heartbeat, produce, read_produced
from tests.wire.test_request_limits import arrays_of, request_of, smallest

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("broker")
    with Served(folder, {"num.network.threads": "1", "num.io.threads": "1"}) as broker:
        yield broker


def requests_of(size: int) -> Iterator[bytes]:
    """One for each array of each API, of about `size` bytes."""
    for key, api in APIS.items():
        if key == API_VERSIONS:
            continue
        request = request_of(key, api.max_version)
        for way in arrays_of(request):
            one = len(smallest(request, way, 2)) - len(smallest(request, way, 1))
            body = smallest(request, way, size // one)
            head = struct.pack(">hhih", key, api.max_version, 1, 1) + b"c"
            if api.flexible_from <= api.max_version:
                head += b"\0"
            yield struct.pack(">i", len(head) + len(body)) + head + body


def flood(served: Served, size: int, is_over: Event) -> None:
    """Send all of them, each on a connection of its own."""
    try:
        for request in requests_of(size):
            with served.connect() as client, suppress(ConnectionError, TimeoutError):
                client.sock.settimeout(30)
                client.send(request)
                client.reply()
    finally:
        is_over.set()


def ask_everybody(client: RawClient) -> None:
    """The network process, a worker as the owner of a partition, and as a coordinator."""
    assert client.ask(api_versions())
    assert read_produced(client.ask(produce({("t", 0): batch()})))["t", 0].error == 0
    assert client.ask(heartbeat("group"))


@pytest.mark.parametrize("size", [MEGABYTE // 2, 10 * MEGABYTE])
def test_requests_with_very_many_elements_hold_up_nobody(served: Served, size: int) -> None:
    before = {each.pid for each in served.broker.tree()}
    is_over = Event()
    flooding = Thread(target=flood, args=(served, size, is_over))
    flooding.start()
    asked = 0
    with served.connect() as client:
        while not is_over.is_set() or not asked:
            ask_everybody(client)
            asked += 1
    flooding.join()
    served.leaves_nothing_behind()
    assert {each.pid for each in served.broker.tree()} == before


def test_a_crowd_of_connections_with_many_elements_hold_up_nobody(served: Served) -> None:
    """One step of all of them is what a pass takes, not one of each."""
    request = request_of(3, 1)
    body = smallest(request, ("topics",), 60_000)
    head = struct.pack(">hhih", 3, 1, 1, 1) + b"c"
    whole = struct.pack(">i", len(head) + len(body)) + head + body
    before = {each.pid for each in served.broker.tree()}
    crowd = [served.connect() for _ in range(20)]
    try:
        for each in crowd:
            each.send(whole)
        with served.connect() as client:
            ask_everybody(client)
        assert all(each.reply() for each in crowd)
    finally:
        for each in crowd:
            each.sock.close()
    assert {each.pid for each in served.broker.tree()} == before
