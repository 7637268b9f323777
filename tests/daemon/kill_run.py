"""Producing while processes die, and reading back what is in the log afterwards.

A producer writes numbered records to a few partitions; at a moment that the seed chooses, the victim gets SIGKILL.
librdkafka's idempotent producer sends again what it is not sure of; the raw one never does.
"""

import random
import time
from collections.abc import Callable
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from bench.brokers.processes import WITHIN_S
from tests.daemon.ledger import PARTITIONS, Ledger
from tests.daemon.raw_producer import RawProducer

_BEFORE_KILL_S = (0.15, 1.2)
_AFTER_KILL_S = 1.0
_MOST_WAITING = 40_000
_PAUSE_S = 0.05
_WORTH_ANOTHER_TRY = frozenset({KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION})


class Sender(Protocol):
    """A producer that numbers its records and enters the answers into a ledger."""

    def send(self, partition: int, count: int) -> None:
        """The next `count` records of this partition."""

    def flush(self, timeout: float) -> int:
        """Wait for all answers; how many are missing."""


class IdempotentProducer:
    """librdkafka with enable.idempotence."""

    def __init__(self, seed: random.Random, bootstrap: str, topic: str, ledger: Ledger) -> None:
        self._topic = topic
        self._ledger = ledger
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "on_delivery": self._on_delivery,
                # Beyond the end of the test: what librdkafka gives up it may send again under another producer epoch.
                "message.timeout.ms": 15 * 60 * 1_000,
                "linger.ms": seed.choice([0, 2, 20]),
                "compression.type": seed.choice(["none", "lz4"]),
                "batch.num.messages": seed.choice([10, 200, 10_000]),
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def send(self, partition: int, count: int) -> None:
        for _ in range(count):
            number = self._ledger.sent[partition]
            self._producer.produce(self._topic, b"%d %s" % (number, b"x" * (number % 150)), partition=partition)
            self._ledger.sent[partition] += 1
        self._producer.poll(0)
        while len(self._producer) > _MOST_WAITING:
            self._producer.poll(0.01)

    def flush(self, timeout: float) -> int:
        return self._producer.flush(timeout)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._ledger.refused.append(error.name())
            return
        partition, offset, number = _facts_of(message)
        self._ledger.acknowledged[partition].append((number, offset))


def sender(seed: random.Random, port: int, topic: str, ledger: Ledger, *, idempotent: bool) -> Sender:
    """The producer that a test asks for."""
    if idempotent:
        return IdempotentProducer(seed, f"127.0.0.1:{port}", topic, ledger)
    return RawProducer(port, topic, ledger)


def produce_under_fire(
    seed: random.Random, port: int, topic: str, *, idempotent: bool, kill: Callable[[], None]
) -> Ledger:
    """Produce, call `kill` once in the middle, produce on, and wait for every answer."""
    ledger = Ledger()
    producer = sender(seed, port, topic, ledger, idempotent=idempotent)
    _produce_until(producer, seed, time.monotonic() + seed.uniform(*_BEFORE_KILL_S))
    kill()
    _produce_until(producer, seed, time.monotonic() + _AFTER_KILL_S)
    assert producer.flush(WITHIN_S) == 0, "records neither acknowledged nor refused"
    return ledger


def _produce_until(producer: Sender, seed: random.Random, deadline: float) -> None:
    while time.monotonic() < deadline:
        producer.send(seed.randrange(PARTITIONS), seed.choice([1, 5, 100]))


def read_back(bootstrap: str, topic: str) -> dict[int, dict[int, int]]:
    """The whole log by partition: offset to number."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
    )
    left = sum(_end_of(consumer, TopicPartition(topic, partition)) for partition in range(PARTITIONS))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    log: dict[int, dict[int, int]] = {partition: {} for partition in range(PARTITIONS)}
    while left > 0:
        messages = consumer.consume(min(left, 10_000), WITHIN_S)
        assert messages, f"{left} records below the end of the log cannot be read"
        for message in messages:
            partition, offset, number = _facts_of(message)
            assert offset not in log[partition], f"offset {offset} of partition {partition} came twice"
            log[partition][offset] = number
        left -= len(messages)
    consumer.close()
    return log


def _end_of(consumer: Consumer, partition: TopicPartition) -> int:
    """The high watermark; a broker that has just lost its controller may first have to find its leaders again."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            ends = consumer.get_watermark_offsets(partition, timeout=WITHIN_S)
        except KafkaException as refusal:
            if refusal.args[0].code() not in _WORTH_ANOTHER_TRY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
            continue
        assert ends is not None and ends[0] == 0
        return ends[1]


def _facts_of(message: Message) -> tuple[int, int, int]:
    """Partition, offset and number of a record."""
    error, partition, offset, value = message.error(), message.partition(), message.offset(), message.value()
    assert error is None, error
    assert partition is not None and offset is not None and value is not None
    return partition, offset, int(value.partition(b" ")[0])
