"""Requests of every API and version with anything in them, whole, broken or cut off: no process ends over one.

It needs real processes, as it is about processes that go on. What each bad request is answered is shown by the tests of
its handler, and in tests/processes/network/test_foreign_protocols.py.

`fuzz_examples` of each version; the same ones come each time.
"""

import random
import selectors
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import kio.schema
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from kio.serial import entity_writer
from kio.static.primitive import Records

from bench.brokers.processes import eventually
from kafkad.wire.api_table import APIS
from tests.amounts import amount
from tests.daemon.served import Served
from tests.tools.raw_requests import api_versions, batch, fetch, metadata, produce

_EXAMPLES = amount("fuzz_examples")
_PATIENCE_S = 0.5
"""Some requests wait for something that will never come, and that is right: those of one version wait together."""

st.register_type_strategy(Records, st.binary(max_size=200).map(Records))


@cache
def _request_classes() -> dict[tuple[int, int], Any]:
    """kio's request classes by API key and version."""
    found = {}
    for path in Path(kio.schema.__file__).parent.glob("*/v*/request.py"):
        module = import_module(f"kio.schema.{path.parent.parent.name}.{path.parent.name}.request")
        for name, each in vars(module).items():
            if name.endswith("Request") and hasattr(each, "__api_key__"):
                found[int(each.__api_key__), int(each.__version__)] = each
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    overrides = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
    with Served(tmp_path_factory.mktemp("any"), overrides) as broker:
        yield broker


def _exchange(served: Served, frames: list[bytes]) -> None:
    """Each on a connection of its own, which is read until there is something, or nothing for too long."""
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for frame in frames:
            client = stack.enter_context(served.connect())
            with suppress(ConnectionError):
                client.sock.sendall(struct.pack(">i", len(frame)) + frame)
                selector.register(client.sock, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(_PATIENCE_S)
            if not ready:
                return
            for key, _ in ready:
                selector.unregister(key.fileobj)


def _spoiled(body: bytes, random_source: random.Random) -> bytes:
    """As it is, with some bytes changed, or cut off."""
    changed = bytearray(body)
    if changed and random_source.random() < 0.4:
        for _ in range(random_source.randint(1, 3)):
            changed[random_source.randrange(len(changed))] = random_source.randrange(256)
    if random_source.random() < 0.1:
        del changed[random_source.randrange(len(changed) + 1) :]
    return bytes(changed)


def _send_some(served: Served, message: Any, key: int, version: int) -> None:
    tags = b"\0" if version >= APIS[key].flexible_from else b""
    frames: list[bytes] = []
    head = struct.pack(">hhih", key, version, 7, 4) + b"fuzz" + tags

    @seed(key * 100 + version)
    @settings(
        max_examples=_EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.from_type(message), st.randoms(use_true_random=False))
    def make(request: Any, random_source: random.Random) -> None:
        body = BytesIO()
        entity_writer(message)(body, request)
        frames.append(head + _spoiled(body.getvalue(), random_source))

    make()
    _exchange(served, frames)


@pytest.mark.timeout(900 + 60 * _EXAMPLES)
@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: APIS[key].name)
def test_no_process_ends_over_what_a_request_says(served: Served, key: int) -> None:
    api, classes = APIS[key], _request_classes()
    for version in range(api.min_version, api.max_version + 1):
        _send_some(served, classes[key, version], key, version)
    eventually(served.is_serving, what="somebody else is served")
    said = served.broker.output.read_text()
    assert "exiting: unexpected error" not in said, said[said.index("exiting: unexpected error") :][:3_000]


def test_random_bytes_end_no_process(served: Served) -> None:
    before = [each.pid for each in served.broker.tree()]
    random_source = random.Random(4)
    for _ in range(200):
        with served.connect() as client, suppress(ConnectionError):
            client.send(random_source.randbytes(random_source.choice([1, 4, 60, 3_000])))
    served.leaves_nothing_behind()
    assert [each.pid for each in served.broker.tree()] == before


def test_mutated_requests_end_no_process(served: Served) -> None:
    """Every byte of real requests, replaced: whatever the codecs make of it, it costs one connection at most."""
    before = [each.pid for each in served.broker.tree()]
    random_source = random.Random(5)
    requests = [produce({("t", 0): batch()}), fetch({("t", 0): 0}), metadata(["t"]), api_versions(3)]
    for request in requests:
        for at in range(4, len(request)):
            mutated = bytearray(request)
            mutated[at] = random_source.choice([0, 1, 0x7F, 0x80, 0xFF])
            with served.connect() as client, suppress(ConnectionError):
                client.send(bytes(mutated))
    served.leaves_nothing_behind()
    assert [each.pid for each in served.broker.tree()] == before
