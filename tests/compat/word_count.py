"""A Kafka Streams word count with exactly_once_v2, lines for it, and what it has counted."""

import random
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.brokers.java import class_path, kafka_tool
from bench.brokers.processes import eventually

_APPLICATION = Path(__file__).parent / "java_sources" / "WordCount.java"
_WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
PARTITIONS = 3


@contextmanager
def word_count(bootstrap: str, name: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One instance of the application; it is told to close when the context ends, and must."""
    arguments = [bootstrap, name, f"{name}-in", f"{name}-out", str(folder / "state")]
    command = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", *class_path(), str(_APPLICATION), *arguments]
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


class Counts:
    """The newest count of each word, as somebody sees it who reads what is committed."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.of: dict[str, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{topic}-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def wait_for(self, words: int) -> None:
        eventually(lambda: self._read() >= words, what=f"{words} words are counted")

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


def write_lines(
    bootstrap: str, topic: str, chosen: random.Random, count: int, meanwhile: Callable[[], None] | None = None
) -> Counter[str]:
    """Returns when all are acknowledged; `meanwhile` is called before that."""
    written: Counter[str] = Counter()
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(count):
        words = chosen.choices(_WORDS, k=5)
        written.update(words)
        producer.produce(topic, " ".join(words), key=str(number))
        if number == count // 2 and meanwhile is not None:
            producer.poll(0)
            meanwhile()
    assert producer.flush(60) == 0
    return written


def make_topics(bootstrap: str, name: str) -> None:
    for topic in (f"{name}-in", f"{name}-out"):
        args = ["--bootstrap-server", bootstrap, "--create", "--topic", topic]
        done = kafka_tool("kafka-topics", *args, "--partitions", str(PARTITIONS))
        assert done.returncode == 0, done.stderr.decode()
