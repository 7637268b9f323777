"""A request in parts does what it does as a whole, and whoever looks in between finds all partitions of each topic."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from kafkad.core.cluster.control_requests import (
    EPOCH_DURING_DELETE,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from kafkad.core.cluster.request_parts import ControlRequest, ControlResponse, merged_response, split_request
from kafkad.core.controller import deltas
from kafkad.core.controller.image import MetadataImage
from kafkad.core.errors import ErrorCode
from kafkad.core.hosting.hosting import Hosting
from tests.core.hosting.test_hosting import EPOCH, a_host, a_state, known, told

SIZES = (1, 3, 25, 0, 9, 10, 2)
"""Partitions of topics, with parts of at most ten."""


def topic_id(at: int) -> UUID:
    return UUID(int=at + 1)


def roles() -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=EPOCH,
        topic_states=tuple(
            LeaderAndIsrTopic(
                topic_name=f"t{at}",
                topic_id=topic_id(at),
                partition_states=tuple(a_state(index) for index in range(size)),
            )
            for at, size in enumerate(SIZES)
        ),
    )


def metadata() -> UpdateMetadataRequest:
    request = told(known())
    topics = tuple(
        UpdateMetadataTopic(
            topic_name=f"t{at}", topic_id=topic_id(at), partition_states=tuple(known(index) for index in range(size))
        )
        for at, size in enumerate(SIZES)
    )
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=EPOCH,
        topic_states=topics,
        live_brokers=request.live_brokers,
    )


def stops() -> StopReplicaRequest:
    return StopReplicaRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=EPOCH,
        topic_states=tuple(
            StopReplicaTopic(
                topic_name=f"t{at}",
                partition_states=tuple(
                    StopReplicaPartition(partition_index=index, leader_epoch=EPOCH_DURING_DELETE, delete_partition=True)
                    for index in range(size)
                ),
            )
            for at, size in enumerate(SIZES)
        ),
    )


def carry_out(host: Hosting, request: ControlRequest) -> ControlResponse:
    match request:
        case LeaderAndIsrRequest():
            return host.leader_and_isr(request, {})
        case UpdateMetadataRequest():
            return host.update_metadata(request, {})
        case StopReplicaRequest():
            return host.stop_replica(request)


def in_parts(host: Hosting, requests: Sequence[ControlRequest]) -> list[ControlResponse]:
    return [merged_response([carry_out(host, part) for part in split_request(each, 10)]) for each in requests]


def outcome(response: ControlResponse) -> object:
    """Without an order of partitions."""
    match response:
        case LeaderAndIsrResponse():
            return {each.topic_id: set(each.partition_errors) for each in response.topics}
        case StopReplicaResponse():
            return set(response.partition_errors)
    return response.error_code


@pytest.mark.parametrize(
    "requests", [[roles()], [metadata()], [roles(), metadata(), stops()]], ids=["roles", "metadata", "deletion"]
)
def test_parts_do_together_what_the_request_does(requests: list[ControlRequest]) -> None:
    whole, parted = a_host(), a_host()
    expected = [carry_out(whole, each) for each in requests]
    answers = in_parts(parted, requests)
    assert [outcome(each) for each in answers] == [outcome(each) for each in expected]

    def seen(host: Hosting) -> object:
        return {
            name: [(row.index, row.leader, row.replicas, row.slot >= 0) for row in topic.partitions]
            for name, topic in host.image.topics.items()
        }

    assert seen(parted) == seen(whole)


@pytest.mark.parametrize("request_of", [roles, metadata])
def test_whoever_looks_between_parts_counts_all_partitions(request_of: type) -> None:
    """A producer would choose the partition of a key by their number."""
    host = a_host()
    host.take_deltas()
    image = MetadataImage(version=host.image.version, cluster_id="c")
    in_parts(host, [request_of()])
    published = host.take_deltas()
    assert len(published) > 4
    for delta in published:
        image = deltas.apply(image, delta)
        for at, size in enumerate(SIZES):
            topic = image.topics.get(f"t{at}")
            assert topic is None or len(topic.partitions) == size


@pytest.mark.parametrize("request_of", [roles, metadata, stops])
def test_no_part_is_larger_and_what_is_small_stays_whole(request_of: type) -> None:
    request = request_of()
    parts = list(split_request(request, 10))
    sizes = [sum(len(topic.partition_states) for topic in part.topic_states) for part in parts]
    assert (max(sizes), sum(sizes)) == (10, sum(SIZES))
    assert all(part.broker_epoch == EPOCH and part.controller_epoch == 1 for part in parts)
    assert list(split_request(request, sum(SIZES))) == [request]


def test_a_part_that_is_refused_is_the_answer() -> None:
    """The broker has registered again in between: the controller tells that registration everything."""
    host = a_host()
    first, second, *_ = split_request(roles(), 10)
    taken = carry_out(host, first)
    host.registered(EPOCH + 1, (), None)
    assert merged_response([taken, carry_out(host, second)]).error_code is ErrorCode.STALE_BROKER_EPOCH
