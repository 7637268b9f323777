"""Consumers of three client libraries that come and go in one group, and the book of what they read and committed.

A consumer lives in a thread of its own, or, for the one library that is asynchronous, in a task of a thread that all
of them share. Each stays for a while, leaves, and comes back as a new member, until the book says that all is read.
"""

import asyncio
import random
import threading
from collections.abc import Callable, Iterable
from functools import partial

import aiokafka  # type: ignore[import-untyped]
import confluent_kafka
import kafka  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]

POLL_S = 0.2
STAY_S = (5.0, 120.0)
SESSION_MS, HEARTBEAT_MS = 10_000, 500


class Book:
    """Who read what. Mistakes are written down, for a thread can't fail a test."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.read: dict[int, set[int]] = {}
        self.expected: dict[int, int] = {}
        self.mistakes: list[str] = []
        self.assignments = 0
        self.is_calm = threading.Event()
        """Set when members are to stay."""
        self.is_over = threading.Event()
        self._committed: dict[int, int] = {}
        self._first: dict[tuple[str, int], int] = {}

    def assigned(self, name: str, partitions: Iterable[int]) -> None:
        """From now on nothing that was committed before may be read by this member."""
        with self._lock:
            self.assignments += 1
            for partition in partitions:
                self._first[name, partition] = self._committed.get(partition, 0)

    def consumed(self, name: str, partition: int, offset: int) -> None:
        with self._lock:
            first = self._first.get((name, partition))
            if first is None or offset < first:
                self.mistakes.append(f"{name} reads {offset} of partition {partition}, {first} was committed before")
            self.read.setdefault(partition, set()).add(offset)

    def committed(self, offsets: dict[int, int]) -> None:
        with self._lock:
            for partition, offset in offsets.items():
                self._committed[partition] = max(offset, self._committed.get(partition, 0))

    def missing(self) -> dict[int, int]:
        """How many records of each partition nobody has read."""
        with self._lock:
            return {
                partition: count - len(self.read.get(partition, ()))
                for partition, count in self.expected.items()
                if len(self.read.get(partition, ())) < count
            }


class Stay:
    """How long a member stays this time, and what is the name of it."""

    def __init__(self, book: Book, slot: str, seed: random.Random) -> None:
        self._book = book
        self._slot = slot
        self._seed = seed
        self._incarnations = 0

    def begin(self) -> str:
        self._incarnations += 1
        self._polls = int(self._seed.uniform(*STAY_S) / POLL_S)
        return f"{self._slot}.{self._incarnations}"

    @property
    def continues(self) -> bool:
        """Called once a poll."""
        self._polls -= 1
        if self._book.is_over.is_set():
            return False
        return self._book.is_calm.is_set() or self._polls > 0


def confluent_life(bootstrap: str, group: str, topic: str, book: Book, stay: Stay) -> None:
    name = stay.begin()
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic], on_assign=lambda _, rows: book.assigned(name, [each.partition for each in rows]))
    while stay.continues:
        offsets: dict[int, int] = {}
        for message in consumer.consume(50, POLL_S):
            partition, offset = message.partition(), message.offset()
            if message.error() is None and partition is not None and offset is not None:
                book.consumed(name, partition, offset)
                offsets[partition] = offset + 1
        rows = [confluent_kafka.TopicPartition(topic, *each) for each in offsets.items()]
        try:
            if rows:
                consumer.commit(offsets=rows, asynchronous=False)
                book.committed(offsets)
        except confluent_kafka.KafkaException:
            # The group rebalances: who owns the partitions next reads the records again.
            continue
    consumer.close()


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, book: Book, name: str) -> None:
        self._book = book
        self._name = name

    def on_partitions_revoked(self, revoked: object) -> None:
        pass

    def on_partitions_assigned(self, assigned: Iterable[kafka.TopicPartition]) -> None:
        self._book.assigned(self._name, [each.partition for each in assigned])


def kafka_python_life(bootstrap: str, group: str, topic: str, book: Book, stay: Stay) -> None:
    name = stay.begin()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[kafka.coordinator.assignors.range.RangePartitionAssignor],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    consumer.subscribe([topic], listener=_Listener(book, name))
    while stay.continues:
        offsets: dict[int, int] = {}
        for at, messages in consumer.poll(POLL_S * 1000, 50).items():
            for message in messages:
                book.consumed(name, at.partition, message.offset)
                offsets[at.partition] = message.offset + 1
        rows = {
            kafka.TopicPartition(topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        try:
            if rows:
                consumer.commit(rows)
                book.committed(offsets)
        except kafka.errors.KafkaError:
            continue
    consumer.close(autocommit=False)


class _AsyncListener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, book: Book, name: str) -> None:
        self._book = book
        self._name = name

    async def on_partitions_revoked(self, revoked: object) -> None:
        pass

    async def on_partitions_assigned(self, assigned: Iterable[aiokafka.TopicPartition]) -> None:
        self._book.assigned(self._name, [each.partition for each in assigned])


async def aiokafka_life(bootstrap: str, group: str, topic: str, book: Book, stay: Stay) -> None:
    name = stay.begin()
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[RangePartitionAssignor],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    consumer.subscribe([topic], listener=_AsyncListener(book, name))
    await consumer.start()
    try:
        while stay.continues:
            offsets: dict[int, int] = {}
            for at, messages in (await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=50)).items():
                for message in messages:
                    book.consumed(name, at.partition, message.offset)
                    offsets[at.partition] = message.offset + 1
            rows = {aiokafka.TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
            try:
                if rows:
                    await consumer.commit(rows)
                    book.committed(offsets)
            except aiokafka.errors.KafkaError:
                continue
    finally:
        await consumer.stop()


def crowd(bootstrap: str, group: str, topic: str, book: Book, seed: random.Random) -> list[threading.Thread]:
    """Threads, to be started, with fifty consumers."""
    slots = [("confluent", confluent_life)] * 18 + [("kafka-python", kafka_python_life)] * 16
    threads = []
    for at, (library, incarnation) in enumerate(slots):
        stay = Stay(book, f"{library} {at}", random.Random(seed.random()))
        threads.append(_thread(book, partial(incarnation, bootstrap, group, topic, book, stay)))
    return [*threads, _async_thread(16, bootstrap, group, topic, book, seed)]


def _thread(book: Book, incarnation: Callable[[], None]) -> threading.Thread:
    def incarnations() -> None:
        while not book.is_over.is_set():
            incarnation()

    return threading.Thread(target=incarnations)


def _async_thread(
    incarnations: int, bootstrap: str, group: str, topic: str, book: Book, seed: random.Random
) -> threading.Thread:
    async def one(slot: int) -> None:
        stay = Stay(book, f"aiokafka {slot}", random.Random(seed.random()))
        while not book.is_over.is_set():
            await aiokafka_life(bootstrap, group, topic, book, stay)

    async def every() -> None:
        await asyncio.gather(*(one(slot) for slot in range(incarnations)))

    return threading.Thread(target=lambda: asyncio.run(every()))
