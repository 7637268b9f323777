"""Spark's own Kafka source on a kafkad broker while the topic changes: gaps, new partitions, a new topic, retention."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import eventually
from kafkad.client.broker_client import BrokerClient
from tests.tools.names import name_of

WITHIN_S = 300.0
SETTINGS = {"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "0", "log.segment.delete.delay.ms": "50"}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    with Kafkad(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


class Topic:
    """A topic of its own, which Spark reads with the source of a name."""

    def __init__(self, broker: Kafkad, spark: SparkSession, folder: Path, name: str) -> None:
        self._broker = broker
        self._spark = spark
        self.name = name
        self.out, self.checkpoint = folder / "out", folder / "checkpoint"
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def make(self, partitions: int = 2, **configs: str) -> None:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        with BrokerClient(self._broker.bootstrap) as client:
            client.until_deadline(
                lambda: client.create_topic(self.name, partitions=partitions, replication_factor=1, configs=named)
            )

    def produce(self, numbers: range, partitions: Sequence[int] = (0, 1), keys: int = 1_000_000, size: int = 1) -> None:
        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "linger.ms": 5})
        for number in numbers:
            value = b"%d" % number + b" " * size
            key = b"%d" % (number % keys)
            producer.produce(self.name, value, key=key, partition=partitions[number % len(partitions)])
            producer.poll(0)
        assert producer.flush(WITHIN_S) == 0

    def delete_records(self) -> None:
        """All that are there now, as retention does."""
        ends = [TopicPartition(self.name, partition, OFFSET_END) for partition in (0, 1)]
        for future in self.admin.delete_records(ends).values():
            future.result(WITHIN_S)

    def batch(self, kind: str = "kafka", **options: str) -> DataFrame:
        reader = self._spark.read.format(kind).option("kafka.bootstrap.servers", self._broker.bootstrap)
        return reader.option("subscribe", self.name).options(**options).load()

    def frame(self, **options: str) -> DataFrame:
        """A stream from the first record on."""
        reader = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._broker.bootstrap)
        return reader.option("subscribe", self.name).option("startingOffsets", "earliest").options(**options).load()

    def query(self, *, is_endless: bool, **options: str) -> StreamingQuery:
        """Into files; it goes on from its checkpoint."""
        writer = self.frame(**options).writeStream.option("checkpointLocation", str(self.checkpoint))
        trigger = writer.trigger(processingTime="0 seconds") if is_endless else writer.trigger(availableNow=True)
        return trigger.start(str(self.out))

    def run(self, **options: str) -> None:
        assert self.query(is_endless=False, **options).awaitTermination(int(WITHIN_S))

    def stored(self) -> list[int]:
        return sorted(int(row.value) for row in self._spark.read.parquet(str(self.out)).collect())


@pytest.fixture
def topic(broker: Kafkad, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Topic:
    return Topic(broker, spark, tmp_path, name_of(request))


@pytest.mark.parametrize("kind", ["kafka", "kafkad"])
def test_a_time_that_no_record_has_is_refused_or_the_end(topic: Topic, kind: str) -> None:
    topic.make()
    topic.produce(range(100))
    late = {"startingTimestamp": str(4_000_000_000_000)}
    with pytest.raises(PySparkException, match=r"(?i)offset"):
        topic.batch(kind, **late).count()
    assert topic.batch(kind, **late, startingOffsetsByTimestampStrategy="latest").count() == 0
    assert topic.batch(kind, endingTimestamp=late["startingTimestamp"]).count() == 100


@pytest.mark.parametrize("kind", ["kafka", "kafkad"])
@pytest.mark.parametrize("option", ["startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsets"])
def test_what_is_said_of_some_partitions_only_is_refused(topic: Topic, option: str, kind: str) -> None:
    topic.make()
    topic.produce(range(10))
    with pytest.raises((PySparkException, Py4JJavaError), match=option):
        topic.batch(kind, **{option: json.dumps({topic.name: {"0": 1}})}).count()


def test_partitions_that_are_added_in_mid_stream_are_found(topic: Topic) -> None:
    topic.make()
    topic.produce(range(100))
    query = topic.query(is_endless=True)
    try:
        query.processAllAvailable()
        assert topic.stored() == list(range(100))
        topic.admin.create_partitions([NewPartitions(topic.name, 4)])[topic.name].result(WITHIN_S)
        topic.produce(range(100, 200), partitions=(0, 1, 2, 3))
        query.processAllAvailable()
    finally:
        query.stop()
    assert topic.stored() == list(range(200))


def test_a_topic_that_is_made_again_is_data_loss(topic: Topic) -> None:
    topic.make()
    topic.produce(range(100))
    topic.run()
    topic.admin.delete_topics([topic.name])[topic.name].result(WITHIN_S)
    topic.make()
    topic.produce(range(100, 120))
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        topic.run()
    topic.run(failOnDataLoss="false")
    topic.produce(range(200, 400))
    topic.run(failOnDataLoss="false")
    assert set(range(100)) <= set(topic.stored()) and topic.stored()[-1] == 399


@pytest.mark.parametrize("fails", [True, False])
def test_what_retention_takes_between_two_batches_is_data_loss(topic: Topic, fails: bool) -> None:
    topic.make()
    topic.produce(range(100))
    topic.run()
    topic.produce(range(100, 150))
    topic.delete_records()
    topic.produce(range(150, 180))
    if fails:
        with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
            topic.run()
        assert topic.stored() == list(range(100))
    else:
        topic.run(failOnDataLoss="false")
        assert topic.stored() == [*range(100), *range(150, 180)]


@pytest.mark.parametrize("fails", [True, False])
def test_what_retention_takes_between_planning_and_reading_is_data_loss(topic: Topic, fails: bool) -> None:
    """A batch whose offsets are named is planned with them, whatever is there."""
    topic.make()
    topic.produce(range(100))
    topic.delete_records()
    topic.produce(range(100, 130))
    starts = {"startingOffsets": json.dumps({topic.name: {"0": 10, "1": 10}})}
    if fails:
        with pytest.raises((PySparkException, Py4JJavaError), match="failOnDataLoss"):
            topic.batch(**starts).collect()
    else:
        rows = topic.batch(**starts, failOnDataLoss="false").collect()
        assert sorted(int(row.value) for row in rows) == list(range(100, 130))


def place(row: Row) -> tuple[int, int]:
    return row.partition, row.offset


def test_a_compacted_topic_has_gaps_and_the_latest_of_each_key(topic: Topic, broker: Kafkad) -> None:
    topic.make(1, **{name.replace(".", "_"): value for name, value in COMPACTED.items()})
    topic.produce(range(6_000), partitions=(0,), keys=50, size=1_000)

    def is_compacted() -> bool:
        return sum(path.stat().st_size for path in broker.log_dir.glob(f"{topic.name}-0/*.log")) < 2_500_000

    eventually(is_compacted, within=WITHIN_S, what="all but the newest records are gone")
    theirs = sorted(topic.batch().collect(), key=place)
    offsets = [row.offset for row in theirs]
    assert len(theirs) < 3_000 and offsets[-1] == 5_999
    latest = {row.key: int(row.value) for row in theirs}
    assert latest == {b"%d" % (number % 50): number for number in range(5_950, 6_000)}
    for options in ({}, {"path": str(broker.log_dir)}):
        assert sorted(topic.batch("kafkad", **options).collect(), key=place) == theirs
    topic.run(maxOffsetsPerTrigger="1000")
    assert topic.stored() == sorted(int(row.value) for row in theirs)


def test_a_partition_is_divided_by_records(topic: Topic) -> None:
    """Spark 4.2 heeds this option in streams."""
    topic.make()
    topic.produce(range(1_000))
    divided: list[tuple[int, list[int]]] = []

    def store(frame: DataFrame, _number: int) -> None:
        divided.append((frame.rdd.getNumPartitions(), sorted(int(row.value) for row in frame.collect())))

    writer = topic.frame(maxRecordsPerPartition="100").writeStream.foreachBatch(store)
    query = writer.option("checkpointLocation", str(topic.checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(int(WITHIN_S))
    assert divided == [(10, list(range(1_000)))]
