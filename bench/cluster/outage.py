"""Measure the time without acknowledged writes: a producer with acks=all writes to a partition during a fault."""

import threading
import time
from collections.abc import Callable
from itertools import pairwise

from confluent_kafka import KafkaError, Message, Producer

_EVERY_S = 0.005
_CALM_S = 2.0
_TIMEOUT_S = 90.0


class Acknowledgements(threading.Thread):
    """One record every few milliseconds; `longest_s` is the longest time without an acknowledgement."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__(name=f"{topic}-{partition}")
        self._topic, self._partition = topic, partition
        self._is_stopped = threading.Event()
        self.acknowledged_at: list[float] = []
        self.errors: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while not self._is_stopped.is_set():
            self._producer.produce(self._topic, b"x" * 100, partition=self._partition, on_delivery=self._delivered)
            self._producer.poll(_EVERY_S)
        self._producer.flush(_TIMEOUT_S)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged_at.append(time.perf_counter())
        else:
            self.errors.append(error)

    def end(self) -> None:
        self._is_stopped.set()
        self.join()
        assert not self.errors, f"deliveries failed: {self.errors[0]}"

    def longest_s(self, since: float) -> float:
        times = [since, *(each for each in self.acknowledged_at if each >= since)]
        return max(after - before for before, after in pairwise(times))


def longest_outage(bootstrap: str, topic: str, partition: int, fault: Callable[[], object]) -> float:
    """The longest time in seconds without an acknowledgement, from the fault until shortly after the recovery."""
    writer = Acknowledgements(bootstrap, topic, partition)
    writer.start()
    try:
        _until_acknowledged(writer, time.perf_counter())
        time.sleep(_CALM_S)
        since = time.perf_counter()
        fault()
        _until_acknowledged(writer, time.perf_counter())
        time.sleep(_CALM_S)
    finally:
        writer.end()
    return writer.longest_s(since)


def _until_acknowledged(writer: Acknowledgements, since: float) -> None:
    """Wait until a record is acknowledged after `since`."""
    deadline = since + _TIMEOUT_S
    while not (writer.acknowledged_at and writer.acknowledged_at[-1] > since):
        if time.perf_counter() > deadline:
            raise TimeoutError("nothing is acknowledged any more")
        time.sleep(0.01)
