"""Requests of a broker to the controller: ControlledShutdown 0 to 3, AllocateProducerIds 0."""

from kafkad.core.cluster.control_requests import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from kafkad.wire.cluster.schema import (
    Field,
    Message,
    array_of,
    constant,
    error_code,
    int32,
    int64,
    string,
    struct_of,
)

_REMAINING = (Field("topic_name", string), Field("partition_index", int32))

CONTROLLED_SHUTDOWN: Message[ControlledShutdownRequest, ControlledShutdownResponse] = Message(
    name="ControlledShutdown",
    newest=3,
    flexible_from=3,
    request=struct_of(ControlledShutdownRequest, (Field("broker_id", int32), Field("broker_epoch", int64, 2))),
    response=struct_of(
        ControlledShutdownResponse,
        (
            Field("error_code", error_code),
            Field("remaining_partitions", array_of(struct_of(RemainingPartition, _REMAINING))),
        ),
    ),
)

ALLOCATE_PRODUCER_IDS: Message[AllocateProducerIdsRequest, AllocateProducerIdsResponse] = Message(
    name="AllocateProducerIds",
    newest=0,
    flexible_from=0,
    request=struct_of(AllocateProducerIdsRequest, (Field("broker_id", int32), Field("broker_epoch", int64))),
    response=struct_of(
        AllocateProducerIdsResponse,
        (
            constant("throttle_time_ms", int32, 0),
            Field("error_code", error_code),
            Field("producer_id_start", int64),
            Field("producer_id_len", int32),
        ),
    ),
)
