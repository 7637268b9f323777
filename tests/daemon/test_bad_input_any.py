"""Requests of every API and version with anything in them, whole, broken or cut off: no process ends over one.

`fuzz_examples` of each version; the same ones come each time.
"""

import random
import socket
import struct
from collections.abc import Iterator
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

from bench.brokers.daemon import Kafkad
from kafkad.wire.api_table import APIS
from tests.amounts import amount

_EXAMPLES = amount("fuzz_examples")
_PATIENCE_S = 0.5
"""Some requests wait for something that will never come, and that is right."""

st.register_type_strategy(Records, st.binary(max_size=200).map(Records))


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
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    overrides = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
    with Kafkad(tmp_path_factory.mktemp("any"), overrides) as broker:
        yield broker


def _exchange(port: int, frame: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.settimeout(_PATIENCE_S)
        try:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            connection.recv(4096)
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            return


def _spoiled(body: bytes, random_source: random.Random) -> bytes:
    """As it is, with some bytes changed, or cut off."""
    changed = bytearray(body)
    if changed and random_source.random() < 0.4:
        for _ in range(random_source.randint(1, 3)):
            changed[random_source.randrange(len(changed))] = random_source.randrange(256)
    if random_source.random() < 0.1:
        del changed[random_source.randrange(len(changed) + 1) :]
    return bytes(changed)


def _send_some(port: int, message: Any, key: int, version: int) -> None:
    tags = b"\0" if version >= APIS[key].flexible_from else b""
    head = struct.pack(">hhih", key, version, 7, 4) + b"fuzz" + tags

    @seed(key * 100 + version)
    @settings(
        max_examples=_EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.from_type(message), st.randoms(use_true_random=False))
    def send(request: Any, random_source: random.Random) -> None:
        body = BytesIO()
        entity_writer(message)(body, request)
        _exchange(port, head + _spoiled(body.getvalue(), random_source))

    send()


@pytest.mark.timeout(600 + 20 * _EXAMPLES)
@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: APIS[key].name)
def test_no_process_ends_over_what_a_request_says(broker: Kafkad, key: int) -> None:
    api, classes = APIS[key], _request_classes()
    for version in range(api.min_version, api.max_version + 1):
        _send_some(broker.port, classes[key, version], key, version)
    said = broker.output.read_text()
    assert "this should not happen" not in said, said[said.index("this should not happen") :][:3_000]
