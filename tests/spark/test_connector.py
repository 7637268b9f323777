"""Spark's own Kafka source and sink on a kafkad broker, beside our data source: the same rows."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from bench.brokers.daemon import Kafkad
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient

TOPIC = "orders"
WITHIN_S = 300.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EACH = 500
BETWEEN = {
    "startingOffsets": json.dumps({TOPIC: {"0": 0, "1": 300, "2": 7}}),
    "endingOffsets": json.dumps({TOPIC: {"0": 800, "1": 700, "2": 90}}),
}
_COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    with Kafkad(tmp_path_factory.mktemp("broker"), {"log.segment.bytes": "1048576"}) as running:
        with BrokerClient(running.bootstrap) as client:
            kept = {"retention.ms": "-1"}
            client.create_topic(TOPIC, partitions=3, replication_factor=BROKER_DEFAULT, configs=kept)
            appended = {**kept, "message.timestamp.type": "LogAppendTime"}
            client.create_topic("appended", partitions=1, replication_factor=BROKER_DEFAULT, configs=appended)
        for codec in CODECS:
            fill(running, codec)
        yield running


def fill(broker: Kafkad, codec: str) -> None:
    """Records of every shape, and a transaction of each kind."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec})
    for number in range(EACH):
        for topic, partition in ((TOPIC, number % 3), ("appended", 0)):
            producer.produce(
                topic,
                key=b"key %d" % number if number % 3 else None,
                value=b"%s %d" % (codec.encode(), number) if number % 5 else None,
                headers=[("name", b"x" * (number % 9)), ("name", b""), ("none", None)] if number % 7 == 0 else [],
                partition=partition,
                timestamp=1_700_000_000_000 + number,
            )
    assert producer.flush(WITHIN_S) == 0
    writer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": codec, "compression.type": codec})
    writer.init_transactions(WITHIN_S)
    for ends in (writer.commit_transaction, writer.abort_transaction):
        writer.begin_transaction()
        for number in range(50):
            writer.produce(TOPIC, value=b"in a transaction %d" % number, partition=number % 3)
        writer.flush(WITHIN_S)
        ends(WITHIN_S)


class Both:
    """The same options for both sources."""

    def __init__(self, spark: SparkSession, broker: Kafkad) -> None:
        self._spark = spark
        self._broker = broker

    def __call__(self, kind: str, **options: str) -> DataFrame:
        requested = {
            "kafka.bootstrap.servers": self._broker.bootstrap,
            "kafka.isolation.level": "read_committed",
            "subscribe": TOPIC,
            "includeHeaders": "true",
            **options,
        }
        return self._spark.read.format(kind).options(**requested).load().select(*_COLUMNS)


@pytest.fixture
def both(spark: SparkSession, broker: Kafkad) -> Both:
    return Both(spark, broker)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subscribe": "appended"},
        {"kafka.isolation.level": "read_uncommitted"},
        {"startingOffsets": json.dumps({TOPIC: {"0": 17, "1": -2, "2": 30}})},
        {"endingOffsets": json.dumps({TOPIC: {"0": 17, "1": 100, "2": -1}}), "minPartitions": "7"},
        {"startingTimestamp": str(1_700_000_000_200)},
        {"maxRecordsPerPartition": "100", "groupIdPrefix": "x", "kafkaConsumer.pollTimeoutMs": "1000"},
        {"endingOffsetsByTimestamp": json.dumps({TOPIC: dict.fromkeys("012", 1_700_000_000_300)})},
    ],
)
def test_both_sources_have_the_same_rows(both: Both, broker: Kafkad, options: dict[str, str]) -> None:
    theirs = both("kafka", **options).collect()
    for ours in (both("kafkad", **options), both("kafkad", **options, path=str(broker.log_dir))):
        assert ours.schema.simpleString() == both("kafka", **options).schema.simpleString()
        assert sorted(ours.collect(), key=_place) == sorted(theirs, key=_place)
    assert theirs


def _place(row: object) -> tuple[object, ...]:
    assert isinstance(row, tuple)
    return row[2:5]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"minPartitions": "2"},
        {"minPartitions": "7"},
        {"minPartitions": "100"},
        # With earliest or latest their batches do not heed it.
        {**BETWEEN, "maxRecordsPerPartition": "100"},
        {"maxRecordsPerPartition": "1000000"},
        {"maxRecordsPerPartition": "333", "minPartitions": "20"},
        {"maxRecordsPerPartition": "50", "minPartitions": "4"},
        {"minPartitions": "9", "startingOffsets": json.dumps({TOPIC: {"0": 0, "1": 800, "2": 830}})},
        {"subscribe": "orders,appended", "minPartitions": "11"},
    ],
)
def test_both_sources_have_the_same_number_of_tasks(both: Both, broker: Kafkad, options: dict[str, str]) -> None:
    theirs = both("kafka", **options)
    for ours in (both("kafkad", **options), both("kafkad", **options, path=str(broker.log_dir))):
        assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions()
        assert ours.count() == theirs.count()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kafka.auto.offset.reset": "earliest"}, "auto.offset.reset"),
        ({"kafka.key.deserializer": "x"}, "key.deserializer"),
        ({"kafka.enable.auto.commit": "true"}, "enable.auto.commit"),
        ({"assign": "{}"}, "subscribe"),
        ({"kafka.isolation.level": "no"}, "isolation.level"),
    ],
)
def test_both_sources_refuse_the_same_options(both: Both, options: dict[str, str], said: str) -> None:
    """Spark makes an AnalysisException of what a source in Python raises."""
    with pytest.raises((IllegalArgumentException, Py4JJavaError), match=said):
        both("kafka", **options).count()
    with pytest.raises(AnalysisException, match=said) as rejected:
        both("kafkad", **options)
    assert "IllegalArgumentException: " in str(rejected.value) and "Traceback" not in str(rejected.value)


def test_our_source_is_no_sink(spark: SparkSession, broker: Kafkad) -> None:
    writer = spark.range(1).selectExpr("cast(id as string) as value").write.format("kafkad").mode("append")
    with pytest.raises(AnalysisException, match="kafkad is only a source") as rejected:
        writer.option("kafka.bootstrap.servers", broker.bootstrap).option("topic", "sunk").save()
    assert "Traceback" not in str(rejected.value)


def test_what_sparks_sink_writes_is_read_by_both(spark: SparkSession, both: Both, broker: Kafkad) -> None:
    frame = spark.range(1_000).selectExpr("cast(id as string) as key", "cast(id * 2 as string) as value")
    frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("topic", "sunk").save()
    for kind in ("kafka", "kafkad"):
        rows = both(kind, subscribe="sunk").collect()
        assert sorted(int(row.key) for row in rows) == list(range(1_000))
        assert all(int(row.value) == 2 * int(row.key) for row in rows)


def test_a_query_changes_its_source_and_keeps_its_checkpoint(
    spark: SparkSession, broker: Kafkad, tmp_path: Path
) -> None:
    """From ours to Spark's Kafka source and back, twice: offsets are spelled alike."""
    with BrokerClient(broker.bootstrap) as client:
        client.create_topic("moved", partitions=2, replication_factor=BROKER_DEFAULT, configs={})
    sent = 0
    for kind in ("kafkad", "kafka", "kafkad", "kafka"):
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(sent, sent + 100):
            producer.produce("moved", value=b"%d" % number, partition=number % 2)
        assert producer.flush(WITHIN_S) == 0
        sent += 100
        reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", broker.bootstrap)
        frame = reader.option("subscribe", "moved").option("startingOffsets", "earliest").load()
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        assert query.awaitTermination(int(WITHIN_S))
    stored = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(int(row.value) for row in stored) == list(range(sent))
