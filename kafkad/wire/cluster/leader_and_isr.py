"""LeaderAndIsr 0 to 7: partitions by topic since version 2, with topic ids since 5; the response by topic since 5."""

from typing import Any

from kafkad.core.cluster.control_requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    LeaderAndIsrTopicError,
    LiveLeader,
    PartitionError,
)
from kafkad.wire.cluster.flat_partitions import flat, grouped
from kafkad.wire.cluster.schema import (
    Field,
    Message,
    array_of,
    boolean,
    constant,
    error_code,
    int8,
    int32,
    int64,
    long_array_of,
    string,
    struct_of,
    uuid,
)

_STATE = (
    Field("partition_index", int32),
    Field("controller_epoch", int32),
    Field("leader", int32),
    Field("leader_epoch", int32),
    Field("isr", array_of(int32)),
    Field("partition_epoch", int32),
    Field("replicas", array_of(int32)),
    Field("adding_replicas", array_of(int32), 3),
    Field("removing_replicas", array_of(int32), 3),
    Field("is_new", boolean, 1),
    Field("leader_recovery_state", int8, 6),
)
_TOPIC = (
    Field("topic_name", string),
    Field("topic_id", uuid, 5),
    Field("partition_states", long_array_of(struct_of(LeaderAndIsrPartition, _STATE))),
)
_LIVE_LEADER = (Field("broker_id", int32), Field("host_name", string), Field("port", int32))
_PARTITION_ERROR = (Field("partition_index", int32), Field("error_code", error_code))
_TOPIC_ERROR = (
    Field("topic_id", uuid),
    Field("partition_errors", long_array_of(struct_of(PartitionError, _PARTITION_ERROR))),
)


def _request(*, ungrouped: tuple[tuple[str, Any], ...] = (), **values: Any) -> LeaderAndIsrRequest:
    if "topic_states" not in values:
        values["topic_states"] = tuple(
            LeaderAndIsrTopic(topic_name=name, partition_states=states) for name, states in grouped(ungrouped)
        )
    return LeaderAndIsrRequest(**values)


def _response(*, ungrouped: tuple[tuple[str, Any], ...] = (), **values: Any) -> LeaderAndIsrResponse:
    if "topics" not in values:
        values["topics"] = tuple(
            LeaderAndIsrTopicError(topic_name=name, partition_errors=errors) for name, errors in grouped(ungrouped)
        )
    return LeaderAndIsrResponse(**values)


LEADER_AND_ISR: Message[LeaderAndIsrRequest, LeaderAndIsrResponse] = Message(
    name="LeaderAndIsr",
    newest=7,
    flexible_from=4,
    request=struct_of(
        _request,
        (
            Field("controller_id", int32),
            constant("is_kraft_controller", boolean, False, 7),
            Field("controller_epoch", int32),
            Field("broker_epoch", int64, 2),
            constant("type", int8, 0, 5),
            Field(
                "ungrouped",
                long_array_of(flat(LeaderAndIsrPartition, _STATE)),
                until=1,
                value=lambda request: [
                    (topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states
                ],
            ),
            Field("topic_states", long_array_of(struct_of(LeaderAndIsrTopic, _TOPIC)), 2),
            Field("live_leaders", array_of(struct_of(LiveLeader, _LIVE_LEADER))),
        ),
    ),
    response=struct_of(
        _response,
        (
            Field("error_code", error_code),
            Field(
                "ungrouped",
                long_array_of(flat(PartitionError, _PARTITION_ERROR)),
                until=4,
                value=lambda response: [
                    (topic.topic_name, each) for topic in response.topics for each in topic.partition_errors
                ],
            ),
            Field("topics", long_array_of(struct_of(LeaderAndIsrTopicError, _TOPIC_ERROR)), 5),
        ),
    ),
)
