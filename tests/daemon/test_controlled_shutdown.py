"""A rolling restart of three brokers under load: others lead before a broker stops, and nothing is lost.

It needs real processes, which stop in order and start again.
"""

import os
import signal
import threading
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.brokers.processes import WITHIN_S, Process, eventually, kill_all
from tests.daemon.cluster import Cluster, rotated
from tests.daemon.cluster_broker import KafkadInCluster
from tests.daemon.shared_cluster import SharedCluster

LED = "controlled shutdown: other brokers lead all partitions"
ALONE = "controlled shutdown: this broker leads until it stops, without another live replica"


class Load:
    """Produces numbers with acks=all until it is stopped; `acknowledged` are those that brokers have."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[int] = []
        self.failed: list[KafkaError] = []
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
        self.unsent = self._producer.flush(WITHIN_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged.append(int(message.value() or b""))

    def continues(self) -> None:
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
        message = consumer.poll(WITHIN_S)
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


def was_led_by_others_before_it_left(cluster: SharedCluster) -> bool:
    """By the numbers of ZooKeeper's transactions, of which the last has ended the session of a broker."""
    states = [f"/brokers/topics/{cluster.topic}/partitions/{index}/state" for index in range(3)]
    _, ids = cluster.zookeeper.get("/brokers/ids")
    return all(cluster.zookeeper.get(state)[1].mzxid < ids.pzxid for state in states)


def test_a_rolling_restart_under_load_loses_nothing(cluster: SharedCluster) -> None:
    topic = cluster.topic
    cluster.create_led(3, topic, rotated(1, 2, 3))
    load = Load(cluster.bootstrap, topic)
    try:
        for each in (1, 2, 3):
            load.continues()
            said = cluster.brokers[each].output.read_text().count(LED)
            cluster.brokers[each].stop()
            assert cluster.brokers[each].output.read_text().count(LED) == said + 1
            assert was_led_by_others_before_it_left(cluster)
            cluster.wait_until(lambda each=each: others_lead(cluster, topic, each), "others lead")  # type: ignore[misc]
            load.continues()
            cluster.brokers[each].start()
            cluster.wait_until(
                lambda each=each: cluster.in_sync(each % 3 + 1, topic) == [{1, 2, 3}] * 3,  # type: ignore[misc]
                "it has caught up",
            )
    finally:
        load.end()
    assert load.failed == []
    assert sorted(all_of(cluster.bootstrap, topic)) == sorted(load.acknowledged)


def test_a_stop_while_the_controller_process_starts_again_lets_others_lead_first(cluster: SharedCluster) -> None:
    """SIGTERM comes when the supervisor replaces the controller process."""
    topic, broker = cluster.topic, cluster.brokers[1]
    cluster.create_led(3, topic, rotated(1, 2, 3))
    said = len(broker.output.read_text())
    (killed,) = controllers(broker)
    kill_all([killed])
    eventually(lambda: pids(broker) not in ([], [killed.pid]), what="the next one exists")
    broker.stop()
    printed = broker.output.read_text()[said:]
    assert LED in printed and "takes too long" not in printed


def test_a_controller_process_that_dies_in_a_controlled_shutdown_is_replaced_first(cluster: SharedCluster) -> None:
    """The supervisor notices SIGTERM and the death of the controller process in one pass, in any order."""
    topic, broker = cluster.topic, cluster.brokers[1]
    cluster.create_led(3, topic, rotated(1, 2, 3))
    said = len(broker.output.read_text())
    os.kill(broker.pid, signal.SIGSTOP)
    stopping = threading.Thread(target=broker.stop)
    stopping.start()
    eventually(lambda: signal.SIGTERM in pending_signals(broker.pid), what="SIGTERM is pending")
    kill_all(controllers(broker))
    os.kill(broker.pid, signal.SIGCONT)
    stopping.join()
    printed = broker.output.read_text()[said:]
    assert "controller-0 exited with SIGKILL" in printed
    assert LED in printed.partition("SIGTERM: stopping the broker")[2]


def pids(broker: KafkadInCluster) -> list[int]:
    return [each.pid for each in controllers(broker)]


def pending_signals(pid: int) -> set[int]:
    """The signals that the process has not received yet."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("ShdPnd:")]
    mask = int(line.partition(":")[2], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def controllers(broker: KafkadInCluster) -> list[Process]:
    return [each for each in broker.tree() if "controller-0" in (each.name, each.title.removeprefix("kafkad "))]


def test_the_last_broker_waits_for_nobody_and_one_without_a_controlled_shutdown_asks_nobody(
    cluster: SharedCluster,
) -> None:
    """The first to leave has no controlled shutdown, and is the controller."""
    first, second, third = cluster.from_controller()
    brokers, topic = cluster.brokers, cluster.topic
    brokers[first].stop()
    brokers[first].overrides["controlled.shutdown.enable"] = "false"
    brokers[first].start()
    cluster.create_led(third, topic, rotated(first, second, third))
    said = {each: len(broker.output.read_text()) for each, broker in brokers.items()}

    def says(each: int) -> str:
        return brokers[each].output.read_text()[said[each] :]

    brokers[first].stop()
    assert f"broker {first} is shutting down" not in says(first)
    cluster.wait_until(lambda: not {first, -1}.intersection(cluster.leaders(third, topic)), "its session has ended")
    brokers[second].stop()
    assert LED in says(second)
    cluster.wait_until(lambda: cluster.leaders(third, topic) == [third] * 3, "the last one leads all")
    brokers[third].stop()
    assert ALONE in says(third)
    del brokers[first].overrides["controlled.shutdown.enable"]
