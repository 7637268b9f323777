"""Limited clients of a real broker: no faster than they may be, told so, and in nobody else's way.

Real, for client libraries that are told, and for processes that count together. That nobody is slowed down too much is
in tests/plugins/test_client_quotas.py: here the machine may be slow. One broker for all.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, ThrottleEvent, TopicPartition

from bench.brokers.processes import WITHIN_S
from kafkad.client.broker_client import BrokerClient
from tests.tools import raw_requests as raw
from tests.tools.measured import MeasuredBroker

RATE = 1_000_000
AT_FULL_SPEED_S = 6.0
VALUE = bytes(10_000)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredBroker]:
    overrides = {
        "num.network.threads": "2",
        # Kafka's default lets a client have ten seconds' worth at once: too long to wait for here.
        "quota.window.num": "2",
        "kafkad.quota.client.slow.producer_byte_rate": str(RATE),
        "kafkad.quota.client.slow.consumer_byte_rate": str(RATE),
        "kafkad.quota.client.raw.producer_byte_rate": str(RATE),
    }
    with MeasuredBroker(tmp_path_factory.mktemp("broker"), overrides) as running:
        with BrokerClient(running.bootstrap) as client:
            client.create_topic("limited", partitions=1, replication_factor=1, configs={})
        yield running


def produce(broker: MeasuredBroker, client_id: str, total: int) -> tuple[float, list[ThrottleEvent]]:
    """Seconds that it took to produce `total` bytes, and what the client was told."""
    told: list[ThrottleEvent] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "throttle_cb": told.append,
            "batch.size": 100_000,
            "linger.ms": 5,
        }
    )
    began = time.monotonic()
    for _ in range(total // len(VALUE)):
        producer.produce("limited", VALUE)
    assert producer.flush(WITHIN_S) == 0
    took = time.monotonic() - began
    return took, told


def consume(broker: MeasuredBroker, client_id: str, count: int) -> tuple[float, list[ThrottleEvent]]:
    """Seconds that it took to read `count` records from the beginning, and what the client was told."""
    told: list[ThrottleEvent] = []
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "group.id": "none",
            "enable.auto.commit": False,
            "throttle_cb": told.append,
        }
    )
    consumer.assign([TopicPartition("limited", 0, 0)])
    began = time.monotonic()
    offsets: list[int] = []
    while len(offsets) < count:
        offsets += [message.offset() or 0 for message in consumer.consume(100, 30)]
    took = time.monotonic() - began
    consumer.close()
    assert offsets == list(range(count))
    return took, told


def test_a_producer_is_slowed_down_to_its_rate_and_told_so_and_another_is_not(broker: MeasuredBroker) -> None:
    slow: list[tuple[float, list[ThrottleEvent]]] = []
    limited = threading.Thread(target=lambda: slow.append(produce(broker, "slow", 5 * RATE)))
    limited.start()
    _, told = produce(broker, "quick", 5 * RATE)
    assert told == []
    limited.join()
    ((took, told),) = slow
    assert 5 * RATE / took < 1.5 * RATE
    assert any(event.throttle_time > 0 for event in told)
    assert broker.page.value("kafkad_quota_throttled_requests_total") > 0


def test_a_consumer_is_slowed_down_to_its_rate_and_told_so(broker: MeasuredBroker) -> None:
    produce(broker, "quick", 5 * RATE)
    took, told = consume(broker, "slow", 5 * RATE // len(VALUE))
    assert 5 * RATE / took < 1.5 * RATE
    assert any(event.throttle_time > 0 for event in told)
    _, quick_told = consume(broker, "quick", 5 * RATE // len(VALUE))
    assert quick_told == []


def sockets_of_network_processes(broker: MeasuredBroker) -> list[int]:
    """How many sockets each network process has open."""
    processes = [process for process in broker.tree() if process.name.startswith("network-")]
    links = [[os.readlink(entry) for entry in Path(f"/proc/{each.pid}/fd").iterdir()] for each in processes]
    return [sum(link.startswith("socket:") for link in each) for each in links]


def test_connections_of_one_client_share_its_rate_whichever_process_they_are_at(broker: MeasuredBroker) -> None:
    request = raw.produce({("limited", 0): raw.batch(size=50_000)})
    before = sockets_of_network_processes(broker)
    with ExitStack() as stack:
        clients = [stack.enter_context(raw.RawClient(broker.port)) for _ in range(4)]
        for client in clients:
            client.ask(raw.api_versions())
        after = sockets_of_network_processes(broker)
        assert all(more > fewer for more, fewer in zip(after, before, strict=True)), "each has some of the connections"
        sent, seconds = at_full_speed(clients, request)
    # A second's worth of its own for each process at the beginning; apart, each would go on at RATE.
    assert sum(sent) / seconds < 1.6 * RATE


def at_full_speed(clients: list[raw.RawClient], request: bytes) -> tuple[list[int], float]:
    """What each client could send in so many seconds, one request after the other."""
    sent = [0] * len(clients)
    began = time.monotonic()

    def load(number: int) -> None:
        while time.monotonic() < began + AT_FULL_SPEED_S:
            clients[number].ask(request)
            sent[number] += len(request)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sent, time.monotonic() - began
