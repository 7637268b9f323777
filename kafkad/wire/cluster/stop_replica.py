"""StopReplica 0 to 4: up to version 2 one request deletes all its partitions or none."""

from typing import Any

from kafkad.core.cluster.control_requests import (
    StopReplicaError,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
)
from kafkad.wire.cluster.flat_partitions import grouped
from kafkad.wire.cluster.schema import (
    Field,
    Message,
    array_of,
    boolean,
    constant,
    error_code,
    int32,
    int64,
    long_array_of,
    string,
    struct_of,
)

_STATE = (Field("partition_index", int32), Field("leader_epoch", int32), Field("delete_partition", boolean))
_TOPIC = (
    Field("topic_name", string),
    Field("partition_states", long_array_of(struct_of(StopReplicaPartition, _STATE))),
)


def _pair(*, topic_name: str, partition_index: int) -> tuple[str, int]:
    return topic_name, partition_index


def _row(*, topic_name: str, partition_indexes: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    return topic_name, partition_indexes


_FLAT = (
    Field("topic_name", string, value=lambda pair: pair[0]),
    Field("partition_index", int32, value=lambda pair: pair[1]),
)
_INDEXES = (
    Field("topic_name", string, value=lambda topic: topic.topic_name),
    Field(
        "partition_indexes",
        array_of(int32),
        value=lambda topic: [state.partition_index for state in topic.partition_states],
    ),
)
_ERROR = (Field("topic_name", string), Field("partition_index", int32), Field("error_code", error_code))


def _request(
    *,
    delete_partitions: bool = False,
    ungrouped: tuple[tuple[str, int], ...] = (),
    indexes: tuple[tuple[str, tuple[int, ...]], ...] = (),
    **values: Any,
) -> StopReplicaRequest:
    if "topic_states" not in values:
        values["topic_states"] = tuple(
            StopReplicaTopic(
                topic_name=name,
                partition_states=tuple(
                    StopReplicaPartition(partition_index=index, delete_partition=delete_partitions) for index in rows
                ),
            )
            for name, rows in (*grouped(ungrouped), *indexes)
        )
    return StopReplicaRequest(**values)


def _deletes(request: StopReplicaRequest) -> bool:
    return any(state.delete_partition for topic in request.topic_states for state in topic.partition_states)


STOP_REPLICA: Message[StopReplicaRequest, StopReplicaResponse] = Message(
    name="StopReplica",
    newest=4,
    flexible_from=2,
    request=struct_of(
        _request,
        (
            Field("controller_id", int32),
            constant("is_kraft_controller", boolean, False, 4),
            Field("controller_epoch", int32),
            Field("broker_epoch", int64, 1),
            Field("delete_partitions", boolean, until=2, value=_deletes),
            Field(
                "ungrouped",
                long_array_of(struct_of(_pair, _FLAT)),
                until=0,
                value=lambda request: [
                    (topic.topic_name, state.partition_index)
                    for topic in request.topic_states
                    for state in topic.partition_states
                ],
            ),
            Field(
                "indexes", long_array_of(struct_of(_row, _INDEXES)), 1, 2, value=lambda request: request.topic_states
            ),
            Field("topic_states", long_array_of(struct_of(StopReplicaTopic, _TOPIC)), 3),
        ),
    ),
    response=struct_of(
        StopReplicaResponse,
        (
            Field("error_code", error_code),
            Field("partition_errors", long_array_of(struct_of(StopReplicaError, _ERROR))),
        ),
    ),
)
