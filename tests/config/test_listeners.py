"""Listeners and what is advertised, table by table."""

import pytest

from kafkad.config.listeners import Endpoint, InvalidListeners, Listener, is_wildcard, parse_endpoint, parse_listeners

MAP = (
    "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT"
)


def parse(listeners: str, advertised: str | None = None, controllers: str = "") -> tuple[Listener, ...]:
    advertised_endpoints = advertised.split(",") if advertised is not None else None
    return parse_listeners(listeners.split(","), advertised_endpoints, MAP, controllers.split(",")).served


def parse_in_cluster(listeners: str, advertised: str | None) -> tuple[Listener, ...]:
    advertised_endpoints = advertised.split(",") if advertised is not None else None
    return parse_listeners(listeners.split(","), advertised_endpoints, MAP, host_name=lambda: "own.example").served


@pytest.mark.parametrize(
    ("text", "name", "host", "port"),
    [
        ("PLAINTEXT://127.0.0.1:9092", "PLAINTEXT", "127.0.0.1", 9092),
        ("PLAINTEXT://:9092", "PLAINTEXT", "", 9092),
        ("PLAINTEXT://0.0.0.0:0", "PLAINTEXT", "0.0.0.0", 0),
        ("PLAINTEXT://[::1]:9092", "PLAINTEXT", "::1", 9092),
        ("PLAINTEXT://::1:9092", "PLAINTEXT", "::1", 9092),
        ("inside://broker-1.example.org:1", "INSIDE", "broker-1.example.org", 1),
        ("PLAINTEXT://[fe80::1%eth0]:9092", "PLAINTEXT", "fe80::1%eth0", 9092),
    ],
)
def test_listener_is_parsed_as_kafka_does(text: str, name: str, host: str, port: int) -> None:
    (listener,) = parse(text)
    assert (listener.name, listener.host, listener.port) == (name, host, port)


@pytest.mark.parametrize(
    ("listeners", "advertised", "expected"),
    [
        ("PLAINTEXT://10.0.0.1:9092", None, ["10.0.0.1:9092"]),
        ("PLAINTEXT://:9092", None, ["own.example:9092"]),
        ("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://:19092", ["own.example:19092"]),
        ("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://kafka.example:19092", ["kafka.example:19092"]),
        ("PLAINTEXT://:9092,INSIDE://0.0.0.0:9093", "PLAINTEXT://a:1", ["a:1", "None"]),
    ],
)
def test_in_a_cluster_all_are_told_the_same(listeners: str, advertised: str | None, expected: list[str]) -> None:
    assert [str(each.advertised) for each in parse_in_cluster(listeners, advertised)] == expected


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
@pytest.mark.parametrize("advertised", [False, True])
def test_in_a_cluster_an_address_that_nobody_can_connect_to_is_refused(host: str, advertised: bool) -> None:
    """Other brokers would connect to themselves, and another one could not register it."""
    text = f"PLAINTEXT://{host}:9092"
    with pytest.raises(InvalidListeners, match="other brokers can't connect to"):
        parse_in_cluster(text, text if advertised else None)


@pytest.mark.parametrize(
    ("listeners", "advertised", "expected"),
    [
        ("PLAINTEXT://10.0.0.1:9092", None, Endpoint(host="10.0.0.1", port=9092)),
        ("PLAINTEXT://:9092", None, None),
        ("PLAINTEXT://0.0.0.0:9092", None, None),
        ("PLAINTEXT://[::]:9092", None, None),
        ("PLAINTEXT://:9092", "PLAINTEXT://kafka.example.org:19092", Endpoint(host="kafka.example.org", port=19092)),
        ("PLAINTEXT://:9092,INSIDE://:9093", "INSIDE://10.0.0.1:9093", None),
        ("PLAINTEXT://:9092", "PLAINTEXT://[2001:db8::1]:9092", Endpoint(host="2001:db8::1", port=9092)),
        ("PLAINTEXT://:9092", "PLAINTEXT://:9092", None),
    ],
)
def test_client_is_told_an_address_that_it_can_reach(
    listeners: str, advertised: str | None, expected: Endpoint | None
) -> None:
    assert parse(listeners, advertised)[0].advertised == expected


@pytest.mark.parametrize(
    ("listeners", "advertised", "reason"),
    [
        ("PLAINTEXT://:9092,plaintext://:9093", None, "unique name"),
        ("PLAINTEXT://:9092,INSIDE://:9092", None, "unique port"),
        ("PLAINTEXT://127.0.0.1:9092,INSIDE://127.0.0.2:9092", None, "unique port"),
        ("PLAINTEXT://127.0.0.1:9092,INSIDE://[::1]:9092,CONTROLLER://:9092", None, "unique port"),
        ("localhost:9092", None, "expected NAME://host:port"),
        ("PLAINTEXT://localhost", None, "expected NAME://host:port"),
        ("PLAINTEXT://local host:9092", None, "expected NAME://host:port"),
        ("PLAINTEXT://:70000", None, "between 0 and 65535"),
        ("PLAINTEXT://:-1", None, "between 0 and 65535"),
        ("OUTSIDE://:9092", None, "listener OUTSIDE has no security protocol"),
        ("SASL_SSL://:9092", None, "only PLAINTEXT is supported"),
        ("SSL://:9092", None, "only PLAINTEXT is supported"),
        ("PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092", "remove advertised.listeners"),
        ("PLAINTEXT://:9092", "PLAINTEXT://[::]:9092", "remove advertised.listeners"),
        ("PLAINTEXT://:9092", "INSIDE://a:9092", "not in listeners"),
        ("", None, "no listener for clients"),
    ],
)
def test_impossible_listeners_say_what_to_write(listeners: str, advertised: str | None, reason: str) -> None:
    with pytest.raises(InvalidListeners, match=reason):
        parse(listeners, advertised)


def test_one_port_may_serve_ipv4_and_ipv6() -> None:
    assert len(parse("PLAINTEXT://127.0.0.1:9092,INSIDE://[::1]:9092")) == 2


def test_listeners_of_controllers_are_left_out() -> None:
    found = parse_listeners(
        ["PLAINTEXT://:9092", "CONTROLLER://:9093"],
        ["PLAINTEXT://localhost:9092", "CONTROLLER://localhost:9093"],
        MAP,
        ["CONTROLLER"],
    )
    assert [listener.name for listener in found.served] == ["PLAINTEXT"]
    assert found.excluded == ("CONTROLLER",)


@pytest.mark.parametrize("protocol_map", ["PLAINTEXT", "PLAINTEXT:HTTP", ":"])
def test_protocol_map_needs_known_protocols(protocol_map: str) -> None:
    with pytest.raises(InvalidListeners, match=r"listener\.security\.protocol\.map"):
        parse_listeners(["PLAINTEXT://:9092"], None, protocol_map)


@pytest.mark.parametrize("text", ["127.0.0.1", "a:b", "a:70000", "a b:1", ""])
def test_endpoint_needs_host_and_port(text: str) -> None:
    with pytest.raises(InvalidListeners, match="expected host:port"):
        parse_endpoint(text)


def test_endpoint_prints_as_it_is_written() -> None:
    assert str(parse_endpoint("[::1]:80")) == "[::1]:80"
    assert str(parse_endpoint("example.org:80")) == "example.org:80"


@pytest.mark.parametrize(
    ("host", "expected"), [("", True), ("0.0.0.0", True), ("::", True), ("::1", False), ("a", False)]
)
def test_wildcards_are_recognised(host: str, expected: bool) -> None:
    assert is_wildcard(host) is expected
