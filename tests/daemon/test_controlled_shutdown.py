"""A rolling restart of three brokers under load: others lead before a broker stops, and nothing is lost."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.brokers.processes import eventually
from tests.daemon.cluster import Cluster
from tests.daemon.leader_watch import LeaderWatch

SESSION_S = 18
"""Nobody is killed here: no session has to end soon, and none may on a busy machine."""
LED = "controlled shutdown: others lead in its place"
ALONE = "controlled shutdown: it leads until it ends, as no other replica lives"


class UnhurriedCluster(Cluster):
    def settings(self) -> dict[str, str]:
        return {**super().settings(), "zookeeper.session.timeout.ms": str(SESSION_S * 1_000)}


class OneLeavesAtOnce(UnhurriedCluster):
    def settings_of(self, folder: Path) -> dict[str, str]:
        return {**self.settings(), "controlled.shutdown.enable": str(folder.name != "1").lower()}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as ends:
        yield UnhurriedCluster(tmp_path, ends)


class Load:
    """Produces numbers with acks=all until it is stopped; `acknowledged` are those that brokers have. `longest_wait_s`:
    between two acknowledgements of a partition.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[int] = []
        self.failed: list[KafkaError] = []
        self.longest_wait_s = 0.0
        self._acknowledged_s: dict[int | None, float] = {}
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._topic = topic
        self.unsent = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_over.wait(0.002):
            self._producer.produce(self._topic, b"%d" % number, partition=number % 3, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
        self.unsent = self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged.append(int(message.value() or b""))
            now_s, partition = time.monotonic(), message.partition()
            self.longest_wait_s = max(self.longest_wait_s, now_s - self._acknowledged_s.get(partition, now_s))
            self._acknowledged_s[partition] = now_s

    def goes_on(self) -> None:
        """Wait until more is acknowledged than at this moment."""
        before = len(self.acknowledged)
        eventually(lambda: len(self.acknowledged) > before + 100, what="records are acknowledged")

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()
        assert self.unsent == 0, "records were not answered"


def all_of(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "all", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, each, 0) for each in range(3)])
    found: list[int] = []
    at_end: set[int | None] = set()
    """A reader hears of other errors too, as of a broker that was away: they are no end."""
    while len(at_end) < 3:
        message = consumer.poll(30)
        assert message is not None, f"a reader waits after {len(found)} records"
        error = message.error()
        if error is None:
            found.append(int(message.value() or b""))
        elif error.code() == KafkaError._PARTITION_EOF:
            at_end.add(message.partition())
    consumer.close()
    return found


def others_lead(cluster: Cluster, topic: str, gone: int) -> bool:
    """As another broker knows it, which hears of it a moment after the controller has written it."""
    return not {gone, -1}.intersection(cluster.leaders(gone % 3 + 1, topic))


@pytest.mark.timeout(600)
def test_a_rolling_restart_under_load_loses_nothing(cluster: Cluster) -> None:
    cluster.create(3, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    for broker in (1, 2, 3):
        cluster.wait_until(
            lambda broker=broker: cluster.leaders(broker, "t") == [1, 2, 3],  # type: ignore[misc]
            f"broker {broker} knows the leaders",
        )
    bootstrap = ",".join(broker.bootstrap for broker in cluster.brokers.values())
    watch = LeaderWatch(
        cluster.zookeeper, "t", 3, {each: ("127.0.0.1", broker.port) for each, broker in cluster.brokers.items()}
    )
    load = Load(bootstrap, "t")
    try:
        for each in (1, 2, 3):
            load.goes_on()
            cluster.brokers[each].stop()
            assert LED in cluster.brokers[each].output.read_text()
            cluster.wait_until(lambda each=each: others_lead(cluster, "t", each), "others lead")  # type: ignore[misc]
            load.goes_on()
            cluster.brokers[each].start()
            cluster.wait_until(
                lambda each=each: cluster.in_sync(each % 3 + 1, "t") == [{1, 2, 3}] * 3,  # type: ignore[misc]
                "it has caught up",
            )
    finally:
        try:
            load.end()
        finally:
            without_leader_s = watch.end()
    print(f"longest without a leader: {max(without_leader_s):.3f} s, between answers: {load.longest_wait_s:.3f} s")
    assert max(without_leader_s) < SESSION_S, "a partition waited for a session instead of an election"
    assert load.failed == []
    assert sorted(all_of(bootstrap, "t")) == sorted(load.acknowledged)


@pytest.mark.timeout(300)
def test_the_last_broker_waits_for_nobody_and_one_without_a_controlled_shutdown_asks_nobody(tmp_path: Path) -> None:
    with ExitStack() as ends:
        cluster = OneLeavesAtOnce(tmp_path, ends)
        cluster.create(3, "t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        cluster.wait_until(lambda: cluster.leaders(3, "t") == [1, 2, 3], "the leaders are known")
        assert cluster.controller(3) == 1
        cluster.brokers[1].stop()
        assert "broker 1 is shutting down" not in cluster.brokers[1].output.read_text()
        cluster.wait_until(lambda: others_lead(cluster, "t", 1), "its session has ended")
        cluster.brokers[2].stop()
        assert LED in cluster.brokers[2].output.read_text()
        cluster.wait_until(lambda: cluster.leaders(3, "t") == [3, 3, 3], "the last one leads all")
        cluster.brokers[3].stop()
        assert ALONE in cluster.brokers[3].output.read_text()
