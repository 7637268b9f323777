"""Topics that come into being by being written to, and brokers that are told not to allow it."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import WITHIN_S
from tests.compat.command_clients import console_consume, console_produce, kcat_consume, kcat_produce
from tests.compat.conftest import SUBJECT

NewTopic = Callable[[str], str]
LINES = b"first\nsecond\n"


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_bytes(LINES)
    return path


def test_kcat_loses_nothing_on_its_first_produce_to_an_unknown_topic(
    broker: RunningBroker, new_topic: NewTopic, lines: Path, tmp_path: Path
) -> None:
    topic = new_topic("unknown")
    kcat_produce(broker.bootstrap, topic, 0, lines, compression="none")
    kcat_consume(broker.bootstrap, topic, 0, 2, tmp_path / "read.txt")
    assert (tmp_path / "read.txt").read_bytes() == LINES


def test_the_console_producer_loses_nothing_on_its_first_produce_to_an_unknown_topic(
    broker: RunningBroker, new_topic: NewTopic, lines: Path, tmp_path: Path
) -> None:
    topic = new_topic("unknown")
    console_produce(broker.bootstrap, topic, lines, compression="none")
    console_consume(broker.bootstrap, topic, 0, 2, tmp_path / "read.txt")
    assert (tmp_path / "read.txt").read_bytes() == LINES


@pytest.fixture(scope="module")
def strict_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    overrides = {"auto.create.topics.enable": "false"}
    with SUBJECT(tmp_path_factory.mktemp("strict"), overrides) as broker:
        yield broker


def test_a_broker_that_must_not_create_topics_does_not(strict_broker: RunningBroker) -> None:
    failures: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": strict_broker.bootstrap, "message.timeout.ms": 3_000, "log_level": 0})
    producer.produce("unwanted", b"x", on_delivery=lambda error, _: failures.append(error))
    producer.flush(20)
    assert len(failures) == 1
    assert failures[0] is not None
    assert failures[0].name() in ("_UNKNOWN_TOPIC", "_MSG_TIMED_OUT", "UNKNOWN_TOPIC_OR_PART")
    assert (
        "unwanted"
        not in AdminClient({"bootstrap.servers": strict_broker.bootstrap, "log_level": 0})
        .list_topics(timeout=WITHIN_S)
        .topics
    )


def test_kcat_is_told_that_the_topic_is_unknown(strict_broker: RunningBroker) -> None:
    command = ["kcat", "-P", "-b", strict_broker.bootstrap, "-t", "unwanted", "-X", "message.timeout.ms=3000"]
    done = subprocess.run(command, input=b"x\n", capture_output=True, timeout=WITHIN_S)
    assert done.returncode != 0
    assert b"Unknown topic" in done.stderr or b"timed out" in done.stderr


def test_a_consumer_that_asks_for_an_unknown_topic_does_not_create_it(
    broker: RunningBroker, new_topic: NewTopic
) -> None:
    topic = new_topic("only-asked-for")
    command = ["kcat", "-C", "-b", broker.bootstrap, "-t", topic, "-e", "-X", "allow.auto.create.topics=false"]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN_S)
    assert (
        topic
        not in AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(timeout=WITHIN_S).topics
    )
