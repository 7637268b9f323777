"""Transactions whose coordinators, partitions and groups live on three brokers, each of which is killed in turn."""

import threading

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from bench.brokers.processes import WITHIN_S, eventually
from tests.daemon.cluster import rotated
from tests.daemon.shared_cluster import SharedCluster

RECORDS = 600
IN_A_TRANSACTION = 20
ABORTED_EACH = 4
STANDS_STILL_LOOKS = 20
"""A second each: of a pause of the machine one look is lost, not all of them."""


def fill(cluster: SharedCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=number % 3)
    assert producer.flush(WITHIN_S) == 0


def ends(cluster: SharedCluster, topic: str, isolation: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "ends", "isolation.level": isolation})
    try:
        places = [TopicPartition(topic, each) for each in range(3)]
        offsets = [consumer.get_watermark_offsets(each, timeout=WITHIN_S)[1] for each in places]
    finally:
        consumer.close()
    return offsets


def committed(cluster: SharedCluster, topic: str) -> list[int]:
    """All that can be read of it, with read_committed, in any order."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, each, 0) for each in range(3)])
    found: list[int] = []
    at_end: set[int | None] = set()
    try:
        while len(at_end) < 3:
            message = consumer.poll(WITHIN_S)
            assert message is not None, f"a reader waits after {len(found)} records"
            if message.error() is None:
                found.append(int(message.value() or b""))
            else:
                at_end.add(message.partition())
    finally:
        consumer.close()
    return found


class Pipeline:
    """Copies `source` to `sink` in transactions that commit the offsets read; some are aborted and done again.

    librdkafka 2.16 waits for ever for the answer to TxnOffsetCommit if the group's coordinator has left the metadata
    meanwhile (it looks into its cache of coordinators, where the broker stays). Then another incarnation takes over.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.copied = 0
        self.abandoned = 0
        self.problem: BaseException | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def finish(self) -> None:
        """Wait for the last record."""
        self._thread.join(240)
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), f"it stands still after {self.copied} records"
        if self.problem is not None:
            raise self.problem

    def _run(self) -> None:
        while self.copied < RECORDS and self.problem is None and not self._is_over.is_set():
            incarnation = threading.Thread(target=self._incarnation, daemon=True)
            incarnation.start()
            copied_before = -1
            while incarnation.is_alive() and self.copied > copied_before:
                copied_before = self.copied
                for _ in range(STANDS_STILL_LOOKS):
                    if self.copied == copied_before:
                        incarnation.join(1)
            self.abandoned += incarnation.is_alive()

    def _incarnation(self) -> None:
        try:
            self._copy()
        except Exception as problem:  # noqa: BLE001 - whatever it is, finish() raises it in the test
            self.problem = problem

    def _copy(self) -> None:
        """One incarnation of the application; it ends with an error that asks for the next."""
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": "pipeline", "transaction.timeout.ms": 30_000}
        )
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "pipeline",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6_000,
                "max.poll.interval.ms": 10_000,
            }
        )
        consumer.subscribe(["source"])
        try:
            producer.init_transactions(60)
            number = 0
            while self.copied < RECORDS and not self._is_over.is_set():
                batch = [each for each in consumer.consume(IN_A_TRANSACTION, 2) if each.error() is None]
                if batch:
                    number += 1
                    self._transaction(producer, consumer, batch, aborts=number % ABORTED_EACH == 0)
        except KafkaException:
            pass
        finally:
            consumer.close()

    def _transaction(self, producer: Producer, consumer: Consumer, batch: list[Message], *, aborts: bool) -> None:
        """Raises KafkaException after which the application begins anew, from the committed offsets."""
        producer.begin_transaction()
        for message in batch:
            producer.produce("sink", message.value(), partition=message.partition() or 0)
        if aborts:
            assert producer.flush(WITHIN_S) == 0
            producer.abort_transaction(60)
            raise KafkaException("begin anew")
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), metadata, 60)
        while True:
            try:
                producer.commit_transaction(60)
            except KafkaException as refused:
                if not refused.args[0].retriable():
                    raise
            else:
                break
        self.copied += len(batch)


def test_a_pipeline_is_exactly_once_while_each_broker_is_killed(cluster: SharedCluster) -> None:
    for topic in ("source", "sink"):
        cluster.create_led(2, topic, rotated(1, 2, 3))
    fill(cluster, "source")
    pipeline = Pipeline(cluster.bootstrap)
    for victim in (1, 2, 3):
        before = pipeline.copied
        eventually(
            lambda before=before: pipeline.copied > before or pipeline.copied == RECORDS,  # type: ignore[misc]
            what="transactions are committed",
        )
        cluster.brokers[victim].kill()
        other = victim % 3 + 1
        cluster.wait_until(
            lambda victim=victim, other=other: victim not in cluster.leaders(other, "sink"),  # type: ignore[misc]
            "another one leads",
        )
        cluster.brokers[victim].start()
        cluster.wait_until(lambda: cluster.in_sync(other, "sink") == [{1, 2, 3}] * 3, "it has caught up")  # noqa: B023
    pipeline.finish()
    assert pipeline.abandoned <= len(cluster.brokers), "an incarnation stands still though no broker was killed"
    cluster.wait_until(
        lambda: ends(cluster, "sink", "read_committed") == ends(cluster, "sink", "read_uncommitted"),
        "no transaction is open",
    )
    assert sorted(committed(cluster, "sink")) == list(range(RECORDS))
