"""Writing to compacted topics while processes die, and what consumers may find there at any time.

Each value is of its own, so whoever reads knows which record it was. What was acknowledged is known by offset; of what
was not, anything may have happened.
"""

import random
import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

_WAIT_S = 60.0
_PAUSE_S = 0.1
_READ_S = 120.0
_KEYS = 50
_COMMON = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}

Found = list[tuple[int, bytes, bytes | None]]
"""Offset, key and value of each record, in the order of the log."""


class WrongLog(AssertionError):
    """What was read can't be what was written."""


class Facts:
    """What is known of one partition."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.written: dict[int, tuple[bytes, bytes | None]] = {}
        """What was acknowledged, and committed where that is asked for, by offset."""
        self.hidden: set[bytes] = set()
        """Values of transactions that were aborted."""
        self.sent: dict[bytes, bytes] = {}
        """The key of each value that was ever sent."""
        self._gone: set[int] = set()

    def check(self, found: Found) -> None:
        """`found` is the whole log."""
        offsets = [offset for offset, _, _ in found]
        if offsets != sorted(set(offsets)):
            raise WrongLog(f"{self.topic}: offsets are not in order")
        if self._gone.intersection(offsets):
            raise WrongLog(f"{self.topic}: {sorted(self._gone.intersection(offsets))[:5]} were gone, and are back")
        latest: dict[bytes, int] = {}
        for offset, key, value in found:
            self._check_record(offset, key, value)
            latest[key] = offset
        self._check_latest(latest)
        end = offsets[-1] if offsets else 0
        present = set(offsets)
        self._gone.update(offset for offset in self.written if offset <= end and offset not in present)

    def _check_record(self, offset: int, key: bytes, value: bytes | None) -> None:
        known = self.written.get(offset, (key, value))
        if known != (key, value):
            raise WrongLog(f"{self.topic}: offset {offset} has {key!r}, {value!r}, and was acknowledged as {known!r}")
        if value is not None and (value in self.hidden or self.sent.get(value) != key):
            raise WrongLog(f"{self.topic}: offset {offset} has {key!r}, {value!r}, which nobody may see")

    def _check_latest(self, latest: dict[bytes, int]) -> None:
        expected: dict[bytes, int] = {}
        for offset, (key, _) in sorted(self.written.items()):
            expected[key] = offset
        for key, offset in expected.items():
            value, there = self.written[offset][1], latest.get(key)
            is_forgotten = value is None and there is None
            if not is_forgotten and (there is None or there < offset):
                raise WrongLog(f"{self.topic}: of {key!r} the latest is {there}, and {offset} was acknowledged")

    @property
    def records_gone(self) -> int:
        return len(self._gone)


class PlainWriter:
    """An idempotent producer."""

    def __init__(self, bootstrap: str, topic: str, chosen: random.Random) -> None:
        self.facts = Facts(topic)
        self._random = chosen
        self._count = 0
        self._producer = Producer(
            {
                **_COMMON,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": chosen.choice(["none", "lz4", "zstd"]),
                "on_delivery": self._delivered,
            }
        )

    def write(self, count: int) -> None:
        for _ in range(count):
            key, value = _record(self._random, self.facts, self._count)
            self._count += 1
            self._producer.produce(self.facts.topic, value, key, 0)
        self._producer.poll(0)
        deadline = time.monotonic() + 2 * _WAIT_S
        while len(self._producer) > 5000:
            self._producer.poll(0.05)
            assert time.monotonic() < deadline, "nothing is acknowledged any more"

    def flush(self) -> None:
        assert self._producer.flush(2 * _WAIT_S) == 0, "records neither acknowledged nor refused"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            key, offset = message.key(), message.offset()
            assert key is not None and offset is not None
            self.facts.written[offset] = key, message.value()


class TransactionalWriter:
    """Commits or aborts; after an error that it can't recover from, another follows."""

    def __init__(self, bootstrap: str, topic: str, chosen: random.Random) -> None:
        self.facts = Facts(topic)
        self._bootstrap = bootstrap
        self._random = chosen
        self._count = 0
        self._delivered: dict[int, tuple[bytes, bytes | None]] = {}
        self._producer: Producer | None = None

    def write(self, count: int) -> None:
        """One transaction."""
        values: set[bytes] = set()
        self._delivered = {}
        commits = self._random.random() < 0.7
        begins_to_commit = False
        try:
            producer = self._begun()
            for _ in range(count):
                key, value = _record(self._random, self.facts, self._count)
                self._count += 1
                if value is not None:
                    values.add(value)
                producer.produce(self.facts.topic, value, key, 0, on_delivery=self._on_delivery)
            producer.flush(_WAIT_S)
            if commits:
                begins_to_commit = True
                producer.commit_transaction(_WAIT_S)
                self.facts.written.update(self._delivered)
            else:
                producer.abort_transaction(_WAIT_S)
                self.facts.hidden |= values
        except KafkaException:
            self._producer = None
            if not begins_to_commit:
                # The next one of its name aborts it.
                self.facts.hidden |= values

    def _begun(self) -> Producer:
        deadline = time.monotonic() + 4 * _WAIT_S
        while self._producer is None:
            assert time.monotonic() < deadline, "no transactional producer can begin"
            producer = Producer(
                {**_COMMON, "bootstrap.servers": self._bootstrap, "transactional.id": f"writer-of-{self.facts.topic}"}
            )
            try:
                producer.init_transactions(_WAIT_S)
            except KafkaException:
                time.sleep(_PAUSE_S)
                continue
            self._producer = producer
        self._producer.begin_transaction()
        return self._producer

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            key, offset = message.key(), message.offset()
            assert key is not None and offset is not None
            self._delivered[offset] = key, message.value()

    def flush(self) -> None:
        """A transaction that is left open ends, so that what was written can be read."""
        self._begun().abort_transaction(_WAIT_S)


def _record(chosen: random.Random, facts: Facts, number: int) -> tuple[bytes, bytes | None]:
    key = b"key-%d" % chosen.randrange(_KEYS)
    if chosen.random() < 0.1:
        return key, None
    value = b"%d-" % number + chosen.randbytes(chosen.choice((10, 300, 900)))
    facts.sent[value] = key
    return key, value


def read_all(bootstrap: str, topic: str) -> Found:
    """Everything that is committed now."""
    consumer = Consumer(
        {
            **_COMMON,
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + _READ_S
        found: Found = []
        while True:
            assert time.monotonic() < deadline, f"the end of {topic} is not reached"
            batch = consumer.consume(1000, 0.5)
            found += _rows(batch)
            if any(_is_end(message) for message in batch):
                return found
    finally:
        consumer.close()


def _rows(messages: Iterable[Message]) -> Found:
    rows = []
    for message in messages:
        key, offset = message.key(), message.offset()
        if message.error() is None:
            assert key is not None and offset is not None
            rows.append((offset, key, message.value()))
    return rows


def _is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF
