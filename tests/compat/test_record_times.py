"""Records without a time, and headers that misstate it, to kafkad and to Apache Kafka: both store and find the same."""

import time
from datetime import timedelta
from typing import Any

import pytest

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import eventually
from kafkad.core.log.records.batch import Codec
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.wire.api_table import LIST_OFFSETS
from tests.compat.group_sides import Member, Side
from tests.core.log.sealed import sealed
from tests.handlers.kio_calls import KioApi, versions_of
from tests.tools import raw_requests
from tests.tools.raw_requests import fetch, produce, read_fetched, read_produced

NOW = time.time_ns() // 1_000_000
HOUR = 3_600_000
Batches = tuple[tuple[tuple[int, ...], int], ...]
"""The times of the records, and the largest that the header claims."""


def at(times: tuple[int, ...], claimed: int, codec: Codec) -> bytes:
    return sealed(build_batch([NewRecord(each, b"k", b"v") for each in times], codec=codec), max_timestamp=claimed)


def times_of(stored: bytes) -> list[tuple[int, int, int]]:
    """The times in the header of each batch, and its checksum."""
    headers = walk_batches(lambda size, position: stored[position : position + size], 0, len(stored))
    return [(header.base_timestamp, header.max_timestamp, header.crc) for _, header in headers]


def list_offsets(member: Member, topic: str) -> None:
    for version in versions_of(LIST_OFFSETS):
        part = KioApi("list_offsets", version).part
        for timestamp in (-3, 0, 1, NOW - HOUR, NOW, NOW + 1):
            row = part("ListOffsetsPartition", partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
            member.ask(
                "list_offsets",
                version,
                replica_id=-1,
                isolation_level=0,
                topics=(part("ListOffsetsTopic", name=topic, partitions=(row,)),),
                timeout=timedelta(seconds=30),
            )


def create(member: Member, topic: str, **configs: str) -> None:
    part = KioApi("create_topics", 7).part
    rows = tuple(part("CreatableTopicConfig", name=name, value=value) for name, value in configs.items())
    new = part("CreatableTopic", name=topic, num_partitions=1, replication_factor=1, assignments=(), configs=rows)
    member.ask("create_topics", 7, topics=(new,), timeout=timedelta(seconds=30), validate_only=False)
    member.side.transcript.clear()

    def is_ready() -> bool:
        return read_fetched(member.client.ask(fetch({(topic, 0): 0}, min_bytes=0)))[topic, 0].error == 0

    eventually(is_ready, what=f"{topic} is served")


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("name", "batches"),
    [
        ("without-times-of-librdkafka", (((-1, -1), 0), ((-1,), 0))),
        ("without-times", (((-1, -1), -1),)),
        ("one-has-a-time", (((-1, -1), 0), ((-1, NOW), NOW), ((-1,), 0))),
        ("hidden-behind-1970", (((-1, NOW), 0),)),
        ("hidden-behind-an-hour", (((-1, NOW), NOW - HOUR),)),
        ("before-its-first", (((NOW, NOW - 5), 0), ((NOW - HOUR,), -1))),
        ("from-the-future", (((-1, NOW + 24 * HOUR), 0),)),
        ("of-1970", (((0, 0), 0),)),
        ("before-1970", (((-2, -7), -2), ((-2, NOW), 0))),
    ],
)
def test_times_are_stored_and_found_as_by_apache_kafka(
    kafkad_broker: RunningBroker, apache_broker: RunningBroker, name: str, batches: Batches, codec: Codec
) -> None:
    topic = f"times-{name}-{codec.name.lower()}"
    heard: list[Any] = []
    for broker in (kafkad_broker, apache_broker):
        with Side(broker, topic) as side:
            member = side.member("times")
            create(member, topic)
            errors = [
                read_produced(member.client.ask(produce({(topic, 0): at(*each, codec)})))[topic, 0].error
                for each in batches
            ]
            stored = read_fetched(member.client.ask(fetch({(topic, 0): 0}, min_bytes=0)))[topic, 0].records
            list_offsets(member, topic)
            heard.append((errors, times_of(stored), side.transcript))
    assert heard[0] == heard[1]


def test_a_time_behind_a_segment_without_times_is_found_here_alone(
    kafkad_broker: RunningBroker, apache_broker: RunningBroker
) -> None:
    """Apache Kafka takes the time of the file for that of the records, looks there, and nowhere else."""
    topic, large = "times-in-the-second-segment", bytes(600_000)
    found: list[int] = []
    for broker in (kafkad_broker, apache_broker):
        with Side(broker, topic) as side:
            member = side.member("times")
            create(member, topic, **{"segment.bytes": str(1 << 20)})
            for timestamp in (-1, NOW):
                records = build_batch([NewRecord(timestamp, None, large)])
                assert read_produced(member.client.ask(produce({(topic, 0): records})))[topic, 0].error == 0
            answer = member.client.ask(raw_requests.list_offsets(topic, 0, NOW))
            found.append(int.from_bytes(answer[-8:], "big", signed=True))
    assert found == [1, -1]
