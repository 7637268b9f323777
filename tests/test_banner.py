"""What the first lines of a broker say, and what they warn of."""

import pytest

from kafkad.banner import Ready, banner, exposed
from kafkad.config import Endpoint, load


@pytest.mark.parametrize(
    ("settings", "advertised"),
    [
        ([], "127.0.0.1:45678"),
        ([("advertised.listeners", "PLAINTEXT://kafka.example:0")], "kafka.example:45678"),
        ([("advertised.listeners", "PLAINTEXT://kafka.example:9092")], "kafka.example:9092"),
    ],
)
def test_banner_names_the_port_that_the_system_chose(settings: list[tuple[str, str]], advertised: str) -> None:
    config = load(None, [("listeners", "PLAINTEXT://127.0.0.1:0"), *settings])
    ready = Ready(config=config, endpoints=(Endpoint(host="127.0.0.1", port=45678),), ready_s=0.5)
    lines = banner(ready, is_for_terminal=False).splitlines()
    assert lines[1:3] == ["  listens on  127.0.0.1:45678 (PLAINTEXT)", f"  advertises  {advertised}"]


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
