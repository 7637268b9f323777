"""What each public Python client sends, each of them reads back: codecs, idempotence, headers, nulls, big records."""

import itertools
from collections.abc import Callable, Sequence

import pytest

from bench.brokers.broker import RunningBroker
from tests.compat.python_clients import CLIENTS, Client
from tests.compat.records import AN_HOUR_AGO_MS, Record
from tests.compat.side_by_side import Tools

NewTopic = Callable[[str], str]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BY_NAME = {client.name: client for client in CLIENTS}
EACH_CLIENT = pytest.mark.parametrize("client", CLIENTS, ids=list(BY_NAME))

FIRST_TIMESTAMP = AN_HOUR_AGO_MS
RECORDS = tuple(
    Record(b"value %d " % index + b"x" * (index * 7 % 300), b"key %d" % (index % 5), timestamp=FIRST_TIMESTAMP + index)
    for index in range(400)
)


@pytest.fixture
def topic(tools: Tools, new_topic: NewTopic) -> str:
    return tools.create(new_topic("clients"))


def read_by_all(broker: RunningBroker, topic: str, sent: Sequence[Record]) -> None:
    """Every client reads exactly what was sent."""
    for reader in CLIENTS:
        assert list(reader.consume(broker.bootstrap, topic, 0, len(sent))) == list(sent), reader.name


@EACH_CLIENT
@pytest.mark.parametrize(("codec", "idempotent"), list(itertools.product(CODECS, (False, True))))
def test_records_come_back_from_every_client(
    broker: RunningBroker, topic: str, client: Client, codec: str, idempotent: bool
) -> None:
    offsets = client.produce(broker.bootstrap, topic, RECORDS, compression=codec, idempotent=idempotent)
    assert offsets == list(range(len(RECORDS)))
    read_by_all(broker, topic, RECORDS)


@EACH_CLIENT
def test_headers_come_back(broker: RunningBroker, topic: str, client: Client) -> None:
    records = [
        Record(b"one", headers=(("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b""))),
        Record(b"two", headers=(("ключ", "значение".encode()),)),
        Record(b"three"),
    ]
    client.produce(broker.bootstrap, topic, records, compression="none", idempotent=True)
    read_by_all(broker, topic, records)


@EACH_CLIENT
def test_null_and_empty_are_kept_apart(broker: RunningBroker, topic: str, client: Client) -> None:
    records = [
        Record(b"", b""),
        Record(None, b"deleted"),
        Record(b"no key", None),
        Record(b"", None),
    ]
    client.produce(broker.bootstrap, topic, records, compression="none", idempotent=True)
    read_by_all(broker, topic, records)


@EACH_CLIENT
def test_a_record_just_below_the_limit_comes_back(broker: RunningBroker, topic: str, client: Client) -> None:
    # max.message.bytes is 1048588 for the whole batch: header, attributes and lengths leave a little less.
    records = [Record(bytes(1_048_588 - 100)), Record(b"after")]
    client.produce(broker.bootstrap, topic, records, compression="none", idempotent=False)
    read_by_all(broker, topic, records)


@EACH_CLIENT
def test_a_record_above_the_limit_is_refused_and_the_next_accepted(
    broker: RunningBroker, topic: str, client: Client
) -> None:
    with pytest.raises(Exception, match=r"(?i)size|too.?large"):
        client.produce(broker.bootstrap, topic, [Record(bytes(1_048_588))], compression="none", idempotent=False)
    client.produce(broker.bootstrap, topic, [Record(b"fits")], compression="none", idempotent=False)
    read_by_all(broker, topic, [Record(b"fits")])


@EACH_CLIENT
def test_a_compressed_batch_may_hold_more_than_the_limit(broker: RunningBroker, topic: str, client: Client) -> None:
    records = [Record(bytes(1_000_000), timestamp=FIRST_TIMESTAMP + index) for index in range(3)]
    client.produce(broker.bootstrap, topic, records, compression="zstd", idempotent=True)
    read_by_all(broker, topic, records)


@EACH_CLIENT
def test_the_first_record_to_an_unknown_topic_is_not_lost(
    broker: RunningBroker, new_topic: NewTopic, client: Client
) -> None:
    unknown = new_topic("unknown")
    record = Record(b"first")
    assert client.produce(broker.bootstrap, unknown, [record], compression="none", idempotent=True) == [0]
    read_by_all(broker, unknown, [record])


def test_what_python_clients_sent_is_found_by_time(broker: RunningBroker, topic: str, tools: Tools) -> None:
    BY_NAME["confluent-kafka"].produce(broker.bootstrap, topic, RECORDS, compression="lz4", idempotent=True)
    for index in (0, 1, 199, 399):
        printed = tools.on(broker, "kafka-get-offsets", "--topic", topic, "--time", str(FIRST_TIMESTAMP + index))
        assert printed.out == f"{topic}:0:{index}\n"
