"""Records from a running broker in whole batches: Fetch, ListOffsets over a `BrokerClient`.

Each call goes to the partition's leader, and is repeated at the new one when leadership moved.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from kafkad.client.broker_client import BrokerClient, milliseconds, raise_for
from kafkad.client.connection import BrokerConnection

EARLIEST = -2
LATEST = -1

_CONSUMER = BrokerId(-1)
_FETCH_BYTES = 8 * 1024 * 1024
_READ_UNCOMMITTED, _READ_COMMITTED = i8(0), i8(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """The result of one fetch for one partition.

    `records` is a run of batches: the first may begin before the fetch offset, the last may be cut off.
    """

    partition: int
    high_watermark: int
    last_stable_offset: int
    """Only below it are there records for who reads committed ones; -1 from brokers that don't say."""
    records: bytes
    aborted: tuple[tuple[int, int], ...] = ()
    """Producer id and first offset of each aborted transaction, if only committed records are read."""


def fetch(
    client: BrokerClient,
    topic: str,
    positions: Mapping[int, int],
    *,
    max_wait_ms: int,
    max_bytes: int = _FETCH_BYTES,
    is_committed: bool = False,
) -> list[FetchedPartition]:
    """Batches from `positions` (partition to offset) on; waits up to `max_wait_ms` for the first byte.

    With `is_committed` only up to the last stable offset.
    """

    def attempt() -> list[FetchedPartition]:
        by_leader: dict[BrokerConnection, dict[int, int]] = {}
        for partition, offset in positions.items():
            by_leader.setdefault(client.leader_of(topic, partition), {})[partition] = offset
        share_ms = max_wait_ms // len(by_leader)
        return [
            fetched
            for leader, asked in by_leader.items()
            for fetched in _fetch_from(leader, topic, asked, share_ms, max_bytes, is_committed=is_committed)
        ]

    return client.until_deadline(attempt)


def offsets(
    client: BrokerClient, topic: str, partitions: Iterable[int], timestamp: int, *, is_committed: bool = False
) -> dict[int, int]:
    """The offset of each partition at `timestamp` (milliseconds, EARLIEST or LATEST); -1 when there is none.

    With `is_committed`, LATEST is the last stable offset.
    """
    return offsets_at(client, topic, dict.fromkeys(partitions, timestamp), is_committed=is_committed)


def offsets_at(
    client: BrokerClient, topic: str, times: Mapping[int, int], *, is_committed: bool = False
) -> dict[int, int]:
    """The same with a timestamp for each partition: one request to each leader."""
    isolation = _READ_COMMITTED if is_committed else _READ_UNCOMMITTED

    def attempt() -> dict[int, int]:
        by_leader: dict[BrokerConnection, dict[int, int]] = {}
        for partition, timestamp in times.items():
            by_leader.setdefault(client.leader_of(topic, partition), {})[partition] = timestamp
        found: dict[int, int] = {}
        for leader, asked in by_leader.items():
            found |= _offsets_from(leader, topic, asked, isolation)
        return {partition: found[partition] for partition in times}

    return client.until_deadline(attempt)


def _fetch_from(
    leader: BrokerConnection,
    topic: str,
    positions: Mapping[int, int],
    max_wait_ms: int,
    max_bytes: int,
    *,
    is_committed: bool,
) -> list[FetchedPartition]:
    partitions = tuple(
        FetchPartition(partition=i32(partition), fetch_offset=i64(offset), partition_max_bytes=i32(max_bytes))
        for partition, offset in positions.items()
    )
    request = FetchRequest(
        replica_id=_CONSUMER,
        max_wait=milliseconds(max_wait_ms),
        min_bytes=i32(1),
        max_bytes=i32(max_bytes),
        isolation_level=_READ_COMMITTED if is_committed else _READ_UNCOMMITTED,
        topics=(FetchTopic(topic=TopicName(topic), partitions=partitions),),
        forgotten_topics_data=(),
    )
    response = leader.call(request, FetchResponse, wait_s=max_wait_ms / 1000)
    raise_for(response.error_code, f"{leader.peer} did not serve a fetch of {topic!r}", None)
    fetched = []
    for answer in (each for answered in response.responses for each in answered.partitions):
        asked = f"offset {positions[answer.partition_index]} of {topic}-{answer.partition_index}"
        raise_for(answer.error_code, f"{asked} can't be read", None)
        fetched.append(
            FetchedPartition(
                partition=answer.partition_index,
                high_watermark=answer.high_watermark,
                last_stable_offset=answer.last_stable_offset,
                records=answer.records or b"",
                aborted=tuple(
                    (int(row.producer_id), int(row.first_offset)) for row in answer.aborted_transactions or ()
                ),
            )
        )
    return fetched


def _offsets_from(leader: BrokerConnection, topic: str, times: Mapping[int, int], isolation: i8) -> dict[int, int]:
    rows = tuple(
        ListOffsetsPartition(partition_index=i32(partition), timestamp=i64(timestamp))
        for partition, timestamp in times.items()
    )
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=isolation,
        topics=(ListOffsetsTopic(name=TopicName(topic), partitions=rows),),
    )
    found = {}
    for answer in leader.call(request, ListOffsetsResponse).topics[0].partitions:
        raise_for(answer.error_code, f"the offsets of {topic}-{answer.partition_index} can't be read", None)
        found[int(answer.partition_index)] = int(answer.offset)
    return found
