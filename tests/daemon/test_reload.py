"""A running broker's configuration: the file read again on SIGHUP, changes by request, and what they lead to.

Real, for the signal and for what other processes than the one that is told do then. One broker for all that end as they
began: what its file says in between is taken back.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kio.static.primitive import i8

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually
from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient
from kafkad.client.connection import BrokerCallFailed, BrokerConnection
from kafkad.core.controller.store.nodes import broker_config_path
from kafkad.core.errors import ErrorCode
from tests.tools import raw_requests as raw

BROKER = 4
SET, DELETE = i8(0), i8(1)
LAST = "log.index.interval.bytes"
"""Of no meaning for these tests."""


class FiledBroker(Kafkad):
    """A broker whose settings stand in a file."""

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder)
        self.file = folder / "server.properties"
        self._marks = 0
        self._fixed = {
            "log.retention.check.interval.ms": "200",
            "log.initial.task.delay.ms": "0",
            "num.network.threads": "2",
        }
        self.write(settings)

    def write(self, settings: Mapping[str, str]) -> None:
        lines = [f"{name}={value}" for name, value in {**self._fixed, **settings}.items()]
        self.file.write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        start = super().command()
        return [*start[:4], str(self.file), *start[4:]]

    def reread(self, settings: Mapping[str, str], said: str) -> None:
        """Write the file, send SIGHUP, and wait until `said` is in the log."""
        before = self.output.read_text().count(said)
        self.write(settings)
        os.kill(self.pid, signal.SIGHUP)
        eventually(lambda: self.output.read_text().count(said) > before, what=said)

    def take_back(self) -> None:
        """The file is as at the start, and each process has heard of it: the last option is a new one each time."""
        self._marks += 1
        mark = str(5_000 + self._marks)
        self.reread({LAST: mark}, f"{LAST} has a new value")
        eventually(lambda: described(self, LAST)[0] == mark, what="the file holds")


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FiledBroker]:
    with FiledBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def broker(shared_broker: FiledBroker) -> Iterator[FiledBroker]:
    yield shared_broker
    shared_broker.take_back()


def described(broker: Kafkad, name: str) -> tuple[str | None, ConfigSource]:
    """A broker option's value and where it comes from, by DescribeConfigs."""
    resource = ConfigResource(ResourceType.BROKER, "1")
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = client.describe_configs([resource])[resource].result(WITHIN_S)[name]
    return entry.value, ConfigSource(entry.source)


def alter(broker: Kafkad, entity: str, name: str, value: str | None) -> None:
    (result,) = asked_to_alter(broker, entity, name, value)
    assert result.error_code == 0, result


def asked_to_alter(
    broker: Kafkad, entity: str, name: str, value: str | None
) -> tuple[AlterConfigsResourceResponse, ...]:
    """IncrementalAlterConfigs for this broker ("1"), or for all (""), which no Python client can ask for."""
    change = AlterableConfig(name=name, config_operation=SET if value is not None else DELETE, value=value)
    resource = AlterConfigsResource(resource_type=i8(BROKER), resource_name=entity, configs=(change,))
    connection = BrokerConnection("127.0.0.1", broker.port, WITHIN_S)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    responses: tuple[AlterConfigsResourceResponse, ...] = connection.call(
        request, IncrementalAlterConfigsResponse
    ).responses
    connection.close()
    return responses


def refusal(broker: Kafkad, entity: str, name: str, value: str) -> str:
    """What IncrementalAlterConfigs answers to a change that can't be made."""
    (result,) = asked_to_alter(broker, entity, name, value)
    assert int(result.error_code) == ErrorCode.INVALID_REQUEST, result
    return str(result.error_message)


def fill(broker: Kafkad, topic: str) -> None:
    """A record whose time is long ago: any short retention is over at once."""
    with raw.RawClient(broker.port) as client:
        client.ask(raw.create_topic(topic))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"old", timestamp=1_000)
    assert producer.flush(WITHIN_S) == 0


def log_start(broker: Kafkad, topic: str) -> int:
    with raw.RawClient(broker.port) as client:
        body = client.ask(raw.list_offsets(topic, 0, -2))
    return int.from_bytes(body[-8:], "big", signed=True)


def test_retention_in_a_reread_file_holds_for_topics_that_are_there(broker: FiledBroker) -> None:
    broker.reread({"log.retention.ms": "-1"}, "log.retention.ms has a new value")
    fill(broker, "aging")
    assert described(broker, "log.retention.ms") == ("-1", ConfigSource.STATIC_BROKER_CONFIG)
    assert log_start(broker, "aging") == 0
    broker.reread({"log.retention.ms": "1000"}, "log.retention.ms has a new value")
    eventually(lambda: log_start(broker, "aging") == 1, what="the old record is removed")
    assert described(broker, "log.retention.ms") == ("1000", ConfigSource.STATIC_BROKER_CONFIG)


def test_retention_changed_by_a_request_is_above_the_file_s(broker: FiledBroker) -> None:
    broker.reread({"log.retention.ms": "-1"}, "log.retention.ms has a new value")
    fill(broker, "old")
    alter(broker, "", "log.retention.ms", "1000")
    assert described(broker, "log.retention.ms") == ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    eventually(lambda: log_start(broker, "old") == 1, what="the old record is removed")
    alter(broker, "1", "log.retention.ms", "-1")
    broker.reread({"log.retention.ms": "500"}, "log.retention.ms has a new value")
    assert described(broker, "log.retention.ms") == ("-1", ConfigSource.DYNAMIC_BROKER_CONFIG)
    alter(broker, "1", "log.retention.ms", None)
    alter(broker, "", "log.retention.ms", None)
    assert described(broker, "log.retention.ms") == ("500", ConfigSource.STATIC_BROKER_CONFIG)


def test_what_needs_a_restart_is_named_and_stays_as_it_is(broker: FiledBroker) -> None:
    needs = "num.io.threads has changed in the file, but requires a restart"
    before = described(broker, "num.io.threads")
    broker.reread({"num.io.threads": "7", "message.max.bytes": "5000"}, needs)
    assert "message.max.bytes has a new value" in broker.output.read_text()
    eventually(lambda: described(broker, "message.max.bytes")[0] == "5000", what="the other holds")
    assert described(broker, "num.io.threads") == before


@pytest.mark.parametrize("entity", ["", "1"])
def test_what_needs_a_restart_is_refused_when_a_request_asks_for_it(broker: FiledBroker, entity: str) -> None:
    before = described(broker, "num.network.threads")
    for name, value in (("num.network.threads", "3"), ("listeners", "PLAINTEXT://127.0.0.1:1")):
        assert "change server.properties and restart the broker" in refusal(broker, entity, name, value)
    assert described(broker, "num.network.threads") == before


def test_stored_changes_of_an_earlier_version_are_named_once_and_ignored(tmp_path: Path) -> None:
    with FiledBroker(tmp_path) as broker:
        alter(broker, "1", "log.retention.ms", "5")
        before = described(broker, "num.io.threads")
        broker.stop()
        store = EmbeddedStore(broker.log_dir / FILE_NAME, 1)
        path = broker_config_path("1")
        data = store.get(path).data
        store.set_data(path, data.replace(b'"log.retention.ms"', b'"num.io.threads":"7","log.retention.ms"'))
        store.close()
        broker.start()
        assert broker.output.read_text().count("ignoring stored dynamic values of num.io.threads") == 1
        assert described(broker, "num.io.threads") == before
        assert described(broker, "log.retention.ms") == ("5", ConfigSource.DYNAMIC_BROKER_CONFIG)
        alter(broker, "1", "log.retention.ms", "6")
        broker.stop()
        broker.start()
        assert broker.output.read_text().count("ignoring stored dynamic values") == 1


def test_a_file_with_a_mistake_changes_nothing(broker: FiledBroker) -> None:
    broker.reread(
        {"message.max.bytes": "5000", "num.partitons": "3"},
        "configuration not reloaded: server.properties line 5: num.partitons",
    )
    assert described(broker, "message.max.bytes")[1] is ConfigSource.DEFAULT_CONFIG
    with raw.RawClient(broker.port) as client:
        assert client.ask(raw.api_versions())


def test_new_topics_are_made_as_the_file_says_now(broker: FiledBroker) -> None:
    with BrokerClient(broker.bootstrap) as client:
        broker.reread({"num.partitions": "4"}, "num.partitions has a new value")
        eventually(lambda: described(broker, "num.partitions")[0] == "4", what="the controller knows")
        client.create_topic("new", partitions=BROKER_DEFAULT, replication_factor=1, configs={})
        (topic,) = client.topics(["new"])
        assert len(topic.partitions) == 4


def test_records_of_topics_that_are_compacted_now_are_not_deleted(broker: FiledBroker) -> None:
    fill(broker, "kept")

    def error() -> int:
        with raw.RawClient(broker.port) as client:
            return int.from_bytes(client.ask(raw.delete_records("kept", 0, 0))[-2:], "big")

    assert error() == ErrorCode.NONE
    broker.reread({"log.cleanup.policy": "compact"}, "log.cleanup.policy has a new value")
    eventually(lambda: error() == ErrorCode.POLICY_VIOLATION, what="the network process knows")


def test_file_that_is_read_again_while_a_controller_begins_holds_for_it_as_well(broker: FiledBroker) -> None:
    """Its next incarnation waits until no worker acts on the one before: here, until the stopped one goes on."""
    with BrokerClient(broker.bootstrap) as client:
        client.create_topic("before", partitions=1, replication_factor=1, configs={})
    tree = {process.name: process.pid for process in broker.tree()}
    os.kill(tree["worker-0"], signal.SIGSTOP)
    os.kill(tree["controller-0"], signal.SIGKILL)
    eventually(lambda: _controller(broker) not in (None, tree["controller-0"]), what="its next life")
    broker.reread({"num.partitions": "4"}, "num.partitions has a new value")
    os.kill(tree["worker-0"], signal.SIGCONT)
    eventually(lambda: described(broker, "num.partitions")[0] == "4", what="the controller knows")
    with BrokerClient(broker.bootstrap) as client:
        client.create_topic("four", partitions=BROKER_DEFAULT, replication_factor=1, configs={})
        (topic,) = client.topics(["four"])
    assert len(topic.partitions) == 4


def _controller(broker: Kafkad) -> int | None:
    return next((process.pid for process in broker.tree() if process.name == "controller-0"), None)


def test_topics_are_no_longer_made_on_demand(broker: FiledBroker) -> None:
    broker.reread({"auto.create.topics.enable": "false"}, "auto.create.topics.enable has a new value")
    names = (f"unasked-{number}" for number in range(1000))
    eventually(lambda: not _is_made(broker, next(names)), what="the network process knows")


def _is_made(broker: FiledBroker, name: str) -> bool:
    with BrokerClient(broker.bootstrap, timeout_s=1.0) as client:
        try:
            client.topics([name], create=True)
        except BrokerCallFailed:
            return False
        return True


def test_a_connection_limit_holds_from_now_on(broker: FiledBroker) -> None:
    alter(broker, "", "max.connections.per.ip", "1")
    eventually(lambda: _let_in(broker) == 1, what="one connection is let in, the next is not")
    eventually(lambda: _is_unlimited(broker), what="the limit is taken back")
    eventually(lambda: _let_in(broker) == 2, what="all are let in")


def _is_unlimited(broker: FiledBroker) -> bool:
    """What was let in before may not be gone yet: then this is refused, too."""
    try:
        alter(broker, "", "max.connections.per.ip", None)
    except (BrokerCallFailed, OSError):
        return False
    return True


def test_a_rate_of_new_connections_holds_from_now_on(broker: FiledBroker) -> None:
    alter(broker, "", "max.connection.creation.rate", "4")
    eventually(lambda: _seconds_to_let_in(broker, 12) > 1.9, what="four are let in each second")
    alter(broker, "", "max.connection.creation.rate", None)
    # The machine may be slow, but not each time as slow as the limit.
    eventually(lambda: _seconds_to_let_in(broker, 12) < 1.9, what="all are let in at once")


def _seconds_to_let_in(broker: FiledBroker, count: int) -> float:
    began = time.monotonic()
    with ExitStack() as stack:
        clients = [stack.enter_context(raw.RawClient(broker.port)) for _ in range(count)]
        for client in clients:
            client.ask(raw.api_versions())
        return time.monotonic() - began


def _let_in(broker: FiledBroker) -> int:
    """How many of two connections are answered."""
    with raw.RawClient(broker.port) as first, raw.RawClient(broker.port) as second:
        answered = 0
        for client in (first, second):
            try:
                client.ask(raw.api_versions())
                answered += 1
            except OSError:
                continue
        return answered


def test_a_quota_begins_and_ends_while_the_client_is_connected(broker: FiledBroker) -> None:
    name = "kafkad.quota.client.raw.producer_byte_rate"
    with raw.RawClient(broker.port) as client:
        client.ask(raw.create_topic("limited"))
        request = raw.produce({("limited", 0): raw.batch(size=100_000)})
        assert throttle_ms(client.ask(request)) == 0
        alter(broker, "1", name, "100000")
        eventually(lambda: throttle_ms(client.ask(request)) > 0, what="the client is throttled")
        alter(broker, "1", name, None)
        eventually(lambda: throttle_ms(client.ask(request)) == 0, what="the client is throttled no more")


def throttle_ms(produced: bytes) -> int:
    """The last field of a reply to Produce 7."""
    return int.from_bytes(produced[-4:], "big")
