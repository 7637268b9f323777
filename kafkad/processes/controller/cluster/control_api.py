"""The controller's requests as they come over the wire: decoded, refused on a listener for clients, encoded.

There is no authentication yet, so whoever reaches a client listener could otherwise take partitions away.
"""

from collections.abc import Callable
from typing import Any

from kafkad.core.cluster.control_requests import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kafkad.core.errors import ErrorCode
from kafkad.processes.controller.cluster.ports import ControlRequest, ControlResponse
from kafkad.wire import api_table
from kafkad.wire.cluster.leader_and_isr import LEADER_AND_ISR
from kafkad.wire.cluster.schema import Message
from kafkad.wire.cluster.stop_replica import STOP_REPLICA
from kafkad.wire.cluster.update_metadata import UPDATE_METADATA

MESSAGES: dict[int, Message[Any, Any]] = {
    api_table.LEADER_AND_ISR: LEADER_AND_ISR,
    api_table.STOP_REPLICA: STOP_REPLICA,
    api_table.UPDATE_METADATA: UPDATE_METADATA,
}
_REFUSALS: dict[int, Callable[..., ControlResponse]] = {
    api_table.LEADER_AND_ISR: LeaderAndIsrResponse,
    api_table.STOP_REPLICA: StopReplicaResponse,
    api_table.UPDATE_METADATA: UpdateMetadataResponse,
}


def key_of(request: ControlRequest) -> int:
    if isinstance(request, LeaderAndIsrRequest):
        return api_table.LEADER_AND_ISR
    return api_table.UPDATE_METADATA if isinstance(request, UpdateMetadataRequest) else api_table.STOP_REPLICA


def read_request(api_key: int, version: int, body: bytes) -> ControlRequest:
    """Raises MalformedRequest."""
    request: ControlRequest = MESSAGES[api_key].decode_request(memoryview(body), version)
    return request


def write_response(api_key: int, version: int, response: ControlResponse) -> bytes:
    return MESSAGES[api_key].encode_response(response, version)


def unauthorized(api_key: int, version: int) -> bytes:
    return write_response(api_key, version, _REFUSALS[api_key](error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
