"""Commits a group's offsets, and finds its coordinator, with a `BrokerClient`.

Commits are sent to the group's coordinator, and retried if the coordinator has moved or is loading.
"""

from collections.abc import Mapping
from datetime import timedelta

from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.offset_commit.v4 import request as v4
from kio.schema.offset_commit.v4.response import OffsetCommitResponse as V4Response
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_commit.v9.response import OffsetCommitResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i64, i64Timedelta

from kafkad.client.broker_client import BrokerClient, raise_for
from kafkad.client.connection import BrokerConnection

_GROUP_KEY = i8(0)

Partition = tuple[str, int]
_Commits = dict[str, list[tuple[int, int]]]
"""Partitions and offsets, by topic."""


def commit_offsets(
    client: BrokerClient, group_id: str, offsets: Mapping[Partition, int], *, retention: timedelta | None = None
) -> None:
    """Commit as a client that is not a member; the group must have no members.

    The offsets expire after `retention`, by default after the broker's offsets.retention.minutes.
    """
    by_topic: _Commits = {}
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, []).append((partition, offset))

    def attempt() -> None:
        coordinator, _ = coordinator_of(client, group_id)
        for topic in _commit(coordinator, group_id, by_topic, retention).topics:
            for row in topic.partitions:
                raise_for(row.error_code, f"no offset was committed for {topic.name}-{row.partition_index}", None)

    client.until_deadline(attempt)


def _commit(
    coordinator: BrokerConnection, group_id: str, by_topic: _Commits, retention: timedelta | None
) -> OffsetCommitResponse | V4Response:
    if retention is None:
        return coordinator.call(_commit_request(group_id, by_topic), OffsetCommitResponse)
    return coordinator.call(_commit_request_for(retention, group_id, by_topic), V4Response)


def _commit_request(group_id: str, by_topic: _Commits) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=GroupId(group_id),
        member_id="",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=TopicName(topic),
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=""
                    )
                    for partition, offset in rows
                ),
            )
            for topic, rows in by_topic.items()
        ),
    )


def _commit_request_for(retention: timedelta, group_id: str, by_topic: _Commits) -> v4.OffsetCommitRequest:
    """Version 4, the last version with a retention time (KIP-211)."""
    return v4.OffsetCommitRequest(
        group_id=GroupId(group_id),
        member_id="",
        retention_time=i64Timedelta.parse(retention),
        topics=tuple(
            v4.OffsetCommitRequestTopic(
                name=TopicName(topic),
                partitions=tuple(
                    v4.OffsetCommitRequestPartition(
                        partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=""
                    )
                    for partition, offset in rows
                ),
            )
            for topic, rows in by_topic.items()
        ),
    )


def coordinator_of(client: BrokerClient, group_id: str) -> tuple[BrokerConnection, tuple[str, int, int]]:
    request = FindCoordinatorRequest(key_type=_GROUP_KEY, coordinator_keys=(group_id,))
    response = client.any_broker().call(request, FindCoordinatorResponse)
    (found,) = response.coordinators
    raise_for(found.error_code, f"group {group_id!r} has no coordinator", found.error_message)
    return client.connection_to(found.host, found.port), (found.host, int(found.port), int(found.node_id))
