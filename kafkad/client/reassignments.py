"""Reassignments and leader elections: the requests of `kafkad reassign` and `kafkad elect-leaders`."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v0.response import AlterPartitionReassignmentsResponse
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32

from kafkad.client.broker_client import BrokerClient, raise_for
from kafkad.core.errors import ErrorCode

Partition = tuple[str, int]
Reason = str | None


class Reassignment(NamedTuple):
    """An ongoing reassignment; `replicas` are the old and the new replicas."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def reassign(client: BrokerClient, targets: Mapping[Partition, Sequence[int] | None]) -> dict[Partition, Reason]:
    """Start reassignments, or cancel them with the target None. Returns the error of each partition, or None."""
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for (topic, index), target in targets.items():
        replicas = None if target is None else tuple(BrokerId(each) for each in target)
        by_topic.setdefault(topic, []).append(ReassignablePartition(partition_index=i32(index), replicas=replicas))
    topics = tuple(ReassignableTopic(name=TopicName(name), partitions=tuple(rows)) for name, rows in by_topic.items())
    request = AlterPartitionReassignmentsRequest(topics=topics, timeout=client.wait)
    response = client.any_broker().call(request, AlterPartitionReassignmentsResponse)
    raise_for(response.error_code, "nothing was reassigned", response.error_message)
    return {
        (str(topic.name), int(row.partition_index)): _reason(row.error_code, row.error_message)
        for topic in response.responses
        for row in topic.partitions
    }


def reassignments(client: BrokerClient) -> list[Reassignment]:
    """All ongoing reassignments."""
    request = ListPartitionReassignmentsRequest(topics=None, timeout=client.wait)
    response = client.any_broker().call(request, ListPartitionReassignmentsResponse)
    raise_for(response.error_code, "the reassignments can't be listed", response.error_message)
    return sorted(
        Reassignment(
            str(topic.name),
            int(row.partition_index),
            tuple(map(int, row.replicas)),
            tuple(map(int, row.adding_replicas)),
            tuple(map(int, row.removing_replicas)),
        )
        for topic in response.topics
        for row in topic.partitions
    )


def elect_leaders(
    client: BrokerClient, partitions: Sequence[Partition] | None, *, unclean: bool
) -> dict[Partition, Reason]:
    """Elect leaders for `partitions`, None for all. Returns the error of each partition, or None."""
    topics = None
    if partitions is not None:
        by_topic: dict[str, list[i32]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(i32(index))
        topics = tuple(
            TopicPartitions(topic=TopicName(name), partitions=tuple(rows)) for name, rows in by_topic.items()
        )
    request = ElectLeadersRequest(election_type=i8(int(unclean)), topic_partitions=topics, timeout=client.wait)
    response = client.any_broker().call(request, ElectLeadersResponse)
    raise_for(response.error_code, "no leader was elected", None)
    return {
        (str(topic.topic), int(row.partition_id)): _reason(row.error_code, row.error_message)
        for topic in response.replica_election_results
        for row in topic.partition_result
        if ErrorCode(int(row.error_code)) is not ErrorCode.ELECTION_NOT_NEEDED
    }


def _reason(code: int, message: str | None) -> Reason:
    return (message or ErrorCode(int(code)).name) if code else None
