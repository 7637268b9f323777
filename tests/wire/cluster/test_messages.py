"""Requests between brokers: the bytes of Apache Kafka 3.9.1 (recorded.jsonl), and every version there and back."""

import json
import struct
from collections.abc import Generator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.cluster.control_requests import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlteredPartition,
    AlteredTopic,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    IsrMember,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    LeaderAndIsrTopicError,
    LiveBroker,
    LiveEndpoint,
    LiveLeader,
    PartitionError,
    RemainingPartition,
    StopReplicaError,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from kafkad.core.errors import ErrorCode
from kafkad.core.types import NO_BROKER_EPOCH, NO_TOPIC_ID
from kafkad.wire.broker_frames import FrameReceiver, request_frame
from kafkad.wire.cluster.alter_partition import ALTER_PARTITION
from kafkad.wire.cluster.broker_requests import ALLOCATE_PRODUCER_IDS, CONTROLLED_SHUTDOWN
from kafkad.wire.cluster.leader_and_isr import LEADER_AND_ISR
from kafkad.wire.cluster.schema import Message
from kafkad.wire.cluster.stop_replica import STOP_REPLICA
from kafkad.wire.cluster.update_metadata import UPDATE_METADATA
from kafkad.wire.primitives import MalformedRequest

MESSAGES: dict[str, Message[Any, Any]] = {
    each.name: each
    for each in (
        *(LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA),
        *(CONTROLLED_SHUTDOWN, ALTER_PARTITION, ALLOCATE_PRODUCER_IDS),
    )
}
TOPIC_ID = UUID("694b5a4b-36c8-4352-9dd3-7e3000000001")


@cache
def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(__file__).with_name("recorded.jsonl").read_text().splitlines()]


def body_of(frame: bytes, client_id: str) -> memoryview:
    """After key, version, correlation id, client id and the empty section of tags."""
    return memoryview(frame)[8 + 2 + len(client_id) + 1 :]


@pytest.mark.parametrize("at", range(len(recorded())))
def test_recorded_requests_are_read_and_written_as_apache_kafka_does(at: int) -> None:
    row = recorded()[at]
    message, frame = MESSAGES[row["api"]], bytes.fromhex(row["request"])
    api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
    request = message.decode_request(body_of(frame, row["client_id"]), version)
    body = message.encode_request(request, version)
    flexible = message.is_flexible(version)
    assert request_frame(api_key, version, correlation_id, row["client_id"], body, is_flexible=flexible)[4:] == frame


@pytest.mark.parametrize("at", range(len(recorded())))
def test_recorded_answers_are_read_and_written_as_apache_kafka_does(at: int) -> None:
    row = recorded()[at]
    message, frame = MESSAGES[row["api"]], bytes.fromhex(row["response"])
    (correlation_id,) = struct.unpack_from(">i", frame)
    body = FrameReceiver.body_of(memoryview(frame), 4, correlation_id, is_flexible=True)
    response = message.decode_response(body, row["version"])
    assert message.encode_response(response, row["version"]) == bytes(body)


def test_a_recorded_leader_and_isr_request_says_who_leads() -> None:
    row = next(each for each in recorded() if each["api"] == "LeaderAndIsr")
    request = LEADER_AND_ISR.decode_request(body_of(bytes.fromhex(row["request"]), row["client_id"]), row["version"])
    assert (request.controller_id, request.controller_epoch) == (1, 2)
    assert request.broker_epoch == 0x123
    (first, *_), _ = request.topic_states[0].partition_states, request.live_leaders
    assert (first.leader, first.leader_epoch, len(first.replicas)) == (2, 1, len(first.isr))


LEADER_AND_ISR_REQUEST = LeaderAndIsrRequest(
    controller_id=1,
    controller_epoch=7,
    broker_epoch=105,
    topic_states=(
        LeaderAndIsrTopic(
            topic_name="orders",
            topic_id=TOPIC_ID,
            partition_states=tuple(
                LeaderAndIsrPartition(
                    partition_index=index,
                    controller_epoch=6,
                    leader=2,
                    leader_epoch=3,
                    isr=(2, 1),
                    partition_epoch=4,
                    replicas=(2, 1, 3),
                    adding_replicas=(3,),
                    removing_replicas=(1,),
                    is_new=True,
                    leader_recovery_state=1,
                )
                for index in (0, 2)
            ),
        ),
    ),
    live_leaders=(LiveLeader(broker_id=2, host_name="two.example", port=9092),),
)
LEADER_AND_ISR_RESPONSE = LeaderAndIsrResponse(
    error_code=ErrorCode.NONE,
    topics=(
        LeaderAndIsrTopicError(
            topic_name="orders",
            topic_id=TOPIC_ID,
            partition_errors=(PartitionError(partition_index=2, error_code=ErrorCode.KAFKA_STORAGE_ERROR),),
        ),
    ),
)
UPDATE_METADATA_REQUEST = UpdateMetadataRequest(
    controller_id=1,
    controller_epoch=7,
    broker_epoch=105,
    topic_states=(
        UpdateMetadataTopic(
            topic_name="orders",
            topic_id=TOPIC_ID,
            partition_states=(
                UpdateMetadataPartition(
                    partition_index=0,
                    controller_epoch=6,
                    leader=-2,
                    leader_epoch=0,
                    isr=(2,),
                    zk_version=4,
                    replicas=(2, 1),
                    offline_replicas=(1,),
                ),
            ),
        ),
    ),
    live_brokers=(
        LiveBroker(
            id=2,
            endpoints=(
                LiveEndpoint(port=9092, host="two.example", listener="PLAINTEXT", security_protocol="PLAINTEXT"),
                LiveEndpoint(port=9093, host="two.example", listener="EXT", security_protocol="SASL_SSL"),
            ),
            rack="rack2",
        ),
    ),
)
ALTER_PARTITION_REQUEST = AlterPartitionRequest(
    broker_id=2,
    broker_epoch=105,
    topics=(
        AlterPartitionTopic(
            topic_name="orders",
            topic_id=TOPIC_ID,
            partitions=(
                AlterPartitionPartition(
                    partition_index=1,
                    leader_epoch=3,
                    new_isr_with_epochs=(IsrMember(broker_id=2), IsrMember(broker_id=1, broker_epoch=9)),
                    leader_recovery_state=1,
                    partition_epoch=5,
                ),
            ),
        ),
    ),
)
ALTER_PARTITION_RESPONSE = AlterPartitionResponse(
    error_code=ErrorCode.NONE,
    topics=(
        AlteredTopic(
            topic_name="orders",
            topic_id=TOPIC_ID,
            partitions=(
                AlteredPartition(
                    partition_index=1,
                    error_code=ErrorCode.INVALID_UPDATE_VERSION,
                    leader_id=2,
                    leader_epoch=3,
                    isr=(2, 1),
                    leader_recovery_state=1,
                    partition_epoch=6,
                ),
            ),
        ),
    ),
)
STOP_REPLICA_REQUEST = StopReplicaRequest(
    controller_id=1,
    controller_epoch=7,
    broker_epoch=105,
    topic_states=(
        StopReplicaTopic(
            topic_name="orders",
            partition_states=(
                StopReplicaPartition(partition_index=0, leader_epoch=3, delete_partition=True),
                StopReplicaPartition(partition_index=1, leader_epoch=-2, delete_partition=True),
            ),
        ),
    ),
)
VALUES: list[tuple[Message[Any, Any], Any, Any]] = [
    (LEADER_AND_ISR, LEADER_AND_ISR_REQUEST, LEADER_AND_ISR_RESPONSE),
    (UPDATE_METADATA, UPDATE_METADATA_REQUEST, UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)),
    (
        STOP_REPLICA,
        STOP_REPLICA_REQUEST,
        StopReplicaResponse(
            error_code=ErrorCode.NONE,
            partition_errors=(
                StopReplicaError(topic_name="orders", partition_index=1, error_code=ErrorCode.FENCED_LEADER_EPOCH),
            ),
        ),
    ),
    (ALTER_PARTITION, ALTER_PARTITION_REQUEST, ALTER_PARTITION_RESPONSE),
    (
        CONTROLLED_SHUTDOWN,
        ControlledShutdownRequest(broker_id=3, broker_epoch=105),
        ControlledShutdownResponse(
            error_code=ErrorCode.NONE,
            remaining_partitions=(RemainingPartition(topic_name="orders", partition_index=4),),
        ),
    ),
    (
        ALLOCATE_PRODUCER_IDS,
        AllocateProducerIdsRequest(broker_id=3, broker_epoch=105),
        AllocateProducerIdsResponse(error_code=ErrorCode.NONE, producer_id_start=4_000, producer_id_len=1_000),
    ),
]


@pytest.mark.parametrize(
    ("message", "request_value", "response_value"), VALUES, ids=lambda each: getattr(each, "name", "")
)
def test_the_newest_version_keeps_everything(
    message: Message[Any, Any], request_value: Any, response_value: Any
) -> None:
    newest = message.newest
    found = message.decode_request(memoryview(message.encode_request(request_value, newest)), newest)
    assert named(found) == named(request_value)
    answered = message.decode_response(memoryview(message.encode_response(response_value, newest)), newest)
    assert named(answered) == named(response_value)


def named(value: Any) -> Any:
    """Versions with topic ids leave the names out in AlterPartition and in answers."""
    if isinstance(value, LeaderAndIsrResponse):
        return replace(value, topics=tuple(replace(topic, topic_name="") for topic in value.topics))
    if isinstance(value, AlterPartitionResponse):
        return replace(value, topics=tuple(replace(topic, topic_name="") for topic in value.topics))
    if isinstance(value, AlterPartitionRequest):
        return replace(value, topics=tuple(replace(topic, topic_name="") for topic in value.topics))
    return value


@pytest.mark.parametrize(
    ("message", "version", "request_value", "response_value"),
    [(each, version, *values) for each, *values in VALUES for version in range(each.newest + 1)],
    ids=lambda each: str(getattr(each, "name", each if isinstance(each, int) else "")),
)
def test_every_version_reads_what_it_writes(
    message: Message[Any, Any], version: int, request_value: Any, response_value: Any
) -> None:
    body = message.encode_request(request_value, version)
    again = message.decode_request(memoryview(body), version)
    assert message.encode_request(again, version) == body
    answer = message.encode_response(response_value, version)
    answered = message.decode_response(memoryview(answer), version)
    assert message.encode_response(answered, version) == answer


def test_old_versions_have_no_topic_ids_and_group_partitions_by_name() -> None:
    for version in (0, 1, 4):
        body = LEADER_AND_ISR.encode_request(LEADER_AND_ISR_REQUEST, version)
        found = LEADER_AND_ISR.decode_request(memoryview(body), version)
        assert [(topic.topic_name, topic.topic_id) for topic in found.topic_states] == [("orders", NO_TOPIC_ID)]
        assert [state.partition_index for state in found.topic_states[0].partition_states] == [0, 2]
        assert found.broker_epoch == (105 if version >= 2 else NO_BROKER_EPOCH)


def test_the_first_version_of_update_metadata_has_one_plaintext_address() -> None:
    body = UPDATE_METADATA.encode_request(UPDATE_METADATA_REQUEST, 0)
    found = UPDATE_METADATA.decode_request(memoryview(body), 0)
    assert found.live_brokers == (
        LiveBroker(
            id=2,
            endpoints=(
                LiveEndpoint(port=9092, host="two.example", listener="PLAINTEXT", security_protocol="PLAINTEXT"),
            ),
        ),
    )


def test_listeners_without_a_name_are_named_by_their_protocol() -> None:
    body = UPDATE_METADATA.encode_request(UPDATE_METADATA_REQUEST, 2)
    found = UPDATE_METADATA.decode_request(memoryview(body), 2)
    assert [each.listener for each in found.live_brokers[0].endpoints] == ["PLAINTEXT", "SASL_SSL"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_of_stop_replica_delete_all_partitions_or_none(version: int) -> None:
    body = STOP_REPLICA.encode_request(STOP_REPLICA_REQUEST, version)
    found = STOP_REPLICA.decode_request(memoryview(body), version)
    assert [state.delete_partition for state in found.topic_states[0].partition_states] == [True, True]
    assert {state.leader_epoch for state in found.topic_states[0].partition_states} == {-1}


@given(body=st.binary(max_size=200), name=st.sampled_from(sorted(MESSAGES)), version=st.integers(0, 8))
def test_any_bytes_are_a_request_or_malformed(body: bytes, name: str, version: int) -> None:
    message = MESSAGES[name]
    try:
        message.decode_request(memoryview(body), min(version, message.newest))
    except MalformedRequest:
        return


@pytest.mark.parametrize(("message", "request_value", "_response"), VALUES, ids=lambda each: getattr(each, "name", ""))
def test_a_request_that_is_cut_off_is_malformed(message: Message[Any, Any], request_value: Any, _response: Any) -> None:
    body = message.encode_request(request_value, message.newest)
    for length in range(len(body)):
        with pytest.raises(MalformedRequest):
            message.decode_request(memoryview(body)[:length], message.newest)


@pytest.mark.parametrize(
    ("version", "code", "answered"),
    [
        (1, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED),
        (2, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INELIGIBLE_REPLICA),
        (0, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID),
        (0, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_brokers_before_topic_ids_get_codes_that_they_know(version: int, code: ErrorCode, answered: ErrorCode) -> None:
    """As Apache Kafka 3.9 answers AlterPartition 0 and 1."""
    (topic,) = ALTER_PARTITION_RESPONSE.topics
    refused = replace(topic, partitions=(replace(topic.partitions[0], error_code=code),))
    body = ALTER_PARTITION.encode_response(replace(ALTER_PARTITION_RESPONSE, topics=(refused,)), version)
    found = ALTER_PARTITION.decode_response(memoryview(body), version)
    assert found.topics[0].partitions[0].error_code is answered


def at_last(steps: Generator[None, None, Any]) -> tuple[Any, int]:
    """What the steps give, and how many there were."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


@pytest.mark.parametrize(
    ("message", "request_value", "response_value"), VALUES, ids=lambda each: getattr(each, "name", "")
)
def test_steps_read_and_write_the_same(message: Message[Any, Any], request_value: Any, response_value: Any) -> None:
    for version in range(message.newest + 1):
        body = memoryview(message.encode_request(request_value, version))
        assert at_last(message.decode_request_in_steps(body, version))[0] == message.decode_request(body, version)
        written, _ = at_last(message.encode_response_in_steps(response_value, version))
        assert written == message.encode_response(response_value, version)


@pytest.mark.parametrize("version", range(LEADER_AND_ISR.newest + 1))
def test_thousands_of_partitions_are_many_steps(version: int) -> None:
    (topic,), (answer,) = LEADER_AND_ISR_REQUEST.topic_states, LEADER_AND_ISR_RESPONSE.topics
    many = replace(
        LEADER_AND_ISR_REQUEST, topic_states=(replace(topic, partition_states=topic.partition_states * 500),)
    )
    body = memoryview(LEADER_AND_ISR.encode_request(many, version))
    read, steps = at_last(LEADER_AND_ISR.decode_request_in_steps(body, version))
    assert (read == LEADER_AND_ISR.decode_request(body, version), steps > 30) == (True, True)
    errors = replace(
        LEADER_AND_ISR_RESPONSE, topics=(replace(answer, partition_errors=answer.partition_errors * 1_000),)
    )
    written, steps = at_last(LEADER_AND_ISR.encode_response_in_steps(errors, version))
    assert (written == LEADER_AND_ISR.encode_response(errors, version), steps > 30) == (True, True)


@given(body=st.binary(max_size=200), name=st.sampled_from(sorted(MESSAGES)), version=st.integers(0, 8))
def test_any_bytes_are_in_steps_what_they_are_at_once(body: bytes, name: str, version: int) -> None:
    message = MESSAGES[name]
    version = min(version, message.newest)
    try:
        expected = message.decode_request(memoryview(body), version)
    except MalformedRequest:
        with pytest.raises(MalformedRequest):
            at_last(message.decode_request_in_steps(memoryview(body), version))
    else:
        assert at_last(message.decode_request_in_steps(memoryview(body), version))[0] == expected


@pytest.mark.parametrize(("message", "request_value", "_response"), VALUES, ids=lambda each: getattr(each, "name", ""))
def test_what_is_cut_off_is_malformed_in_steps_too(
    message: Message[Any, Any], request_value: Any, _response: Any
) -> None:
    body = message.encode_request(request_value, message.newest)
    for length in range(len(body)):
        with pytest.raises(MalformedRequest):
            at_last(message.decode_request_in_steps(memoryview(body)[:length], message.newest))
