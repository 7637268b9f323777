"""The messages to and from coordinators: requests from network processes, and messages between workers.

Each message is one frame: a kind byte, then one msgpack object. All messages are idempotent, because a process may die
after it has completed a request and before its response.
"""

from uuid import UUID

import msgspec

from kafkad.core.request_context import RequestContext

COORDINATION = 0x06


class CoordinatorRequest(msgspec.Struct, tag="coordinator_request", array_like=True):
    """A request, or a piece of a request, to the coordinator of the internal partition (slot, short_id)."""

    part_id: int
    slot: int
    short_id: int
    context: RequestContext
    body: bytes


class CoordinatorReply(msgspec.Struct, tag="coordinator_reply", array_like=True):
    """The response body. None closes the connection with `reason`: malformed request, or unencodable response."""

    part_id: int
    body: bytes | None
    reason: str = ""


class TxnMarkerRequest(msgspec.Struct, tag="txn_marker_request", array_like=True):
    """Request to write the marker of a decided transaction to these partitions, (slot, short_id) each."""

    marker_id: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: list[tuple[int, int]]


class TxnMarkerWritten(msgspec.Struct, tag="txn_marker_written", array_like=True):
    """The error codes of the partitions in the order of the request; sent when the markers are replicated."""

    marker_id: int
    results: list[int]


class VerifyPartitionsRequest(msgspec.Struct, tag="verification_request", array_like=True):
    """Request to verify that these partitions are in the producer's transaction (KIP-890), or to add them (`adds`)."""

    request_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool
    partitions: list[tuple[str, int]]


class Verified(msgspec.Struct, tag="verified", array_like=True):
    """The error codes of the partitions in the order of the request."""

    request_id: int
    results: list[int]


class LagsRequest(msgspec.Struct, tag="lags_request", array_like=True):
    """The reporter requests the lags of the worker's groups."""


class GroupLags(msgspec.Struct, tag="group_lags", array_like=True):
    """(group, maximum lag of a partition, sum of all lags), in records."""

    rows: list[tuple[str, int, int]]


class ExportOffsetsRequest(msgspec.Struct, tag="export_offsets_request", array_like=True):
    """A cleaner requests the committed offsets of the groups of exports."""


class ExportOffsets(msgspec.Struct, tag="export_offsets", array_like=True):
    """The worker's partitions of `__consumer_offsets`, and the (topic, partition, offset) that exports committed."""

    shards: list[int]
    rows: list[tuple[UUID, int, int]]


CoordinationMessage = (
    LagsRequest
    | ExportOffsetsRequest
    | ExportOffsets
    | GroupLags
    | CoordinatorRequest
    | CoordinatorReply
    | TxnMarkerRequest
    | TxnMarkerWritten
    | VerifyPartitionsRequest
    | Verified
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(CoordinationMessage)


def pack_coordination(message: CoordinationMessage) -> bytes:
    return bytes((COORDINATION,)) + _encoder.encode(message)


def unpack_coordination(frame: bytes) -> CoordinationMessage:
    message: CoordinationMessage = _decoder.decode(memoryview(frame)[1:])
    return message
