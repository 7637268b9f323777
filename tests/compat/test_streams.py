"""A Kafka Streams word count with exactly_once_v2: every word counts once, also while workers are killed."""

import random
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.brokers.broker import RunningBroker
from bench.brokers.java import class_path, kafka_tool
from bench.brokers.processes import eventually, kill_all
from tests.compat.conftest import SUBJECT
from tests.compat.side_by_side import Tools

_WORD_COUNT = Path(__file__).parent / "java_sources" / "WordCount.java"
_WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
_LINES = 6_000
_PARTITIONS = 3
_PATIENCE_S = 120.0

NewTopic = Callable[[str], str]


@contextmanager
def _word_count(broker: RunningBroker, name: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One instance of the application; it is told to close when the context ends, and must."""
    arguments = [broker.bootstrap, name, f"{name}-in", f"{name}-out", str(folder / "state")]
    command = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", *class_path(), str(_WORD_COUNT), *arguments]
    folder.mkdir()
    with open(folder / "output.log", "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
    try:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0, (folder / "output.log").read_text()[-2_000:]
    finally:
        process.kill()
        process.wait()


class _Counts:
    """The newest count of each word, as somebody sees it who reads what is committed."""

    def __init__(self, broker: RunningBroker, topic: str) -> None:
        self.of: dict[str, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": f"{topic}-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(_PARTITIONS)])

    def wait_for(self, words: int) -> None:
        eventually(lambda: self._read() >= words, within=_PATIENCE_S, what=f"{words} words are counted")

    def _read(self) -> int:
        """Read on for a moment; how many words are counted."""
        for message in self._consumer.consume(1_000, timeout=0.5):
            key, value = message.key(), message.value()
            assert message.error() is None and key is not None and value is not None, message.error()
            word, (count,) = key.decode(), struct.unpack(">q", value)
            assert count >= self.of.get(word, 0), f"{word} was counted down"
            self.of[word] = count
        return sum(self.of.values())

    def close(self) -> None:
        self._consumer.close()


def _write_lines(broker: RunningBroker, topic: str, chosen: random.Random, count: int) -> Counter[str]:
    written: Counter[str] = Counter()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(count):
        words = chosen.choices(_WORDS, k=5)
        written.update(words)
        producer.produce(topic, " ".join(words), key=str(number))
    assert producer.flush(60) == 0
    return written


def _make_topics(broker: RunningBroker, name: str) -> None:
    for topic in (f"{name}-in", f"{name}-out"):
        args = ["--bootstrap-server", broker.bootstrap, "--create", "--topic", topic]
        done = kafka_tool("kafka-topics", *args, "--partitions", str(_PARTITIONS))
        assert done.returncode == 0, done.stderr.decode()


@pytest.mark.timeout(400)
def test_words_are_counted_once_by_two_instances(
    broker: RunningBroker, tools: Tools, new_topic: NewTopic, tmp_path: Path
) -> None:
    name = new_topic("word-count")
    _make_topics(broker, name)
    counts = _Counts(broker, f"{name}-out")
    with _word_count(broker, name, tmp_path / "first"), _word_count(broker, name, tmp_path / "second"):
        written = _write_lines(broker, f"{name}-in", random.Random(1), _LINES)
        counts.wait_for(written.total())
    counts.close()
    assert counts.of == dict(written)


@pytest.mark.timeout(400)
def test_words_are_counted_once_while_workers_are_killed(tmp_path: Path) -> None:
    chosen = random.Random(2)
    overrides = {
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "num.io.threads": "2",
    }
    with SUBJECT(tmp_path / "broker", overrides) as broker:
        _make_topics(broker, "word-count")
        counts = _Counts(broker, "word-count-out")
        with _word_count(broker, "word-count", tmp_path / "first"):
            written: Counter[str] = Counter()
            for _ in range(5):
                written += _write_lines(broker, "word-count-in", chosen, _LINES // 5)
                counts.wait_for(written.total() // 2)
                kill_all([chosen.choice([each for each in broker.tree() if each.name.startswith("worker")])])
            counts.wait_for(written.total())
        counts.close()
    assert counts.of == dict(written)
