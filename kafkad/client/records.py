"""Fetches record batches and offsets with a `BrokerClient`.

Requests are sent to the partition's leader, and retried if the leader has changed.
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

    `records` has consecutive batches: the first may begin before the fetch offset, the last may be cut off.
    """

    partition: int
    high_watermark: int
    last_stable_offset: int
    """The end offset for read_committed; -1 if the broker does not return it."""
    records: bytes
    aborted: tuple[tuple[int, int], ...] = ()
    """Producer id and first offset of each aborted transaction, with read_committed."""


def fetch(
    client: BrokerClient,
    topic: str,
    positions: Mapping[int, int],
    *,
    max_wait_ms: int,
    max_bytes: int = _FETCH_BYTES,
    is_committed: bool = False,
) -> list[FetchedPartition]:
    """The batches from `positions` (partition to offset) on; waits at most `max_wait_ms` for the first byte.

    With `is_committed` up to the last stable offset.
    """

    def attempt() -> list[FetchedPartition]:
        by_leader: dict[BrokerConnection, dict[int, int]] = {}
        for partition, offset in positions.items():
            by_leader.setdefault(client.leader_of(topic, partition), {})[partition] = offset
        share_ms = max_wait_ms // len(by_leader)
        return [
            fetched
            for leader, requested in by_leader.items()
            for fetched in _fetch_from(leader, topic, requested, share_ms, max_bytes, is_committed=is_committed)
        ]

    return client.until_deadline(attempt)


def offsets(
    client: BrokerClient, topic: str, partitions: Iterable[int], timestamp: int, *, is_committed: bool = False
) -> dict[int, int]:
    """The offset of each partition at `timestamp` (milliseconds, EARLIEST or LATEST); -1 if there is none.

    With `is_committed`, LATEST is the last stable offset.
    """
    return offsets_at(client, topic, dict.fromkeys(partitions, timestamp), is_committed=is_committed)


def offsets_at(
    client: BrokerClient, topic: str, times: Mapping[int, int], *, is_committed: bool = False
) -> dict[int, int]:
    """As `offsets`, with a timestamp for each partition; one request to each leader."""
    isolation = _READ_COMMITTED if is_committed else _READ_UNCOMMITTED

    def attempt() -> dict[int, int]:
        by_leader: dict[BrokerConnection, dict[int, int]] = {}
        for partition, timestamp in times.items():
            by_leader.setdefault(client.leader_of(topic, partition), {})[partition] = timestamp
        found: dict[int, int] = {}
        for leader, requested in by_leader.items():
            found |= _offsets_from(leader, topic, requested, isolation)
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
    for result in (each for topic_row in response.responses for each in topic_row.partitions):
        position = f"offset {positions[result.partition_index]} of {topic}-{result.partition_index}"
        raise_for(result.error_code, f"{position} can't be read", None)
        fetched.append(
            FetchedPartition(
                partition=result.partition_index,
                high_watermark=result.high_watermark,
                last_stable_offset=result.last_stable_offset,
                records=result.records or b"",
                aborted=tuple(
                    (int(row.producer_id), int(row.first_offset)) for row in result.aborted_transactions or ()
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
    for result in leader.call(request, ListOffsetsResponse).topics[0].partitions:
        raise_for(result.error_code, f"the offsets of {topic}-{result.partition_index} can't be read", None)
        found[int(result.partition_index)] = int(result.offset)
    return found
