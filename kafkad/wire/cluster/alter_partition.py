"""AlterPartition 0 to 3: topics by id since version 2, the requested ISR with broker epochs since 3."""

from typing import Any

from kafkad.core.cluster.control_requests import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    IsrMember,
)
from kafkad.core.errors import ErrorCode
from kafkad.wire.cluster.schema import (
    Field,
    Message,
    array_of,
    constant,
    error_code,
    int8,
    int32,
    int64,
    string,
    struct_of,
    uuid,
)


def _partition(*, new_isr: tuple[int, ...] = (), **values: Any) -> AlterPartitionPartition:
    plain = tuple(IsrMember(broker_id=broker) for broker in new_isr)
    return AlterPartitionPartition(**{"new_isr_with_epochs": plain, **values})


_MEMBER = (Field("broker_id", int32), Field("broker_epoch", int64))
_PARTITION = (
    Field("partition_index", int32),
    Field("leader_epoch", int32),
    Field(
        "new_isr",
        array_of(int32),
        until=2,
        value=lambda partition: [member.broker_id for member in partition.new_isr_with_epochs],
    ),
    Field("new_isr_with_epochs", array_of(struct_of(IsrMember, _MEMBER)), 3),
    Field("leader_recovery_state", int8, 1),
    Field("partition_epoch", int32),
)
_BEFORE_TOPIC_IDS = {
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INELIGIBLE_REPLICA: ErrorCode.OPERATION_NOT_ATTEMPTED,
}
"""Replacements of codes that versions 0 and 1 do not have, as in Apache Kafka 3.9."""


def _code_before_topic_ids(altered: AlteredPartition) -> ErrorCode:
    return _BEFORE_TOPIC_IDS.get(altered.error_code, altered.error_code)


_ALTERED = (
    Field("partition_index", int32),
    Field("error_code", error_code, until=1, value=_code_before_topic_ids),
    Field("error_code", error_code, 2),
    Field("leader_id", int32),
    Field("leader_epoch", int32),
    Field("isr", array_of(int32)),
    Field("leader_recovery_state", int8, 1),
    Field("partition_epoch", int32),
)


def _topic(partition: Any, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return (
        Field("topic_name", string, until=1),
        Field("topic_id", uuid, 2),
        Field("partitions", array_of(struct_of(partition, fields))),
    )


ALTER_PARTITION: Message[AlterPartitionRequest, AlterPartitionResponse] = Message(
    name="AlterPartition",
    newest=3,
    flexible_from=0,
    request=struct_of(
        AlterPartitionRequest,
        (
            Field("broker_id", int32),
            Field("broker_epoch", int64),
            Field("topics", array_of(struct_of(AlterPartitionTopic, _topic(_partition, _PARTITION)))),
        ),
    ),
    response=struct_of(
        AlterPartitionResponse,
        (
            constant("throttle_time_ms", int32, 0),
            Field("error_code", error_code),
            Field("topics", array_of(struct_of(AlteredTopic, _topic(AlteredPartition, _ALTERED)))),
        ),
    ),
)
