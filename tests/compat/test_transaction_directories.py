"""One log directory with committed, aborted and open transactions, two brokers in turn: each knows how they ended."""

from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S
from tests.tools.log_dump import log_rate_limit
from tests.tools.raw_requests import RawClient, create_topic

TOPIC = "moved"


def _producer(broker: RunningBroker, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(WITHIN_S)
    return producer


def _write(producer: Producer, *values: str) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(TOPIC, value.encode(), partition=0)
    assert producer.flush(WITHIN_S) == 0


def _live(broker: RunningBroker, name: str) -> list[str]:
    """A transaction that commits, one that is aborted, one that commits, and one that stays open; what is committed."""
    producer, left = _producer(broker, f"{name}-ends"), _producer(broker, f"{name}-stays")
    _write(producer, f"{name} 1", f"{name} 2")
    producer.commit_transaction(WITHIN_S)
    _write(producer, f"{name} aborted")
    producer.abort_transaction(WITHIN_S)
    _write(producer, f"{name} 3")
    producer.commit_transaction(WITHIN_S)
    _write(left, f"{name} open")
    _write(producer, f"{name} behind")
    producer.commit_transaction(WITHIN_S)
    return [f"{name} 1", f"{name} 2", f"{name} 3"]


def _abort_what_was_left(broker: RunningBroker, name: str) -> list[str]:
    """The next producer of the id fences the one before; what may be read since."""
    _producer(broker, f"{name}-stays")
    return [f"{name} behind"]


def _read(broker: RunningBroker) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[str] = []
    while True:
        message = consumer.poll(WITHIN_S)
        assert message is not None, f"{len(values)} records, and no end"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        value = message.value()
        assert value is not None
        values.append(value.decode())
    consumer.close()
    return values


def _indexes(broker: RunningBroker) -> list[Path]:
    return sorted((broker.log_dir / f"{TOPIC}-0").glob("*.txnindex"))


def test_transactions_go_from_apache_kafka_to_kafkad_and_back(tmp_path: Path) -> None:
    apache = ApacheKafka(tmp_path / "apache")
    with apache:
        with RawClient(apache.port) as client:
            client.ask(create_topic(TOPIC))
        committed = _live(apache, "theirs")
        assert _read(apache) == committed
    (index,) = _indexes(apache)
    assert index.stat().st_size == 34

    with Kafkad(tmp_path / "kafkad", {"log.dirs": str(apache.log_dir)}) as kafkad:
        assert _read(kafkad) == committed
        committed += _abort_what_was_left(kafkad, "theirs")
        assert _read(kafkad) == committed
        committed += _live(kafkad, "ours")
        assert _read(kafkad) == committed
        assert kafkad.stop() == 0
    assert log_rate_limit(_indexes(apache)) == []
    assert sum(each.stat().st_size for each in _indexes(apache)) == 3 * 34

    with apache.started_again():
        assert _read(apache) == committed
        committed += _abort_what_was_left(apache, "ours")
        assert _read(apache) == committed
