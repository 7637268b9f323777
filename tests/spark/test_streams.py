"""Streams in a real Spark: their batches have each committed record once, over restarts and a lost checkpoint."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import eventually
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.source.options import ReadOptions, plan_read
from kafkad_lakehouse.source.stream import TopicStreamReader
from tests.lakehouse.export.reading.test_log_directories import partition, plain
from tests.tools.names import name_of

WITHIN_S = 300.0
SOURCES = pytest.mark.parametrize("source", ["broker", "files"])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    with Kafkad(tmp_path_factory.mktemp("broker"), {"log.segment.bytes": "1048576"}) as running:
        yield running


class Stream:
    """A topic of its own, and a query that stores it as Parquet."""

    def __init__(self, broker: Kafkad, spark: SparkSession, folder: Path, topic: str) -> None:
        self.topic = topic
        self.spark = spark
        self.broker = broker
        self.out, self.checkpoint = folder / "out", folder / "checkpoint"
        self.sent = 0
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic(topic, partitions=2, replication_factor=BROKER_DEFAULT, configs={})

    def produce(self, count: int, partitions: int = 2, codec: str = "lz4") -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "compression.type": codec})
        for number in range(self.sent, self.sent + count):
            producer.produce(self.topic, value=b"%d" % number, partition=number % partitions)
            producer.poll(0)
        assert producer.flush(WITHIN_S) == 0
        self.sent += count

    def reader(self, source: str = "broker", **options: str) -> DataStreamReader:
        found = self.spark.readStream.format("kafkad").option("kafka.bootstrap.servers", self.broker.bootstrap)
        found = found.option("subscribe", self.topic).option("startingOffsets", "earliest")
        if source == "files":
            found = found.option("path", str(self.broker.log_dir))
        return found.options(**options)

    def run(self, frame: DataFrame) -> list[dict[str, Any]]:
        """What is there now, and the progress of its batches."""
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        return ended(writer.trigger(availableNow=True).start(str(self.out)))

    def stored(self) -> list[int]:
        committed = self.spark.read.parquet(str(self.out)).select("value").collect()
        return sorted(int(row.value) for row in committed)


def ended(query: StreamingQuery) -> list[dict[str, Any]]:
    assert query.awaitTermination(int(WITHIN_S))
    batches = [json.loads(each.json) for each in query.recentProgress]
    return [each for each in batches if each["numInputRows"]]


@pytest.fixture
def stream(broker: Kafkad, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Stream:
    name = name_of(request)
    return Stream(broker, spark, tmp_path, name)


@SOURCES
def test_a_query_goes_on_from_its_checkpoint(stream: Stream, source: str) -> None:
    stream.produce(10_000)
    frame = stream.reader(source, maxOffsetsPerTrigger="3000").load()
    batches = stream.run(frame)
    assert [each["numInputRows"] for each in batches] == [3_000, 3_000, 3_000, 1_000]
    (told,) = batches[0]["sources"]
    assert told["endOffset"].pop(f"begun at {json.dumps({stream.topic: {'0': 0, '1': 0}})}") == {}
    assert told["endOffset"] == {stream.topic: {"0": 1_500, "1": 1_500}}
    assert told["latestOffset"] == {stream.topic: {"0": 5_000, "1": 5_000}}
    stream.produce(2_000)
    assert sum(each["numInputRows"] for each in stream.run(frame)) == 2_000
    assert stream.run(frame) == []
    assert stream.stored() == list(range(12_000))


def test_a_first_batch_that_is_repeated_begins_where_it_began(stream: Stream) -> None:
    """Also if a query would now begin elsewhere: Spark asks again, and heeds only where the batch ends."""

    def refuse(_batch: DataFrame, _number: int) -> None:
        raise OSError("the disk is full")

    stream.produce(10)
    writer = stream.reader().load().writeStream.foreachBatch(refuse).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="the disk is full"):
        ended(writer.option("checkpointLocation", str(stream.checkpoint)).start())
    stream.produce(10)
    stream.run(stream.reader(startingOffsets="latest").load())
    assert stream.stored() == list(range(20))


def test_a_time_within_an_open_transaction_is_where_the_transaction_begins(stream: Stream) -> None:
    writer = Producer({"bootstrap.servers": stream.broker.bootstrap, "transactional.id": stream.topic})
    writer.init_transactions(WITHIN_S)
    writer.begin_transaction()
    for milliseconds in (1_000, 2_000):
        writer.produce(stream.topic, value=b"v", partition=1, timestamp=milliseconds)
    assert writer.flush(WITHIN_S) == 0
    requested = {"kafka.bootstrap.servers": stream.broker.bootstrap, "assign": json.dumps({stream.topic: [1]})}
    options = ReadOptions.parse({**requested, "startingTimestamp": "2000"}, is_stream=True)
    reader = TopicStreamReader(options, ["offset"])
    begun = reader.initialOffset()
    assert begun == {stream.topic: {"1": 0}}
    assert reader.partitions(begun, reader.latestOffset(begun, reader.getDefaultReadLimit())) == []
    assert plan_read(ReadOptions.parse({**requested, "endingTimestamp": "2000"})) == []
    writer.commit_transaction(WITHIN_S)
    committed = ReadOptions.parse({**requested, "startingTimestamp": "2000"})
    # Its marker comes a little later.
    eventually(lambda: [each.start for _, each in plan_read(committed)] == [1], within=WITHIN_S, what="the second one")


def test_a_partition_that_is_added_is_found(stream: Stream) -> None:
    stream.produce(100)
    stream.run(stream.reader().load())
    admin = AdminClient({"bootstrap.servers": stream.broker.bootstrap})
    for future in admin.create_partitions([NewPartitions(stream.topic, 5)]).values():
        future.result(WITHIN_S)
    stream.produce(500, partitions=5)
    stream.run(stream.reader().load())
    assert stream.stored() == list(range(600))


def test_a_topic_that_fits_the_pattern_later_is_found(stream: Stream) -> None:
    pattern = f"{stream.topic}.*"
    reader = stream.spark.readStream.format("kafkad").option("kafka.bootstrap.servers", stream.broker.bootstrap)
    frame = reader.option("subscribePattern", pattern).option("startingOffsets", "earliest").load()
    stream.produce(10)
    stream.run(frame)
    with BrokerClient(stream.broker.bootstrap) as client:
        client.create_topic(f"{stream.topic}-b", partitions=1, replication_factor=BROKER_DEFAULT, configs={})
    stream.topic = f"{stream.topic}-b"
    stream.produce(10, partitions=1)
    stream.run(frame)
    assert stream.stored() == list(range(20))


def test_a_topic_that_is_gone_ends_the_query_with_a_sentence(stream: Stream) -> None:
    stream.produce(10)
    stream.run(stream.reader().load())
    with BrokerClient(stream.broker.bootstrap) as client:
        client.delete_topic(stream.topic)
        client.until_deadline(
            lambda: client.create_topic(stream.topic, partitions=1, replication_factor=BROKER_DEFAULT, configs={})
        )
    with pytest.raises(StreamingQueryException, match="failOnDataLoss=false"):
        stream.run(stream.reader().load())


@pytest.mark.parametrize("has_offsets", [True, False])
def test_a_query_whose_checkpoint_is_lost_goes_on_where_its_table_ends(stream: Stream, has_offsets: bool) -> None:
    """`has_offsets`: a Delta table of the query's own. Without it, the folder does not say where it ends."""
    table = str(stream.out)
    columns = ["topic", "partition", "offset", "value"] if has_offsets else ["value"]

    def append(batch: DataFrame, number: int) -> None:
        write_deltalake(table, batch.select(*columns).toArrow(), mode="append")

    def run() -> None:
        writer = stream.reader(startingTable=table).load().writeStream.foreachBatch(append)
        writer = writer.option("checkpointLocation", str(stream.checkpoint)).trigger(availableNow=True)
        ended(writer.start())

    stream.produce(1_000)
    run()
    shutil.rmtree(stream.checkpoint)
    stream.produce(500)
    if not has_offsets:
        with pytest.raises(StreamingQueryException, match="has no column 'topic'"):
            run()
        return
    run()
    assert sorted(int(each) for each in DeltaTable(table).to_pyarrow_table().column("value").to_pylist()) == list(
        range(1_500)
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "endingoffsets is no option of streams"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger: expected a number"),
        ({"startingTable": "/usr/lib"}, "has no end offsets"),
    ],
)
def test_wrong_options_of_streams_are_named(stream: Stream, options: dict[str, str], said: str) -> None:
    with pytest.raises(StreamingQueryException, match=said) as rejected:
        stream.run(stream.reader(**options).load())
    assert "Traceback" not in str(rejected.value)


def test_directories_of_another_topic_of_this_name_are_refused(stream: Stream, tmp_path: Path) -> None:
    stream.produce(10)
    for number in range(2):
        partition(tmp_path / "other", f"{stream.topic}-{number}", *map(plain, range(5)))
    requested = {"kafka.bootstrap.servers": stream.broker.bootstrap, "subscribe": stream.topic}
    with pytest.raises(ExportFailed, match="has another topic id than the broker's topic"):
        plan_read(ReadOptions.parse({**requested, "path": str(tmp_path / "other")}))


def test_one_partition_is_read_by_several_tasks(stream: Stream) -> None:
    for _ in range(40):
        stream.produce(500, partitions=1, codec="none")
    for source in ("broker", "files"):
        frame = stream.spark.read.format("kafkad").option("kafka.bootstrap.servers", stream.broker.bootstrap)
        frame = frame.option("path", str(stream.broker.log_dir)) if source == "files" else frame
        loaded = frame.option("subscribe", stream.topic).option("minPartitions", "4").load()
        assert loaded.rdd.getNumPartitions() >= 4
        assert sorted(int(row.value) for row in loaded.select("value").collect()) == list(range(20_000))


def test_the_files_of_a_stream_can_be_read_by_anybody(stream: Stream) -> None:
    stream.produce(10)
    stream.run(stream.reader(includeHeaders="true").load())
    (first, *_) = stream.out.glob("*.parquet")
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert pq.read_schema(first).names == names
