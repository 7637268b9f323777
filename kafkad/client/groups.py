"""Groups and their offsets: the requests of `kafkad groups`, with a `BrokerClient`.

Requests about a group are sent to its coordinator, and retried if the coordinator has moved or is loading.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse
from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroupMember, DescribeGroupsResponse
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.offset_fetch.v9.response import OffsetFetchResponse
from kio.schema.types import GroupId, TopicName
from kio.serial import entity_reader
from kio.serial.errors import SerialError
from kio.static.primitive import i32

from kafkad.client.broker_client import BrokerClient, raise_for
from kafkad.client.group_commits import Partition, coordinator_of

_CONSUMER_TYPE = "consumer"
_ASSIGNMENT_VERSION = Struct(">h")


class ListedGroup(NamedTuple):
    """`type` and `state` in Kafka's words (Classic, Consumer; Stable, Empty, …)."""

    group_id: str
    type: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """`partitions` are the assigned partitions; empty if the group's protocol type is not consumer."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """`coordinator` is (host, port, broker id)."""

    group_id: str
    state: str
    strategy: str
    coordinator: tuple[str, int, int]
    members: tuple[MemberDescription, ...]


def list_groups(client: BrokerClient) -> list[ListedGroup]:
    """The groups of all coordinators, sorted by id."""

    def attempt() -> list[ListedGroup]:
        found = []
        for broker in client.all_brokers():
            response = broker.call(ListGroupsRequest(), ListGroupsResponse)
            raise_for(response.error_code, f"{broker.peer} can't list its groups", None)
            found += [
                ListedGroup(str(each.group_id), each.group_type.capitalize(), each.protocol_type, each.group_state)
                for each in response.groups
            ]
        return sorted(found)

    return client.until_deadline(attempt)


def describe_group(client: BrokerClient, group_id: str, *, is_consumer_type: bool) -> GroupDescription:
    """`is_consumer_type`: the group uses KIP-848. Raises GROUP_ID_NOT_FOUND."""
    describe = _describe_consumer if is_consumer_type else _describe_classic
    return client.until_deadline(lambda: describe(client, group_id))


def committed_offsets(client: BrokerClient, group_id: str) -> dict[Partition, int]:
    """All committed offsets of the group."""
    group = OffsetFetchRequestGroup(group_id=GroupId(group_id), topics=None)

    def attempt() -> dict[Partition, int]:
        coordinator, _ = coordinator_of(client, group_id)
        response = coordinator.call(OffsetFetchRequest(groups=(group,)), OffsetFetchResponse)
        (result,) = response.groups
        failed = f"the offsets of group {group_id!r} can't be read"
        raise_for(result.error_code, failed, None)
        offsets = {}
        for topic in result.topics:
            for row in topic.partitions:
                raise_for(row.error_code, f"{failed}, {topic.name}-{row.partition_index}", None)
                offsets[str(topic.name), int(row.partition_index)] = int(row.committed_offset)
        return offsets

    return client.until_deadline(attempt)


def delete_group(client: BrokerClient, group_id: str) -> None:
    def attempt() -> None:
        coordinator, _ = coordinator_of(client, group_id)
        response = coordinator.call(DeleteGroupsRequest(groups_names=(GroupId(group_id),)), DeleteGroupsResponse)
        for result in response.results:
            raise_for(result.error_code, f"group {group_id!r} was not deleted", None)

    client.until_deadline(attempt)


def delete_offsets(client: BrokerClient, group_id: str, partitions: Sequence[Partition]) -> None:
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=i32(partition)))
    request = OffsetDeleteRequest(
        group_id=GroupId(group_id),
        topics=tuple(
            OffsetDeleteRequestTopic(name=TopicName(topic), partitions=tuple(rows)) for topic, rows in by_topic.items()
        ),
    )

    def attempt() -> None:
        coordinator, _ = coordinator_of(client, group_id)
        response = coordinator.call(request, OffsetDeleteResponse)
        raise_for(response.error_code, f"no offset of group {group_id!r} was deleted", None)
        for topic in response.topics:
            for row in topic.partitions:
                raise_for(row.error_code, f"the offset in {topic.name}-{row.partition_index} was not deleted", None)

    client.until_deadline(attempt)


def _describe_classic(client: BrokerClient, group_id: str) -> GroupDescription:
    coordinator, address = coordinator_of(client, group_id)
    request = DescribeGroupsRequest(groups=(GroupId(group_id),), include_authorized_operations=False)
    (group,) = coordinator.call(request, DescribeGroupsResponse).groups
    raise_for(group.error_code, f"group {group_id!r} can't be described", group.error_message)
    return GroupDescription(
        group_id=group_id,
        state=group.group_state,
        strategy=group.protocol_data,
        coordinator=address,
        members=tuple(
            MemberDescription(
                member_id=each.member_id,
                instance_id=each.group_instance_id,
                client_id=each.client_id,
                host=each.client_host,
                partitions=_assigned_to(each) if group.protocol_type == _CONSUMER_TYPE else (),
            )
            for each in group.members
        ),
    )


def _describe_consumer(client: BrokerClient, group_id: str) -> GroupDescription:
    coordinator, address = coordinator_of(client, group_id)
    request = ConsumerGroupDescribeRequest(group_ids=(GroupId(group_id),), include_authorized_operations=False)
    (group,) = coordinator.call(request, ConsumerGroupDescribeResponse).groups
    raise_for(group.error_code, f"group {group_id!r} can't be described", group.error_message)
    return GroupDescription(
        group_id=group_id,
        state=group.group_state,
        strategy=group.assignor_name,
        coordinator=address,
        members=tuple(
            MemberDescription(
                member_id=each.member_id,
                instance_id=each.instance_id,
                client_id=each.client_id,
                host=each.client_host,
                partitions=tuple(
                    (str(topic.topic_name), int(partition))
                    for topic in each.assignment.topic_partitions
                    for partition in topic.partitions
                ),
            )
            for each in group.members
        ),
    )


def _assigned_to(member: DescribedGroupMember) -> tuple[Partition, ...]:
    """Later versions of an assignment begin like version 0. A member without an assignment has no bytes."""
    raw = member.member_assignment
    if len(raw) <= _ASSIGNMENT_VERSION.size:
        return ()
    try:
        assignment = entity_reader(ConsumerProtocolAssignment)(raw, _ASSIGNMENT_VERSION.size)[0]
    except SerialError:
        # The format of an assignment is up to the group's leader.
        return ()
    return tuple(
        (str(topic.topic), int(partition)) for topic in assignment.assigned_partitions for partition in topic.partitions
    )
