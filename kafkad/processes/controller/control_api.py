"""Decodes and encodes requests of the controller: LeaderAndIsr, StopReplica and UpdateMetadata.

They are rejected on listeners for clients: without authentication, any client could take partitions away.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from kafkad.core.cluster.control_requests import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kafkad.core.cluster.request_parts import ControlRequest, ControlResponse
from kafkad.core.errors import ErrorCode
from kafkad.wire import api_table
from kafkad.wire.api_table import unencodable
from kafkad.wire.cluster.leader_and_isr import LEADER_AND_ISR
from kafkad.wire.cluster.schema import Message
from kafkad.wire.cluster.stop_replica import STOP_REPLICA
from kafkad.wire.cluster.update_metadata import UPDATE_METADATA
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage
from kafkad.wire.processes.controller_messages import AdminReply, AdminRequest

MESSAGES: dict[int, Message[Any, Any]] = {
    api_table.LEADER_AND_ISR: LEADER_AND_ISR,
    api_table.STOP_REPLICA: STOP_REPLICA,
    api_table.UPDATE_METADATA: UPDATE_METADATA,
}
_ERROR_RESPONSES: dict[int, Callable[..., ControlResponse]] = {
    api_table.LEADER_AND_ISR: LeaderAndIsrResponse,
    api_table.STOP_REPLICA: StopReplicaResponse,
    api_table.UPDATE_METADATA: UpdateMetadataResponse,
}


def key_of(request: ControlRequest) -> int:
    if isinstance(request, LeaderAndIsrRequest):
        return api_table.LEADER_AND_ISR
    return api_table.UPDATE_METADATA if isinstance(request, UpdateMetadataRequest) else api_table.STOP_REPLICA


Reply = Callable[[AdminReply], object]


def read_control_request(message: AdminRequest, reply: Reply) -> Generator[None, None, ControlRequest | None]:
    """Decode the request in steps. None: it is malformed, and the error was replied."""
    key, version = message.context.api_key, message.context.version
    try:
        request: ControlRequest = yield from MESSAGES[key].decode_request_in_steps(memoryview(message.body), version)
    except MalformedRequest as error:
        reply(AdminReply(message.token, None, str(error)))
        return None
    return request


def write_control_response(
    message: AdminRequest, reply: Reply, response: ControlResponse
) -> Generator[None, None, Callable[[], object]]:
    """Encode the response in steps. Returns a function that sends it."""
    key, version = message.context.api_key, message.context.version
    try:
        body = yield from MESSAGES[key].encode_response_in_steps(response, version)
    except UnencodableMessage as error:
        return partial(reply, AdminReply(message.token, None, unencodable(key, version, error)))
    return partial(reply, AdminReply(message.token, body))


def unauthorized(api_key: int, version: int) -> bytes:
    response = _ERROR_RESPONSES[api_key](error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return MESSAGES[api_key].encode_response(response, version)
