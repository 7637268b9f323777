"""Clients that note what they were promised: writers, transactions, readers, and an administrator."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.reassignments import Partition, Reason, reassign

WRITTEN, IN_TRANSACTIONS = "written", "in-transactions"
PARTITIONS = 3
BROKERS = (1, 2, 3)
PATIENCE_S = 120


@dataclass
class Promises:
    """`acknowledged`: the offset of each value, by partition. `ended`: whether transactions were committed."""

    acknowledged: dict[int, dict[bytes, int]] = field(default_factory=lambda: {each: {} for each in range(PARTITIONS)})
    ended: dict[int, bool | None] = field(default_factory=dict)
    seen: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)
    """What was read at each offset of a partition."""
    broken: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str, by: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + by


class Client(threading.Thread):
    """Does its work again and again; whatever goes wrong in it breaks a promise."""

    def __init__(self, bootstrap: str, promises: Promises, seed: int) -> None:
        super().__init__(name=type(self).__name__)
        self.bootstrap = bootstrap
        self.promises = promises
        self.random = random.Random(seed)
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except Exception as problem:  # noqa: BLE001 - it fails the test
            self.promises.broken.append(f"{self.name} ended: {problem!r}")

    def work(self) -> None:
        raise NotImplementedError


class Writer(Client):
    """An idempotent producer with acks=all; values are numbers, in the order in which they are sent."""

    def work(self) -> None:
        life = 0
        while not self.is_over.is_set():
            life += 1
            self._write(life)

    def _write(self, life: int) -> None:
        """Until the client can't go on, which nothing here may cause, or until the end."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "delivery.timeout.ms": PATIENCE_S * 1000,
                "error_cb": lambda error: self._fatal(error),
            }
        )
        sent = 0
        while not self.is_over.is_set():
            for partition in range(PARTITIONS):
                with suppress(BufferError):
                    value = b"%d-%d" % (life, sent)
                    producer.produce(WRITTEN, value, partition=partition, on_delivery=self._delivered)
            sent += 1
            producer.poll(0.005)
        left = producer.flush(PATIENCE_S)
        if left:
            self.promises.broken.append(f"{left} records were never answered")

    def _fatal(self, error: KafkaError) -> None:
        if error.fatal():
            self.promises.broken.append(f"the idempotent producer can't go on: {error}")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.promises.broken.append(f"{message.value()!r} was given up: {error}")
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and offset is not None and value is not None, "a delivery says what was delivered"
        self.promises.acknowledged[partition][value] = offset
        self.promises.count("acknowledged")


class Transactions(Client):
    """Each writes its number to all partitions, then commits or aborts."""

    def work(self) -> None:
        number = 0
        while not self.is_over.is_set():
            producer = Producer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "transactional.id": "chaos",
                    "transaction.timeout.ms": 20_000,
                    "delivery.timeout.ms": 20_000,
                }
            )
            try:
                producer.init_transactions(PATIENCE_S)
                while not self.is_over.is_set():
                    number += 1
                    self._one(producer, number)
            except KafkaException as problem:
                self.promises.count(f"transactions begun anew: {problem.args[0].name()}")

    def _one(self, producer: Producer, number: int) -> None:
        self.promises.ended[number] = False
        producer.begin_transaction()
        try:
            for partition in range(PARTITIONS):
                producer.produce(IN_TRANSACTIONS, b"%d" % number, partition=partition)
            if self.random.random() < 0.2:
                _again(lambda: producer.abort_transaction(20))
                self.promises.count("aborted")
                return
            self.promises.ended[number] = None
            _again(lambda: producer.commit_transaction(20))
        except KafkaException as problem:
            if not problem.args[0].txn_requires_abort():
                raise
            self.promises.ended[number] = False
            _again(lambda: producer.abort_transaction(20))
            self.promises.count("had to be aborted")
            return
        self.promises.ended[number] = True
        self.promises.count("committed")


def _again(call: Callable[[], None]) -> None:
    """As the client asks for it."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except KafkaException as problem:
            if not problem.args[0].retriable() or time.monotonic() > deadline:
                raise


class Reader(Client):
    """Reads committed records, without a group; now and then it begins again where it was before."""

    def work(self) -> None:
        places = [TopicPartition(topic, each, 0) for topic in (WRITTEN, IN_TRANSACTIONS) for each in range(PARTITIONS)]
        at = {(each.topic, each.partition): 0 for each in places}
        while not self.is_over.is_set():
            with consumer(self.bootstrap, f"reader-{self.random.random()}") as reader:
                reader.assign([TopicPartition(topic, each, offset) for (topic, each), offset in at.items()])
                again_at = time.monotonic() + self.random.uniform(5, 20)
                while time.monotonic() < again_at and not self.is_over.is_set():
                    for message in reader.consume(500, 0.5):
                        self._read(message, at)
            for place, offset in at.items():
                at[place] = max(0, offset - self.random.randrange(200))

    def _read(self, message: Message, at: dict[tuple[str, int], int]) -> None:
        if message.error() is not None:
            return
        place = str(message.topic()), int(message.partition() or 0)
        offset, value = int(message.offset() or 0), bytes(message.value() or b"")
        if offset < at[place]:
            self.promises.broken.append(f"{place}: offset {offset} came after {at[place]}")
        at[place] = offset + 1
        before = self.promises.seen.setdefault(place, {}).setdefault(offset, value)
        if before != value:
            self.promises.broken.append(f"{place}: at {offset} was {before!r}, and is {value!r}")
        self.promises.count("read")


class Member(Client):
    """A member of a group: what it committed is never taken back."""

    def work(self) -> None:
        committed: dict[int, int] = {}
        while not self.is_over.is_set():
            with consumer(self.bootstrap, "group") as member:
                member.subscribe([WRITTEN])
                again_at = time.monotonic() + self.random.uniform(10, 30)
                while time.monotonic() < again_at and not self.is_over.is_set():
                    if member.consume(500, 0.5):
                        self._commit(member, committed)

    def _commit(self, member: Consumer, committed: dict[int, int]) -> None:
        try:
            places = member.commit(asynchronous=False) or []
            for each in places:
                if each.error is None and each.offset >= 0:
                    committed[each.partition] = max(committed.get(each.partition, 0), each.offset)
            for each in member.committed(member.assignment(), 10):
                if each.error is None and each.offset < committed.get(each.partition, -1001):
                    self.promises.broken.append(f"committed {committed[each.partition]}, found {each}")
            self.promises.count("offsets committed")
        except KafkaException as problem:
            self.promises.count(f"commits refused: {problem.args[0].name()}")


class Administrator(Client):
    """Makes and deletes topics, through any broker."""

    def work(self) -> None:
        number = 0
        while not self.is_over.is_set():
            admin = AdminClient({"bootstrap.servers": self.bootstrap, "socket.timeout.ms": 10_000})
            number += 1
            name = f"short-{number}"
            self._try(lambda: admin.create_topics([NewTopic(name, 2, 3)], operation_timeout=10), "made")  # noqa: B023
            self.is_over.wait(self.random.uniform(0.1, 2))
            self._try(lambda: admin.delete_topics([name], operation_timeout=10), "deleted")  # noqa: B023

    def _try(self, call: Callable[[], object], what: str) -> None:
        try:
            futures = call()
            assert isinstance(futures, dict)
            for each in futures.values():
                each.result(30)
            self.promises.count(f"topics {what}")
        except TimeoutError:
            self.promises.count(f"topics not {what}: no answer")
        except KafkaException as problem:
            self.promises.count(f"topics not {what}: {problem.args[0].name()}")
            print(f"{time.strftime('%X')} not {what}: {problem.args[0].str()}", flush=True)


class Mover(Client):
    """Takes a replica from a partition and gives it another one soon after; at the end each broker has one again."""

    def work(self) -> None:
        places = [(topic, index) for topic in (WRITTEN, IN_TRANSACTIONS) for index in range(PARTITIONS)]
        while not self.is_over.is_set():
            place = self.random.choice(places)
            for count in (2, 3):
                self._move({place: self.random.sample(BROKERS, count)})
                self.is_over.wait(self.random.uniform(0.5, 5))
                if self.random.random() < 0.2:
                    self._move({place: None})
        tries = threading.Event()
        deadline = time.monotonic() + PATIENCE_S
        while places and time.monotonic() < deadline:
            refused = self._move(dict.fromkeys(places, BROKERS))
            places = [place for place in places if refused.get(place, "unknown") is not None]
            tries.wait(1)
        if places:
            self.promises.broken.append(f"{places} can't get three replicas again")

    def _move(self, targets: Mapping[Partition, Sequence[int] | None]) -> dict[Partition, Reason]:
        """By partition why it was refused; empty if nobody answered."""
        what = "cancelled" if None in targets.values() else "moved"
        try:
            with BrokerClient(self.bootstrap, 10) as client:
                results = reassign(client, targets)
        except BrokerCallFailed:
            self.promises.count(f"partitions not {what}: no answer")
            return {}
        for why in results.values():
            self.promises.count(f"partitions {what}" if why is None else f"partitions not {what}: {why}")
        return results


@contextmanager
def consumer(bootstrap: str, group: str, isolation: str = "read_committed") -> Iterator[Consumer]:
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "session.timeout.ms": 6_000,
        }
    )
    try:
        yield made
    finally:
        made.close()
