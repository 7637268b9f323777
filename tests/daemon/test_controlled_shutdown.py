"""A rolling restart of three brokers under load: others lead before a broker stops, and nothing is lost."""

import threading

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.brokers.processes import eventually
from tests.daemon.cluster import Cluster

LED = "controlled shutdown: others lead in its place"
ALONE = "controlled shutdown: it leads until it ends, as no other replica lives"


class Load:
    """Produces numbers with acks=all until it is stopped; `acknowledged` are those that brokers have."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[int] = []
        self.failed: list[KafkaError] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_over.wait(0.002):
            self._producer.produce(self._topic, b"%d" % number, partition=number % 3, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
        assert self._producer.flush(60) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged.append(int(message.value() or b""))

    def goes_on(self) -> None:
        """Wait until more is acknowledged than at this moment."""
        before = len(self.acknowledged)
        eventually(lambda: len(self.acknowledged) > before + 100, within=60, what="records are acknowledged")

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()


def all_of(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "all", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, each, 0) for each in range(3)])
    found: list[int] = []
    at_end: set[int | None] = set()
    while len(at_end) < 3:
        message = consumer.poll(30)
        assert message is not None, f"a reader waits after {len(found)} records"
        if message.error() is None:
            found.append(int(message.value() or b""))
        else:
            at_end.add(message.partition())
    consumer.close()
    return found


def leaders(cluster: Cluster, topic: str, *, but: int) -> list[int]:
    """As another broker than `but` knows them."""
    return cluster.leaders(but % 3 + 1, topic)


@pytest.mark.timeout(600)
def test_a_rolling_restart_under_load_loses_nothing(cluster: Cluster) -> None:
    cluster.create(3, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    for broker in (1, 2, 3):
        cluster.wait_until(
            lambda broker=broker: cluster.leaders(broker, "t") == [1, 2, 3],  # type: ignore[misc]
            f"broker {broker} knows the leaders",
        )
    bootstrap = ",".join(broker.bootstrap for broker in cluster.brokers.values())
    load = Load(bootstrap, "t")
    try:
        for each in (1, 2, 3):
            load.goes_on()
            cluster.brokers[each].stop()
            assert LED in cluster.brokers[each].output.read_text()
            assert each not in leaders(cluster, "t", but=each)
            assert -1 not in leaders(cluster, "t", but=each)
            load.goes_on()
            cluster.brokers[each].start()
            cluster.wait_until(
                lambda each=each: cluster.in_sync(each % 3 + 1, "t") == [{1, 2, 3}] * 3,  # type: ignore[misc]
                "it has caught up",
            )
    finally:
        load.end()
    assert load.failed == []
    assert sorted(all_of(bootstrap, "t")) == sorted(load.acknowledged)


@pytest.mark.timeout(300)
def test_the_last_broker_waits_for_nobody(cluster: Cluster) -> None:
    cluster.create(3, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [1, 2, 3], "the leaders are known")
    for each in (1, 2):
        cluster.brokers[each].stop()
        assert LED in cluster.brokers[each].output.read_text()
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [3, 3, 3], "the last one leads all")
    cluster.brokers[3].stop()
    assert ALONE in cluster.brokers[3].output.read_text()
