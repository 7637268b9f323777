"""What Apache Kafka 3.9 brokers sent each other as followers and leaders is written and read alike."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafkad.core.cluster.protocol_versions import protocol_versions
from kafkad.core.replication.following.fetch_session_handler import MAX_ROWS, FetchSessionHandler
from kafkad.core.replication.following.requests import FollowerFetch, OffsetQuery, PartitionToFetch
from kafkad.core.types import TopicPartition
from kafkad.wire.messages.fetch_request import read_request
from kafkad.wire.messages.follower_fetch import (
    WITH_NAMES,
    FetchLimits,
    decode_fetch,
    decode_list_offsets,
    encode_fetch,
    encode_list_offsets,
)
from kafkad.wire.primitives import MalformedRequest
from tests.handlers.stepping import finished

_FILE = Path(__file__).with_name("follower_fetch_recorded.jsonl")
RECORDED: list[dict[str, Any]] = [json.loads(line) for line in _FILE.read_text().splitlines()]
FETCHES = [row for row in RECORDED if row["api"] == "Fetch"]
LISTS = [row for row in RECORDED if row["api"] == "ListOffsets"]
NEWEST = protocol_versions("3.9").fetch
LIMITS = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=10_485_760, partition_max_bytes=1_048_576)
FIRST, SECOND = bytes.fromhex("694b5a4b36c843529dd37e305aedda75"), bytes.fromhex("645057c9d2af497890d2b0421154fb30")


def _row(topic: bytes, partition: int, *, epoch: int, offset: int = 0, last_epoch: int = -1) -> PartitionToFetch:
    return PartitionToFetch((topic, partition), TopicPartition("t", partition), epoch, offset, last_epoch, 0)


def _body(recorded: dict[str, Any]) -> bytes:
    request = bytes.fromhex(recorded["request_hex"])
    return request[8 + 2 + 18 + 1 :]


def test_a_full_fetch_is_written_as_apache_kafka_writes_it() -> None:
    rows = [_row(FIRST, 0, epoch=1), _row(FIRST, 3, epoch=1), _row(SECOND, 1, epoch=0)]
    wanted = FollowerFetch(uses_topic_ids=True, session_id=0, session_epoch=0, partitions=rows, forgotten=[])
    assert encode_fetch(wanted, LIMITS, 3, 0x123, NEWEST) == (NEWEST, _body(FETCHES[0]))


def test_an_incremental_fetch_that_forgets_partitions_is_written_as_apache_kafka_writes_it() -> None:
    rows = [_row(FIRST, 0, epoch=1), _row(FIRST, 3, epoch=1), _row(SECOND, 1, epoch=0)]
    wanted = FollowerFetch(uses_topic_ids=True, session_id=0x09A76BB0, session_epoch=1, partitions=[], forgotten=rows)
    assert encode_fetch(wanted, LIMITS, 3, 0x123, NEWEST) == (NEWEST, _body(FETCHES[1]))


@pytest.mark.parametrize(
    ("session_epoch", "read"),
    [(0, [(FIRST, [3]), (SECOND, [1, 0]), (FIRST, [0])]), (7, [(FIRST, [3, 0]), (SECOND, [1, 0])])],
    ids=["full", "incremental"],
)
def test_full_fetch_keeps_the_order_of_its_partitions(session_epoch: int, read: list[tuple[bytes, list[int]]]) -> None:
    """A full answer is filled in this order; in a session it is the leader's."""
    rows = [_row(topic, number, epoch=1) for topic, number in ((FIRST, 3), (SECOND, 1), (SECOND, 0), (FIRST, 0))]
    wanted = FollowerFetch(
        uses_topic_ids=True, session_id=5, session_epoch=session_epoch, partitions=rows, forgotten=[]
    )
    version, body = encode_fetch(wanted, LIMITS, 3, 0x123, NEWEST)
    request = finished(read_request(memoryview(body), 0, version))
    assert [(topic, [row.partition for row in some]) for topic, some in request.topics] == read


def test_no_fetch_of_a_follower_is_too_large_for_its_leader() -> None:
    """Not even if each partition has its topic named anew. Leaders of released versions have the same limit."""
    rows = [_row((FIRST, SECOND)[number % 2], number, epoch=1) for number in range(2 * MAX_ROWS)]
    wanted = FetchSessionHandler().next_request(rows, uses_topic_ids=True)
    version, body = encode_fetch(wanted, LIMITS, 3, 0x123, NEWEST)
    request = finished(read_request(memoryview(body), 0, version))
    assert [row.partition for _, some in request.topics for row in some] == list(range(MAX_ROWS))


@pytest.mark.parametrize("newest", range(WITH_NAMES, NEWEST + 1))
def test_a_leader_reads_each_version_that_an_older_cluster_speaks(newest: int) -> None:
    rows = [_row(FIRST, 0, epoch=1), _row(FIRST, 3, epoch=1, offset=7, last_epoch=0)]
    uses_topic_ids = newest > WITH_NAMES
    wanted = FollowerFetch(
        uses_topic_ids=uses_topic_ids,
        session_id=5,
        session_epoch=2,
        partitions=rows,
        forgotten=[_row(SECOND, 1, epoch=0)],
    )
    version, body = encode_fetch(wanted, LIMITS, 3, 0x123, newest)
    request = finished(read_request(memoryview(body), 0, version))
    assert version == newest
    assert (request.replica_id, request.replica_epoch) == (3, 0x123 if newest >= 15 else -1)
    assert (request.session_id, request.session_epoch) == (5, 2)
    name = FIRST if uses_topic_ids else "t"
    assert [topic for topic, _ in request.topics] == [name]
    assert [(each.partition, each.fetch_offset) for each in request.topics[0][1]] == [(0, 0), (3, 7)]
    assert [list(indexes) for _, indexes in request.forgotten] == [[1]]


@pytest.mark.parametrize("recorded", FETCHES)
def test_answers_of_apache_kafka_are_read_and_records_are_where_they_say(recorded: dict[str, Any]) -> None:
    response = memoryview(bytes.fromhex(recorded["response_hex"]))
    answer = decode_fetch(response[5:], NEWEST, 5)
    assert answer.error == 0
    for row in answer.partitions:
        if row.records_length:
            assert response[row.records_at + 16] == 2, "the magic of a batch"


def test_a_diverging_epoch_is_read() -> None:
    found = [
        row
        for recorded in FETCHES
        for row in decode_fetch(memoryview(bytes.fromhex(recorded["response_hex"]))[5:], NEWEST, 0).partitions
        if row.diverging_epoch >= 0
    ]
    assert [(row.diverging_epoch, row.diverging_end_offset) for row in found] == [(0, 5)]


@pytest.mark.parametrize(("recorded", "timestamp", "offset"), list(zip(LISTS, (-1, -2), (35, 20), strict=True)))
def test_list_offsets_is_written_and_read(recorded: dict[str, Any], timestamp: int, offset: int) -> None:
    wanted = [OffsetQuery((FIRST, 0), TopicPartition("dr", 0), 1, timestamp)]
    assert recorded["v"] == protocol_versions("3.9").list_offsets
    assert encode_list_offsets(wanted, 2) == _body(recorded)
    (listed,) = decode_list_offsets(memoryview(bytes.fromhex(recorded["response_hex"]))[5:])
    assert listed == ("dr", 0, 0, offset)


def test_any_bytes_are_read_or_refused() -> None:
    random = Random(1)
    for recorded in RECORDED * 200:
        damaged = bytearray(bytes.fromhex(recorded["response_hex"])[5:])
        for _ in range(random.randint(1, 4)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        view = memoryview(damaged)[: random.randint(0, len(damaged))]
        try:
            decode_fetch(view, NEWEST, 0) if recorded["api"] == "Fetch" else decode_list_offsets(view)
        except MalformedRequest:
            continue
