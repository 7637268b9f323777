"""What is said to and by coordinators: requests from network processes, and what workers ask each other.

One frame for each: a kind byte, then one msgpack object. All of it is safe to be said twice: a coordinator and an
owner of partitions recognize what they have done, as either may die between doing and answering.
"""

import msgspec

from kafkad.core.request_context import RequestContext

COORDINATION = 0x06


class CoordinatorAsked(msgspec.Struct, tag="coordinator_asked", array_like=True):
    """A request, or the share of it, that the internal partition (slot, tag) is responsible for."""

    part_id: int
    slot: int
    tag: int
    context: RequestContext
    body: bytes


class CoordinatorAnswered(msgspec.Struct, tag="coordinator_answered", array_like=True):
    """The response body; None: the request was malformed, `reason` says how."""

    part_id: int
    body: bytes | None
    reason: str = ""


class WriteTxnMarkersWanted(msgspec.Struct, tag="write_txn_markers_wanted", array_like=True):
    """A transaction is decided: write its marker to these partitions, (slot, tag) each."""

    marker_id: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: list[tuple[int, int]]


class MarkersWritten(msgspec.Struct, tag="markers_written", array_like=True):
    """An error code for each, in the order given; sent when the markers are replicated."""

    marker_id: int
    results: list[int]


class VerificationWanted(msgspec.Struct, tag="verification_wanted", array_like=True):
    """Are these partitions in the producer's transaction (KIP-890)? With `adds` they become part of it."""

    question_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool
    partitions: list[tuple[str, int]]


class Verified(msgspec.Struct, tag="verified", array_like=True):
    """An error code for each, in the order asked."""

    question_id: int
    results: list[int]


class LagsWanted(msgspec.Struct, tag="lags_wanted", array_like=True):
    """The reporter wants to know how far the worker's groups are behind."""


class GroupLags(msgspec.Struct, tag="group_lags", array_like=True):
    """(group, records behind in its worst partition, in all of them)."""

    rows: list[tuple[str, int, int]]


CoordinationMessage = (
    LagsWanted
    | GroupLags
    | CoordinatorAsked
    | CoordinatorAnswered
    | WriteTxnMarkersWanted
    | MarkersWritten
    | VerificationWanted
    | Verified
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(CoordinationMessage)


def pack_coordination(message: CoordinationMessage) -> bytes:
    return bytes((COORDINATION,)) + _encoder.encode(message)


def unpack_coordination(frame: bytes) -> CoordinationMessage:
    message: CoordinationMessage = _decoder.decode(memoryview(frame)[1:])
    return message
