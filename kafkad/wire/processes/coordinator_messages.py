"""The messages to and from coordinators: requests from network processes, and questions between workers.

Each message is one frame: a kind byte, then one msgpack object. Every message may be sent twice without harm:
coordinators and owners of partitions recognize what they have done already, as either may die between the work and the
answer.
"""

from uuid import UUID

import msgspec

from kafkad.core.request_context import RequestContext

COORDINATION = 0x06


class CoordinatorRequest(msgspec.Struct, tag="coordinator_asked", array_like=True):
    """A request, or the part of one, for the coordinator in the internal partition (slot, short_id)."""

    part_id: int
    slot: int
    short_id: int
    context: RequestContext
    body: bytes


class CoordinatorReply(msgspec.Struct, tag="coordinator_answered", array_like=True):
    """The response body. None closes the connection; `reason` says why: the request was malformed, or has no answer."""

    part_id: int
    body: bytes | None
    reason: str = ""


class TxnMarkerRequest(msgspec.Struct, tag="txn_marker_wanted", array_like=True):
    """A transaction is decided: write its marker to these partitions, (slot, short_id) each."""

    marker_id: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: list[tuple[int, int]]


class TxnMarkerWritten(msgspec.Struct, tag="txn_marker_written", array_like=True):
    """An error code for each partition, in the order of the request; sent when the markers are replicated."""

    marker_id: int
    results: list[int]


class VerifyPartitionsRequest(msgspec.Struct, tag="verification_wanted", array_like=True):
    """Are these partitions in the producer's transaction (KIP-890)? With `adds` they are added to it."""

    question_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool
    partitions: list[tuple[str, int]]


class Verified(msgspec.Struct, tag="verified", array_like=True):
    """An error code for each partition, in the order of the question."""

    question_id: int
    results: list[int]


class LagsRequest(msgspec.Struct, tag="lags_wanted", array_like=True):
    """The reporter asks how far the worker's groups are behind."""


class GroupLags(msgspec.Struct, tag="group_lags", array_like=True):
    """(group, records behind in its worst partition, in all of them)."""

    rows: list[tuple[str, int, int]]


class ExportOffsetsRequest(msgspec.Struct, tag="export_offsets_wanted", array_like=True):
    """A cleaner asks what the groups of exports have committed."""


class ExportOffsets(msgspec.Struct, tag="export_offsets", array_like=True):
    """The partitions of `__consumer_offsets` that the worker serves, and what is committed in them: (topic, partition,
    offset) of each group of an export.
    """

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
