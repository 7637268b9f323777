"""What the first lines of a broker warn of."""

import pytest

from kafkad.banner import exposed
from kafkad.config import load


@pytest.mark.parametrize(("listeners", "exposed_places"), [
    ("PLAINTEXT://127.0.0.1:9092", []),
    ("PLAINTEXT://localhost:9092", []),
    ("PLAINTEXT://[::1]:9092", []),
    ("PLAINTEXT://:9092", [":9092"]),
    ("PLAINTEXT://0.0.0.0:9092", ["0.0.0.0:9092"]),
    ("PLAINTEXT://127.0.0.1:9092,OUTSIDE://192.0.2.1:9093", ["192.0.2.1:9093"]),
])  # fmt: skip
def test_listener_that_strangers_reach_is_warned_of(listeners: str, exposed_places: list[str]) -> None:
    protocols = "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT"
    config = load(None, [("listeners", listeners), ("listener.security.protocol.map", protocols)])
    assert [line.split()[3] for line in exposed(config)] == exposed_places
