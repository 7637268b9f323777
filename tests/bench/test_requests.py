"""The benchmark's own encoder: kio, made from Kafka's schemas, reads its bytes as what they were meant to be."""

from typing import Any

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.fetch.v12.request import FetchRequest
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.produce.v9.request import ProduceRequest
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader

from bench import requests
from kafkad.core.log.records.batch import has_valid_crc, read_header


def decoded(frame: bytes, schema: Any) -> Any:
    """The request in the frame; every byte of it has to be used."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, used = entity_reader(RequestHeader)(frame, 4)
    assert (header.request_api_key, header.request_api_version) == (schema.__api_key__, schema.__version__)
    request, rest = entity_reader(schema)(frame, 4 + used)
    assert 4 + used + rest == len(frame)
    return request


def test_a_batch_is_whole_and_has_as_many_records_as_asked_for() -> None:
    batch = requests.record_batch(12, 100)
    header = read_header(batch)
    assert has_valid_crc(memoryview(batch), 0, header)
    assert header.records_count == 12
    assert header.last_offset_delta == 11


def test_produce_carries_one_batch_for_each_partition() -> None:
    batch = requests.record_batch(3, 10)
    request = decoded(requests.produce("t", {0: batch, 7: batch}), ProduceRequest)
    (topic,) = request.topic_data
    assert (request.acks, topic.name) == (1, "t")
    assert [(data.index, data.records) for data in topic.partition_data] == [(0, batch), (7, batch)]


def test_fetch_asks_outside_a_session() -> None:
    request = decoded(requests.fetch("t", 3, 42, max_bytes=1_000, wait_ms=0), FetchRequest)
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (request.session_id, request.session_epoch, request.max_bytes) == (0, -1, 1_000)
    assert (topic.topic, partition.partition, partition.fetch_offset) == ("t", 3, 42)


def test_topics_are_created_with_their_settings_and_deleted_by_name() -> None:
    request = decoded(requests.create_topics({"a": 5}, {"retention.ms": "-1"}), CreateTopicsRequest)
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("a", 5, 1)
    assert [(config.name, config.value) for config in topic.configs] == [("retention.ms", "-1")]
    assert decoded(requests.delete_topics(["a", "b"]), DeleteTopicsRequest).topic_names == ("a", "b")


def test_metadata_asks_for_all_topics_or_the_named_ones_and_creates_none() -> None:
    everything = decoded(requests.metadata(), MetadataRequest)
    named = decoded(requests.metadata(["a"]), MetadataRequest)
    assert everything.topics is None
    assert [topic.name for topic in named.topics] == ["a"]
    assert not named.allow_auto_topic_creation


def test_the_end_of_every_partition_is_asked_for() -> None:
    request = decoded(requests.latest_offsets({"a": 3}), ListOffsetsRequest)
    (topic,) = request.topics
    assert [partition.partition_index for partition in topic.partitions] == [0, 1, 2]
