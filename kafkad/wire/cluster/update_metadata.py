"""UpdateMetadata 0 to 8: partitions by topic since version 5, topic ids since 7, endpoints since 1."""

from typing import Any

from kafkad.core.cluster.control_requests import (
    LiveBroker,
    LiveEndpoint,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from kafkad.core.types import SECURITY_PROTOCOLS
from kafkad.wire.cluster.flat_partitions import flat, grouped
from kafkad.wire.cluster.schema import (
    Field,
    Message,
    array_of,
    boolean,
    constant,
    error_code,
    int16,
    int32,
    int64,
    long_array_of,
    nullable_string,
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
    Field("zk_version", int32),
    Field("replicas", array_of(int32)),
    Field("offline_replicas", array_of(int32), 4),
)
_TOPIC = (
    Field("topic_name", string),
    Field("topic_id", uuid, 7),
    Field("partition_states", long_array_of(struct_of(UpdateMetadataPartition, _STATE))),
)
_ENDPOINT = (
    Field("port", int32),
    Field("host", string),
    Field("listener", string, 3),
    Field("security_protocol", int16, value=lambda endpoint: SECURITY_PROTOCOLS.index(endpoint.security_protocol)),
)


def _endpoint(*, security_protocol: int, **values: Any) -> LiveEndpoint:
    if not 0 <= security_protocol < len(SECURITY_PROTOCOLS):
        raise ValueError(f"unknown security protocol {security_protocol}")
    protocol = SECURITY_PROTOCOLS[security_protocol]
    return LiveEndpoint(**{"listener": protocol, **values}, security_protocol=protocol)


def _broker(*, host: str = "", port: int = 0, **values: Any) -> LiveBroker:
    """Before version 1 a broker has one PLAINTEXT address."""
    plain = LiveEndpoint(port=port, host=host, listener="PLAINTEXT", security_protocol="PLAINTEXT")
    return LiveBroker(**{"endpoints": (plain,), **values})


_BROKER = (
    Field("id", int32),
    Field("host", string, until=0, value=lambda broker: broker.endpoints[0].host),
    Field("port", int32, until=0, value=lambda broker: broker.endpoints[0].port),
    Field("endpoints", array_of(struct_of(_endpoint, _ENDPOINT)), 1),
    Field("rack", nullable_string, 2),
)


def _request(*, ungrouped: tuple[tuple[str, Any], ...] = (), **values: Any) -> UpdateMetadataRequest:
    if "topic_states" not in values:
        values["topic_states"] = tuple(
            UpdateMetadataTopic(topic_name=name, partition_states=states) for name, states in grouped(ungrouped)
        )
    return UpdateMetadataRequest(**values)


UPDATE_METADATA: Message[UpdateMetadataRequest, UpdateMetadataResponse] = Message(
    name="UpdateMetadata",
    newest=8,
    flexible_from=6,
    request=struct_of(
        _request,
        (
            Field("controller_id", int32),
            constant("is_kraft_controller", boolean, False, 8),
            Field("controller_epoch", int32),
            Field("broker_epoch", int64, 5),
            Field(
                "ungrouped",
                long_array_of(flat(UpdateMetadataPartition, _STATE)),
                until=4,
                value=lambda request: [
                    (topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states
                ],
            ),
            Field("topic_states", long_array_of(struct_of(UpdateMetadataTopic, _TOPIC)), 5),
            Field("live_brokers", array_of(struct_of(_broker, _BROKER))),
        ),
    ),
    response=struct_of(UpdateMetadataResponse, (Field("error_code", error_code),)),
)
