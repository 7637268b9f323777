"""Consume, transform, produce in transactions while processes die, as the clients of exactly-once pipelines do.

Whatever a transaction fails with, it is aborted and done again from the offsets that are committed; a producer that
can't go on is followed by another of the same transactional id.
"""

import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from bench.brokers.processes import WITHIN_S

_WAIT_S = 30.0
_TRIES = 50
_PAUSE_S = 0.1
_AT_ONCE = 20


class Copy:
    """Copies `source` to `target` in transactions of a few records."""

    def __init__(self, bootstrap: str, source: str, target: str, *, name: str) -> None:
        self._bootstrap = bootstrap
        self._target = target
        self._name = name
        self.copied = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6_000,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([source])
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        for _ in range(_TRIES):
            producer = Producer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "transactional.id": self._name,
                    "transaction.timeout.ms": 10_000,
                    "log_level": 0,
                }
            )
            try:
                producer.init_transactions(_WAIT_S)
            except KafkaException:
                continue
            return producer
        raise AssertionError("no transactional producer can begin")

    def run(self, count: int, copied: Callable[[int], None]) -> None:
        """Until `count` records are copied; `copied` is told how many are, after each transaction."""
        deadline = time.monotonic() + 4 * _WAIT_S
        while self.copied < count:
            assert time.monotonic() < deadline, f"{self.copied} of {count} records are copied"
            messages = [each for each in self._consumer.consume(_AT_ONCE, timeout=1.0) if each.error() is None]
            if messages:
                self._copy(messages)
                copied(self.copied)

    def _copy(self, messages: list[Message]) -> None:
        consumer, producer = self._consumer, self._producer
        try:
            producer.begin_transaction()
            for message in messages:
                producer.produce(self._target, message.value(), partition=message.partition() or 0)
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), _WAIT_S)
            producer.commit_transaction(_WAIT_S)
        except KafkaException:
            self._begin_again()
        else:
            self.copied += len(messages)

    def _begin_again(self) -> None:
        """Whether it was committed is not known: the committed offsets say where to go on."""
        try:
            self._producer.abort_transaction(_WAIT_S)
        except KafkaException:
            self._producer = self._new_producer()
        self.copied = 0
        for place in self._committed():
            self.copied += max(0, place.offset)
            self._consumer.seek(TopicPartition(place.topic, place.partition, max(0, place.offset)))

    def _committed(self) -> list[TopicPartition]:
        for _ in range(_TRIES):
            try:
                places = self._consumer.committed(self._consumer.assignment(), _WAIT_S)
            except KafkaException:
                places = []
            if places and not any(place.error for place in places):
                return places
            time.sleep(_PAUSE_S)
        raise AssertionError("the committed offsets can't be had")

    def close(self) -> None:
        self._consumer.close()


def read_committed(bootstrap: str, topic: str, count: int) -> list[int]:
    """The numbers in `topic` that read_committed shows: `count` of them, and what comes after those."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"read-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    numbers: list[int] = []
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline and len(numbers) < count:
        numbers += _numbers(consumer.consume(1_000, timeout=1.0))
    numbers += _numbers(consumer.consume(1_000, timeout=0.5))
    consumer.close()
    return numbers


def _numbers(messages: list[Message]) -> list[int]:
    return [int(each.value() or b"") for each in messages if each.error() is None]
