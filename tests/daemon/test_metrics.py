"""The metrics page of a real broker, held against what real clients have sent to it and got from it.

Real, as the counters of all its processes are one page, which another process serves. One broker for all: what it has
counted before is subtracted.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually
from kafkad.client.broker_client import BrokerClient
from kafkad.core.errors import ErrorCode
from tests.tools import raw_requests as raw
from tests.tools.measured import MeasuredBroker

TOPICS = "kafka_server_brokertopicmetrics"
REQUESTS = "kafka_network_requestmetrics"
CONNECTIONS = "kafka_server_socketservermetrics_connection_count"
WAITING = "kafka_server_delayedoperationpurgatory_purgatorysize"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredBroker]:
    with MeasuredBroker(tmp_path_factory.mktemp("broker"), {"auto.create.topics.enable": "false"}) as running:
        yield running


class Since:
    """What the page counts from now on."""

    def __init__(self, broker: MeasuredBroker) -> None:
        self._broker = broker
        self._before = broker.page

    def value(self, name: str, **labels: str) -> float:
        return self._broker.page.value(name, **labels) - self._before.value(name, **labels)

    def total(self, name: str) -> float:
        return self._broker.page.total(name) - self._before.total(name)


def kcat(broker: Kafkad, *arguments: str, text: str = "") -> str:
    command = ["kcat", "-b", broker.bootstrap, "-q", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=WITHIN_S).stdout


def produce(broker: Kafkad, topic: str, count: int) -> None:
    kcat(broker, "-P", "-t", topic, text="".join(f"{number}\n" for number in range(count)))


def create(broker: Kafkad, topic: str, **configs: str) -> None:
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    with BrokerClient(broker.bootstrap) as client:
        client.create_topic(topic, partitions=1, replication_factor=1, configs=dotted)


def test_traffic_is_counted_for_each_topic_and_for_all_together(broker: MeasuredBroker) -> None:
    for topic in ("orders", "logs"):
        create(broker, topic)
    since = Since(broker)
    produce(broker, "orders", 700)
    produce(broker, "logs", 300)
    assert len(kcat(broker, "-C", "-t", "orders", "-e").splitlines()) == 700
    page = broker.page
    assert page.value(f"{TOPICS}_messagesin_total", topic="orders") == 700
    assert page.value(f"{TOPICS}_messagesin_total", topic="logs") == 300
    assert since.value(f"{TOPICS}_messagesin_total") == 1000
    size = page.value("kafka_log_log_size", topic="orders")
    assert size > 0
    assert page.value(f"{TOPICS}_bytesin_total", topic="orders") == size
    assert page.value(f"{TOPICS}_bytesout_total", topic="orders") == size
    assert page.value(f"{TOPICS}_bytesout_total", topic="logs") == 0
    assert since.value(f"{TOPICS}_bytesout_total") == size


def test_each_partition_is_shown_where_that_is_wanted(tmp_path: Path) -> None:
    with MeasuredBroker(tmp_path, {"kafkad.metrics.per.partition": "true"}) as broker:
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic("orders", partitions=2, replication_factor=1, configs={})
        kcat(broker, "-P", "-t", "orders", "-p", "1", text="a\nb\n")
        page = broker.page
    assert page.value("kafka_log_log_logendoffset", topic="orders", partition="1") == 2
    assert page.value("kafka_log_log_numlogsegments", topic="orders", partition="0") == 1
    # By topic or by partition: whoever adds up must not count twice.
    assert page.total("kafka_log_log_size") == page.value("kafka_log_log_size", topic="orders", partition="1") > 0
    assert page.value(f"{TOPICS}_messagesin_total", topic="orders") == 2


def test_a_topic_that_is_gone_still_counts_in_the_broker_s_total(broker: MeasuredBroker) -> None:
    since = Since(broker)
    create(broker, "gone")
    produce(broker, "gone", 50)
    with BrokerClient(broker.bootstrap) as client:
        client.delete_topic("gone")
    assert since.value(f"{TOPICS}_messagesin_total") == 50
    assert broker.page.value(f"{TOPICS}_messagesin_total", topic="gone") == 0
    create(broker, "next")
    produce(broker, "next", 20)
    assert broker.page.value(f"{TOPICS}_messagesin_total", topic="next") == 20


def test_requests_are_counted_with_the_time_that_they_took(broker: MeasuredBroker) -> None:
    create(broker, "timed")
    since = Since(broker)
    with raw.RawClient(broker.port) as client:
        for _ in range(7):
            client.ask(raw.produce({("timed", 0): raw.batch()}))
        for _ in range(3):
            client.ask(raw.fetch({("timed", 0): 0}))
    assert since.value(f"{REQUESTS}_requests_total", request="Produce", version="7") == 7
    assert since.value(f"{REQUESTS}_totaltimems_count", request="Produce") == 7
    assert since.value(f"{REQUESTS}_totaltimems_sum", request="Produce") > 0
    for request in ("Fetch", "FetchConsumer"):
        assert since.value(f"{REQUESTS}_requests_total", request=request, version="4") == 3
        assert since.value(f"{REQUESTS}_totaltimems_count", request=request) == 3
    assert since.value(f"{TOPICS}_totalproducerequests_total") == 7
    assert since.value(f"{TOPICS}_totalfetchrequests_total") == 3
    assert since.total(f"{REQUESTS}_errors_total") == 0


def test_what_is_refused_is_counted_by_its_reason(broker: MeasuredBroker) -> None:
    create(broker, "small", max_message_bytes="1000")
    create(broker, "compacted", cleanup_policy="compact")
    damaged = bytearray(raw.batch())
    damaged[-1] ^= 1
    large = raw.batch(count=1, size=5000)
    since = Since(broker)
    with raw.RawClient(broker.port) as client:
        client.ask(raw.produce({("small", 0): large}))
        client.ask(raw.produce({("small", 0): bytes(damaged)}))
        client.ask(raw.produce({("compacted", 0): raw.batch(count=4)}))
        client.ask(raw.produce({("nowhere", 0): raw.batch()}))
        client.ask(raw.fetch({("small", 0): 99}))
    assert since.value(f"{TOPICS}_bytesrejected_total") == len(large)
    assert since.value(f"{TOPICS}_invalidmessagecrcrecords_total") == 1
    assert since.value(f"{TOPICS}_nokeycompactedtopicrecords_total") == 4
    assert since.value(f"{TOPICS}_failedproducerequests_total") == 1
    assert since.value(f"{TOPICS}_messagesin_total") == 0
    for name in (
        "MESSAGE_TOO_LARGE",
        "CORRUPT_MESSAGE",
        "INVALID_RECORD",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "OFFSET_OUT_OF_RANGE",
    ):
        assert since.value(f"{REQUESTS}_errors_total", error=name) == 1, name


def test_connections_and_waiting_fetches_are_shown_while_they_last(broker: MeasuredBroker) -> None:
    create(broker, "quiet")
    eventually(lambda: broker.page.value(CONNECTIONS) == 0, what="everybody has left")
    since = Since(broker)
    with raw.RawClient(broker.port) as client:
        client.send(raw.fetch({("quiet", 0): 0}, max_wait_ms=600_000))
        eventually(lambda: broker.page.value(WAITING, delayedOperation="Fetch") == 1, what="the fetch is shown")
        assert broker.page.value(CONNECTIONS) == 1
        with raw.RawClient(broker.port) as other:
            other.ask(raw.produce({("quiet", 0): raw.batch()}))
        client.reply()
        assert broker.page.value(WAITING, delayedOperation="Fetch") == 0
    closed = "kafka_server_socketservermetrics_connection_close_total"
    eventually(lambda: since.value(closed) == 2, what="the connections are closed")
    assert broker.page.value(CONNECTIONS) == 0


def test_the_controller_shows_what_there_is(broker: MeasuredBroker) -> None:
    # Each worker counts those that it has taken.
    hosted = "kafka_server_replicamanager_partitioncount"
    prefix = "kafka_controller_kafkacontroller"
    partitions = f"{prefix}_globalpartitioncount"
    eventually(lambda: broker.page.value(hosted) == broker.page.value(partitions), what="all others are taken")
    since = Since(broker)
    with BrokerClient(broker.bootstrap) as client:
        client.create_topic("three", partitions=3, replication_factor=1, configs={})
        client.create_topic("two", partitions=2, replication_factor=1, configs={})
    assert broker.page.value(f"{prefix}_activecontrollercount") == 1
    assert since.value(f"{prefix}_globaltopiccount") == 2
    assert since.value(partitions) == 5
    assert broker.page.value(f"{prefix}_offlinepartitionscount") == 0
    eventually(lambda: since.value(hosted) == 5, what="all partitions are taken")


def test_flushes_are_counted(broker: MeasuredBroker) -> None:
    since = Since(broker)
    create(broker, "flushed", flush_messages="1")
    with raw.RawClient(broker.port) as client:
        client.ask(raw.produce({("flushed", 0): raw.batch()}))
    flushes = "kafka_log_logflushstats_logflushrateandtimems_total"
    eventually(lambda: since.value(flushes) > 0, what="the flush is counted")


def test_a_restarted_process_goes_on_counting_and_begins_its_gauges_anew(broker: MeasuredBroker) -> None:
    create(broker, "kept")
    eventually(lambda: broker.page.value(CONNECTIONS) == 0, what="everybody has left")
    since = Since(broker)
    with raw.RawClient(broker.port) as client:
        client.ask(raw.produce({("kept", 0): raw.batch(count=5)}))
    others = raw.RawClient(broker.port)
    (network,) = [process for process in broker.tree() if process.name == "network-0"]
    os.kill(network.pid, signal.SIGKILL)
    eventually(
        lambda: since.value("kafkad_process_restarts_total", process="network-0") == 1 and raw_answers(broker),
        what="network-0 is back",
    )
    others.sock.close()
    with raw.RawClient(broker.port) as client:
        client.ask(raw.produce({("kept", 0): raw.batch(count=2)}))
        assert since.value(f"{REQUESTS}_requests_total", request="Produce", version="7") == 2
        assert since.value(f"{TOPICS}_messagesin_total", topic="kept") == 7
        assert broker.page.value(CONNECTIONS) == 1


def raw_answers(broker: MeasuredBroker) -> bool:
    try:
        with raw.RawClient(broker.port) as client:
            client.ask(raw.api_versions())
    except OSError:
        return False
    return True


def test_time_awake_is_little_in_a_broker_at_rest(broker: MeasuredBroker) -> None:
    assert broker.page.value("kafkad_process_busy_seconds_total", process="worker-0") > 0
    with raw.RawClient(broker.port) as client:
        client.ask(raw.api_versions())
    idle = broker.page.value("kafka_network_socketserver_networkprocessoravgidlepercent")
    assert 0 < idle <= 1


def test_errors_of_every_api_are_counted_wherever_they_are_answered(broker: MeasuredBroker) -> None:
    """In the network process, by hand and by schema; from its cache; in the controller; in a worker."""
    since = Since(broker)
    with raw.RawClient(broker.port) as client:
        for _ in range(2):
            client.ask(raw.list_offsets("unknown", 0, -1))
            client.ask(raw.metadata(["unknown", "neither"]))
            client.ask(raw.delete_records("unknown", 0, 0))
            client.ask(raw.create_topic("a bad name"))
            client.ask(raw.api_versions(99))
            refused = ErrorCode(int.from_bytes(client.ask(raw.heartbeat("g")), "big")).name
    expected = {"UNKNOWN_TOPIC_OR_PARTITION": 8, "INVALID_TOPIC_EXCEPTION": 2, "UNSUPPORTED_VERSION": 2, refused: 2}

    def counted() -> dict[str, float]:
        return {name: since.value(f"{REQUESTS}_errors_total", error=name) for name in expected}

    eventually(lambda: counted() == expected, what=f"the counters say {expected}")
