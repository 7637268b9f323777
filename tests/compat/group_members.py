"""Members of consumer groups for the tests of groups: real clients that stay until they are told to go."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import confluent_kafka

from bench.brokers.processes import eventually


class Member:
    """A consumer of confluent-kafka that is in its group for the body of a `with`; it commits what it has read."""

    def __init__(self, bootstrap: str, group: str, topic: str, *, protocol: str = "classic") -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._consumer = confluent_kafka.Consumer(settings)
        self._topic = topic
        self._early: list[confluent_kafka.Message] = []
        """What came while the member waited for its partitions."""

    def __enter__(self) -> Self:
        self._consumer.subscribe([self._topic])
        eventually(self._is_assigned, what="the member has its partitions")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def read(self, count: int) -> list[bytes]:
        """The next `count` records, which are committed."""
        values: list[bytes] = []
        for message in self._messages():
            values.append(message.value() or b"")
            if len(values) == count:
                self._consumer.commit(asynchronous=False)
                return values
        raise AssertionError("a consumer never ends")

    def _messages(self) -> Iterator[confluent_kafka.Message]:
        while self._early:
            yield self._early.pop(0)
        while True:
            message = self._consumer.poll(30)
            assert message is not None, "no record within 30 s"
            assert message.error() is None, message.error()
            yield message

    def _is_assigned(self) -> bool:
        message = self._consumer.poll(0.1)
        if message is not None and message.error() is None:
            self._early.append(message)
        return bool(self._consumer.assignment())


def produce(bootstrap: str, topic: str, *lines: bytes) -> None:
    """To the topic's first partition."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for line in lines:
        producer.produce(topic, line, partition=0)
    assert producer.flush(30) == 0
