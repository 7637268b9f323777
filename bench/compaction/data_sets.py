"""The logs for compaction: Apache Kafka writes them once, and each broker gets a copy of the files."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from string import ascii_lowercase

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.client_rows import ClientFailed

_WITHIN_S = 120.0
_WORDS = 500
_TEXT_BYTES = 1 << 20
_SMALLEST_SEGMENT = 1 << 20
_NOT_RECORDS = ("partition.metadata",)
"""The file with the topic id, which each broker generates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The properties of the records of a log."""

    record_size: int
    codec: str
    repeated_percent: int
    """The share of records with a repeated key."""
    batch_bytes: int

    def keys(self, records: int) -> Iterator[int]:
        """The keys, the same for each call."""
        chance, known = Random(0), 0
        share = self.repeated_percent / 100
        for _ in range(records):
            if known and chance.random() < share:
                yield chance.randrange(known)
            else:
                yield known
                known += 1

    def records(self, total_bytes: int) -> Iterator[tuple[bytes, bytes]]:
        """Keys of 16 bytes, and values of random words."""
        chance = Random(1)
        words = ["".join(chance.choices(ascii_lowercase, k=chance.randrange(2, 11))) for _ in range(_WORDS)]
        text = " ".join(chance.choices(words, k=_TEXT_BYTES // 4)).encode()[:_TEXT_BYTES]
        size = self.record_size - 16
        for key in self.keys(total_bytes // self.record_size):
            at = chance.randrange(_TEXT_BYTES - size)
            yield b"key %012d" % key, text[at : at + size]


def topic_configs(total_bytes: int) -> dict[str, str]:
    """The configs for a topic with `total_bytes` of records, so that compressed logs have several segments too."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "segment.bytes": str(max(total_bytes // 32, _SMALLEST_SEGMENT)),
    }


def make_topic(broker: RunningBroker, name: str, total_bytes: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1, config=topic_configs(total_bytes))])[name].result(_WITHIN_S)


class DataSets:
    """Logs of partition 0 of topics, in a folder; each log is written on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def log_of(self, content: Content, sizes: dict[str, int]) -> Path:
        """A folder with `<topic>-0` for each topic with that many bytes of records."""
        named = f"{content.record_size}-{content.codec}-{content.repeated_percent}-{content.batch_bytes}"
        written = self._folder / named
        if not written.exists():
            broker = ApacheKafka(self._folder / f"{named}-writer")
            with broker:
                for name, total_bytes in sizes.items():
                    make_topic(broker, name, total_bytes)
                    _write(broker, name, content, total_bytes)
            written.mkdir()
            for name in sizes:
                shutil.move(broker.log_dir / f"{name}-0", written / f"{name}-0")
            shutil.rmtree(broker.folder)
        return written


def _write(broker: RunningBroker, name: str, content: Content, total_bytes: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": content.codec,
            "batch.size": content.batch_bytes,
            "batch.num.messages": 1_000_000,
            "linger.ms": 100,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for key, value in content.records(total_bytes):
        while True:
            try:
                producer.produce(name, value, key, 0)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(_WITHIN_S):
        raise ClientFailed("records were not delivered")


def put_log(source: Path, directory: Path) -> None:
    """Replace the files of an empty partition of a stopped broker by copies of `source`."""
    kept = {name: (directory / name).read_bytes() for name in _NOT_RECORDS if (directory / name).exists()}
    shutil.rmtree(directory)
    shutil.copytree(source, directory, ignore=shutil.ignore_patterns(*_NOT_RECORDS))
    for name, content in kept.items():
        (directory / name).write_bytes(content)
