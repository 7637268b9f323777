"""Logs with everything that a partition directory may hold, written through any broker by a real client.

All codecs, several segments, records without key, value or time order, headers, idempotent producers, transactions
that were committed, aborted and left open, offsets that were compacted away, a log start in the middle of a batch.
"""

import random
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import WITHIN_S

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_HOUR_MS = 3_600_000
_FIRST_MS = time.time_ns() // 1_000_000 - 60 * _HOUR_MS
_SMALL = {"segment.ms": str(_HOUR_MS // 2), "index.interval.bytes": "300", "retention.ms": "-1"}
_COMPACTED = _SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
TOPICS: dict[str, dict[str, str]] = {
    **{f"codec-{codec}": _SMALL for codec in CODECS},
    "append-time": _SMALL | {"message.timestamp.type": "LogAppendTime"},
    "transactions": _SMALL,
    "trimmed": _SMALL,
    "compacted": _COMPACTED,
    "half-compacted": _COMPACTED,
    "compacted-transactions": _COMPACTED | {"segment.bytes": str(1 << 20)},
}
COMPACTED = tuple(name for name, config in TOPICS.items() if config.get("cleanup.policy") == "compact")
PARTITIONS = tuple((name, 0) for name in TOPICS)


def create_all(broker: RunningBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
    for made in admin.create_topics(topics).values():
        made.result(WITHIN_S)


def write_all(broker: RunningBroker, name: str, hour: int) -> None:
    """Records of some hours from `hour` on, so that each hour gets a segment; `name` is in their values."""
    for codec in CODECS:
        _write_hours(broker, f"codec-{codec}", codec, name, range(hour, hour + 3))
    _write_hours(broker, "append-time", "lz4", name, range(hour, hour + 2))
    _write_hours(broker, "trimmed", "zstd", name, range(hour, hour + 3))
    _write_hours(broker, "compacted", "lz4", name, range(hour, hour + 4))
    _write_transactions(broker, name, hour)


def trim(broker: RunningBroker, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.delete_records([TopicPartition("trimmed", 0, offset)]).values():
        done.result(WITHIN_S)


def write_to_be_compacted(broker: RunningBroker, name: str, hour: int) -> None:
    """So much that the cleaner is at it for a moment."""
    _write_hours(broker, "half-compacted", "none", name, range(hour, hour + 6), value_bytes=80_000)


def _write_hours(
    broker: RunningBroker, topic: str, codec: str, name: str, hours: Sequence[int], value_bytes: int = 150
) -> None:
    producer = Producer({**_common(broker, codec), "enable.idempotence": True})
    for hour in hours:
        # Several batches of several kilobytes in each segment, the times of some going back.
        for number in range(4):
            _produce(producer, topic, name, hour, number, value_bytes)
            assert producer.flush(WITHIN_S) == 0


def _produce(producer: Producer, topic: str, name: str, hour: int, number: int, value_bytes: int = 150) -> None:
    drawn = random.Random(f"{topic} {hour} {number}")
    for at in range(10):
        producer.produce(
            topic,
            None if at == 7 else f"{name} {hour} {number} {at} ".encode() + drawn.randbytes(value_bytes),
            f"key {drawn.randrange(12)}".encode(),
            0,
            _delivered,
            timestamp=_FIRST_MS + hour * _HOUR_MS + number * 1000 + drawn.randrange(900),
            headers=[("at", str(at).encode())] if at % 3 else [],
        )


def _write_transactions(broker: RunningBroker, name: str, hour: int) -> None:
    """The markers have the time of now: before the first of them a segment ends."""
    ends = _transactional(broker, f"{name}-ends")
    for at, commits in enumerate((True, False, True, False)):
        ends.begin_transaction()
        _produce(ends, "transactions", name, hour + at, at)
        # Its key does not come again: in a log whose first segment was emptied, Apache Kafka finds nothing by time.
        ends.produce(
            "compacted-transactions",
            b"stays",
            f"{name} {hour + at}".encode(),
            0,
            _delivered,
            timestamp=_FIRST_MS + (hour + at) * _HOUR_MS,
        )
        # Two of them fill a segment: by their times none would end behind a marker.
        _produce(ends, "compacted-transactions", name, hour + at, at, value_bytes=80_000)
        assert ends.flush(WITHIN_S) == 0
        if commits:
            ends.commit_transaction(WITHIN_S)
        else:
            ends.abort_transaction(WITHIN_S)


def leave_open(broker: RunningBroker, name: str, hour: int) -> Producer:
    """A transaction that is open as long as the producer is kept."""
    stays = _transactional(broker, f"{name}-stays")
    stays.begin_transaction()
    _produce(stays, "transactions", name, hour, 0)
    assert stays.flush(WITHIN_S) == 0
    return stays


def fence(broker: RunningBroker, name: str) -> None:
    """The next producer of the id aborts what the one before left open."""
    _transactional(broker, f"{name}-stays")


def _transactional(broker: RunningBroker, transactional_id: str) -> Producer:
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": 900_000}
    producer = Producer({**_common(broker, "zstd"), **settings})
    producer.init_transactions(WITHIN_S)
    return producer


def _common(broker: RunningBroker, codec: str) -> dict[str, str | int]:
    return {"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 20, "log_level": 0}


def _delivered(error: KafkaError | None, _: Message) -> None:
    assert error is None, error
