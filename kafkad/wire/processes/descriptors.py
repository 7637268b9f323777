"""The messages between network processes and workers, as bytes; they never contain records.

Each message is one frame: a kind byte, then packed entries (frequent kinds) or one msgpack object (the others). The
format needs no version, because the same supervisor forks both processes.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct

import msgspec

from kafkad.wire.processes.cleaning_messages import (
    CleaningEnded,
    CleaningGranted,
    CleaningRequest,
    Compactions,
    CompactionsRequest,
    Swapped,
    SwapRequest,
)

APPEND = 0x01
WATCH = 0x02
APPENDED = 0x03
MOVED = 0x04
CONTROL = 0x05

_APPEND_HEAD = Struct("<QqhHI")
_APPEND_SLICE = Struct("<IQQI")
_TRANSACTIONAL_ID = Struct("<H")
_IS_TRANSACTIONAL = 1 << 15
"""A flag in the version of an APPEND entry: a transactional id is between head and slices."""
_WATCH = Struct("<IQq")
_APPENDED_HEAD = Struct("<QI")
_APPENDED_RESULT = Struct("<hqqq")
_SLOT = Struct("<I")
_ISOLATION_SHIFT = 30
"""Above all slot numbers."""

AppendSlice = tuple[int, int, int, int]
"""(partition slot, short topic id, offset in the sender's arena, length in bytes)."""
AppendResult = tuple[int, int, int, int]
"""(error code, base offset, log append time or -1, log start offset)."""


def short_topic_id(topic_id: bytes) -> int:
    """Half of a topic id; descriptors contain it beside the slot, to detect a slot that another topic reuses."""
    return int.from_bytes(topic_id[8:], "little")


def frames_of(kind: bytes, entries: Sequence[bytes], limit: int) -> Iterable[bytes]:
    """Packed entries in frames of at most `limit` bytes, usually one."""
    frame = kind + b"".join(entries)
    return (frame,) if len(frame) <= limit or len(entries) == 1 else _several(kind, entries, limit)


def _several(kind: bytes, entries: Sequence[bytes], limit: int) -> Iterator[bytes]:
    size, first = 1, 0
    for number, entry in enumerate(entries):
        if size + len(entry) > limit and number > first:
            yield kind + b"".join(entries[first:number])
            size, first = 1, number
        size += len(entry)
    yield kind + b"".join(entries[first:])


def pack_append(
    part_id: int,
    deadline_ms: int,
    acks: int,
    version: int,
    slices: Sequence[AppendSlice],
    transactional_id: str | None = None,
) -> bytes:
    """A Produce request, or the part of it for one worker. `deadline_ms` is CLOCK_MONOTONIC."""
    if transactional_id is None:
        head = _APPEND_HEAD.pack(part_id, deadline_ms, acks, version, len(slices))
    else:
        name = transactional_id.encode()
        head = _APPEND_HEAD.pack(part_id, deadline_ms, acks, version | _IS_TRANSACTIONAL, len(slices))
        head += _TRANSACTIONAL_ID.pack(len(name)) + name
    if len(slices) == 1:
        return head + _APPEND_SLICE.pack(*slices[0])
    return head + b"".join([_APPEND_SLICE.pack(*piece) for piece in slices])


def unpack_appends(frame: bytes) -> Iterator[tuple[int, int, int, int, list[AppendSlice], str | None]]:
    """(part id, deadline_ms, acks, version, slices, transactional id) of each request in an APPEND frame."""
    at, end = 1, len(frame)
    while at < end:
        part_id, deadline_ms, acks, version, count = _APPEND_HEAD.unpack_from(frame, at)
        at += 24
        transactional_id = None
        if version >= _IS_TRANSACTIONAL:
            version -= _IS_TRANSACTIONAL
            (length,) = _TRANSACTIONAL_ID.unpack_from(frame, at)
            at += 2 + length
            transactional_id = frame[at - length : at].decode()
        if count == 1:
            slices = [_APPEND_SLICE.unpack_from(frame, at)]
        else:
            slices = list(_APPEND_SLICE.iter_unpack(frame[at : at + 24 * count]))
        at += 24 * count
        yield part_id, deadline_ms, acks, version, slices, transactional_id


def pack_appended(part_id: int, results: Sequence[AppendResult]) -> bytes:
    head = _APPENDED_HEAD.pack(part_id, len(results))
    if len(results) == 1:
        return head + _APPENDED_RESULT.pack(*results[0])
    return head + b"".join([_APPENDED_RESULT.pack(*result) for result in results])


def unpack_appended(frame: bytes) -> Iterator[tuple[int, list[AppendResult]]]:
    at, end = 1, len(frame)
    while at < end:
        part_id, count = _APPENDED_HEAD.unpack_from(frame, at)
        at += 12
        if count == 1:
            yield part_id, [_APPENDED_RESULT.unpack_from(frame, at)]
        else:
            yield part_id, list(_APPENDED_RESULT.iter_unpack(frame[at : at + 26 * count]))
        at += 26 * count


def watch_key(slot: int, isolation: int) -> int:
    """The key in WATCH and MOVED of the end offset for fetches of `slot` with this isolation."""
    return slot | isolation << _ISOLATION_SHIFT


def watched_slot(key: int) -> tuple[int, int]:
    """(slot, isolation)."""
    return key & (1 << _ISOLATION_SHIFT) - 1, key >> _ISOLATION_SHIFT


def pack_watch(key: int, short_id: int, offset: int) -> bytes:
    """Request MOVED from the owner when the end offset of `key` is beyond `offset`."""
    return _WATCH.pack(key, short_id, offset)


def unpack_watches(frame: bytes) -> list[tuple[int, int, int]]:
    """(key, short_id, offset) each."""
    return list(_WATCH.iter_unpack(memoryview(frame)[1:]))


def pack_moved(keys: Sequence[int]) -> bytes:
    return bytes((MOVED,)) + b"".join([_SLOT.pack(key) for key in keys])


def unpack_moved(frame: bytes) -> list[int]:
    return [key for (key,) in _SLOT.iter_unpack(memoryview(frame)[1:])]


class RecordErrors(msgspec.Struct, tag="record_errors", array_like=True):
    """The error messages of the partition at index `ordinal` (KIP-467); sent before the APPENDED entry of `part_id`."""

    part_id: int
    ordinal: int
    message: str | None
    errors: list[tuple[int, str | None]]


class ManifestRequest(msgspec.Struct, tag="manifest_request", array_like=True):
    """A network process requests the manifest of a slot.

    The reason: it has none of the current generation, or `files_missing`, or an index of the segment with base offset
    `wrong_index` contradicts the log in `generation`.
    """

    slot: int
    short_id: int
    files_missing: bool = False
    wrong_index: int = -1
    generation: int = -1


class Manifest(msgspec.Struct, tag="manifest", array_like=True):
    """The files of a partition at one generation; `found` is False if the worker does not own the slot."""

    slot: int
    short_id: int
    found: bool
    generation: int
    segment_bases: list[int]
    epochs: list[tuple[int, int]]
    """(leader epoch, start offset), both ascending."""
    rewrites: int = 0


class FilesRemoved(msgspec.Struct, tag="files_removed", array_like=True):
    """An owner has unlinked files of these slots; their disk space is free when no process has them open."""

    slots: list[int]


class DeleteRecordsRequest(msgspec.Struct, tag="delete_records_request", array_like=True):
    """Request to move the log start of partitions: (slot, short_id, offset or -1 for the high watermark)."""

    part_id: int
    deadline_ms: int
    partitions: list[tuple[int, int, int]]


class DeletedRecords(msgspec.Struct, tag="deleted_records", array_like=True):
    """(error code, low watermark) in the order of the request."""

    part_id: int
    results: list[tuple[int, int]]


class ProducersRequest(msgspec.Struct, tag="producers_request", array_like=True):
    part_id: int
    partitions: list[tuple[int, int]]


class Producers(msgspec.Struct, tag="producers", array_like=True):
    """(error code, number of producers, packed rows) in the order of the request."""

    part_id: int
    results: list[tuple[int, int, bytes]]


class TxnMarkerEntry(msgspec.Struct, array_like=True):
    """The end of one producer's transaction in these partitions: (slot, short_id)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: list[tuple[int, int]]


class WriteTxnMarkersOrder(msgspec.Struct, tag="write_txn_markers_request", array_like=True):
    """A client's WriteTxnMarkers request."""

    part_id: int
    markers: list[TxnMarkerEntry]


class TxnMarkersWritten(msgspec.Struct, tag="txn_markers_written", array_like=True):
    """The error codes of the partitions of each marker in the order of the request; sent when they are replicated."""

    part_id: int
    results: list[list[int]]


class SegmentsRequest(msgspec.Struct, tag="segments_request", array_like=True):
    """A cleaner requests the segments of these partitions: (slot, short_id)."""

    part_id: int
    partitions: list[tuple[int, int]]


class SegmentRow(msgspec.Struct, array_like=True):
    """One segment of a log for cleanup policies; times are wall-clock milliseconds."""

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    last_modified_ms: int
    is_active: bool
    first_timestamp_ms: int


class SegmentsOf(msgspec.Struct, array_like=True):
    """The log of one slot; empty if the worker no longer owns the slot."""

    slot: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    cleanable_end: int
    cleaned_offset: int
    segments: list[SegmentRow]


class SegmentsDescribed(msgspec.Struct, tag="segments_described", array_like=True):
    part_id: int
    partitions: list[SegmentsOf]


class CleanupOrdered(msgspec.Struct, tag="cleanup_ordered", array_like=True):
    """A cleanup policy's plan for one partition: roll first, then delete segments up to a base offset (-1: none).

    Records from `log_end_offset` on are not deleted: it is the log end at the time of the plan, or the end of the last
    segment to delete. Segments that have been merged with later ones are not deleted either.
    """

    slot: int
    short_id: int
    roll: bool
    delete_up_to: int
    log_end_offset: int
    reason: str


class DiskNearlyFull(msgspec.Struct, tag="disk_nearly_full", array_like=True):
    """A worker notifies the cleaners of a nearly full log directory, so that they check its partitions at once."""

    log_dir: int


ControlMessage = (
    SegmentsRequest
    | SegmentsDescribed
    | CleanupOrdered
    | DiskNearlyFull
    | CleaningRequest
    | CleaningGranted
    | SwapRequest
    | Swapped
    | CleaningEnded
    | CompactionsRequest
    | Compactions
    | RecordErrors
    | ManifestRequest
    | Manifest
    | FilesRemoved
    | DeleteRecordsRequest
    | DeletedRecords
    | ProducersRequest
    | Producers
    | WriteTxnMarkersOrder
    | TxnMarkersWritten
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ControlMessage)


def pack_control(message: ControlMessage) -> bytes:
    return bytes((CONTROL,)) + _encoder.encode(message)


def unpack_control(frame: bytes) -> ControlMessage:
    message: ControlMessage = _decoder.decode(memoryview(frame)[1:])
    return message
