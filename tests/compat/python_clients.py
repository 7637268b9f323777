"""The public Python clients behind one small face: produce to a partition, read it back without a group.

Settings are each client's defaults except those that a test names.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

import aiokafka  # type: ignore[import-untyped]
import confluent_kafka
import kafka  # type: ignore[import-untyped]

from tests.compat.records import Record

_WAIT_S = 30.0
_FETCHED_AT_ONCE = 5_000


class Client(Protocol):
    """What a test asks of a client."""

    name: str

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, compression: str, idempotent: bool
    ) -> list[int]:
        """Send to partition 0, acks=all, and return the offsets that were acknowledged, in order."""

    def consume(self, bootstrap: str, topic: str, partition: int, count: int) -> Iterator[Record]:
        """The first `count` records of the partition, which is assigned, not subscribed."""


class ConfluentKafka:
    name = "confluent-kafka"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, compression: str, idempotent: bool
    ) -> list[int]:
        offsets: list[int] = []

        def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            offsets.append(offset)

        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "compression.type": compression,
                "enable.idempotence": idempotent,
                "message.max.bytes": 2_000_000,
            }
        )
        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                0,
                delivered,
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
        assert producer.flush(_WAIT_S) == 0, "deliveries timed out"
        return offsets

    def consume(self, bootstrap: str, topic: str, partition: int, count: int) -> Iterator[Record]:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
        left = count
        try:
            while left:
                messages = consumer.consume(min(left, _FETCHED_AT_ONCE), _WAIT_S)
                assert messages, f"{self.name}: nothing in {_WAIT_S} s, {left} of {count} records are missing"
                yield from map(self._record, messages)
                left -= len(messages)
        finally:
            consumer.close()

    @staticmethod
    def _record(message: confluent_kafka.Message) -> Record:
        error = message.error()
        assert error is None, error
        headers = cast("list[tuple[str, bytes]]", message.headers() or [])
        return Record(message.value(), message.key(), tuple(headers), message.timestamp()[1])


class KafkaPython:
    name = "kafka-python"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, compression: str, idempotent: bool
    ) -> list[int]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
            max_request_size=2_000_000,
        )
        futures = [
            producer.send(
                topic,
                record.value,
                record.key,
                list(record.headers),
                partition=0,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        offsets = [future.get(_WAIT_S).offset for future in futures]
        producer.close()
        return offsets

    def consume(self, bootstrap: str, topic: str, partition: int, count: int) -> Iterator[Record]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
        assigned = kafka.TopicPartition(topic, partition)
        consumer.assign([assigned])
        consumer.seek_to_beginning(assigned)
        left = count
        try:
            while left:
                polled = consumer.poll(_WAIT_S * 1_000, max_records=min(left, _FETCHED_AT_ONCE))
                messages = polled.get(assigned, [])
                assert messages, f"{self.name}: nothing in {_WAIT_S} s, {left} of {count} records are missing"
                for message in messages:
                    yield Record(message.value, message.key, tuple(message.headers), message.timestamp)
                left -= len(messages)
        finally:
            consumer.close()


class AioKafka:
    name = "aiokafka"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, compression: str, idempotent: bool
    ) -> list[int]:
        return asyncio.run(self._produce(bootstrap, topic, records, compression, idempotent))

    async def _produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], compression: str, idempotent: bool
    ) -> list[int]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
            max_request_size=2_000_000,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    record.value,
                    record.key,
                    0,
                    timestamp_ms=record.timestamp,
                    headers=list(record.headers),
                )
                for record in records
            ]
            return [(await future).offset for future in sent]
        finally:
            await producer.stop()

    def consume(self, bootstrap: str, topic: str, partition: int, count: int) -> Iterator[Record]:
        with asyncio.Runner() as runner:
            consumer = runner.run(self._consumer(bootstrap, topic, partition))
            left = count
            try:
                while left:
                    messages = runner.run(self._poll(consumer, min(left, _FETCHED_AT_ONCE)))
                    assert messages, f"{self.name}: nothing in {_WAIT_S} s, {left} of {count} records are missing"
                    yield from messages
                    left -= len(messages)
            finally:
                runner.run(consumer.stop())

    @staticmethod
    async def _poll(consumer: aiokafka.AIOKafkaConsumer, at_most: int) -> list[Record]:
        polled = await consumer.getmany(timeout_ms=int(_WAIT_S * 1_000), max_records=at_most)
        return [
            Record(message.value, message.key, tuple(message.headers), message.timestamp)
            for of_partition in polled.values()
            for message in of_partition
        ]

    async def _consumer(self, bootstrap: str, topic: str, partition: int) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
        await consumer.start()
        assigned = aiokafka.TopicPartition(topic, partition)
        consumer.assign([assigned])
        await consumer.seek_to_beginning(assigned)
        return consumer


CLIENTS: tuple[Client, ...] = (ConfluentKafka(), KafkaPython(), AioKafka())
