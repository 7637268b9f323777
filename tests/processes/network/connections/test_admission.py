"""Limits on connections are for clients: brokers connect to a listener of their own at any time."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes.fetcher.two_brokers import Broker
from tests.processes.pieces import Client
from tests.tools.raw_requests import api_versions

Start = Callable[[dict[str, str]], Broker]
APART = {
    "listeners": "PLAINTEXT://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    brokers: list[Broker] = []

    def started(settings: dict[str, str]) -> Broker:
        brokers.append(Broker(tmp_path, 1, settings))
        brokers[0].start()
        return brokers[0]

    yield started
    for broker in brokers:
        broker.close()


def _at(broker: Broker, port: int) -> Client:
    client = Client(broker, socket.create_connection(("127.0.0.1", port)))
    broker.clients.append(client)
    return client


def _from_a_broker(broker: Broker) -> Client:
    assert broker.resources is not None
    return _at(broker, broker.resources.endpoints[-1].port)


def test_broker_takes_the_place_of_the_client_that_was_idle_for_longest(start: Start) -> None:
    broker = start({**APART, "max.connections": "2"})
    idle, used = broker.connect(), broker.connect()
    assert idle.ask(api_versions()) and used.ask(api_versions())
    assert _from_a_broker(broker).ask(api_versions())
    broker.run(lambda: idle.is_closed, "the idle client is closed")
    assert used.ask(api_versions())
    late = _at(broker, broker.port)
    broker.run(lambda: late.is_closed, "a further client is turned away")


def test_brokers_are_accepted_when_no_client_has_a_place_to_lose(start: Start) -> None:
    broker = start({**APART, "max.connections": "0"})
    first, second = _from_a_broker(broker), _from_a_broker(broker)
    assert first.ask(api_versions()) and second.ask(api_versions())


def test_brokers_do_not_wait_for_the_creation_rate_of_clients(start: Start) -> None:
    broker = start({**APART, "max.connection.creation.rate": "0"})
    assert _from_a_broker(broker).ask(api_versions())


@pytest.mark.parametrize("settings", [{}, {**APART, "max.connections.per.ip": "1"}], ids=["one listener", "per ip"])
def test_where_clients_connect_too_and_from_one_address_limits_hold(start: Start, settings: dict[str, str]) -> None:
    broker = start({"max.connections": "1", **settings})
    assert broker.connect().ask(api_versions())
    late = _from_a_broker(broker)
    broker.run(lambda: late.is_closed, "it is turned away")
