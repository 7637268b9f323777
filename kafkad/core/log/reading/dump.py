"""What do the files of a partition directory contain, and do they agree with each other?

The rules of `kafkad dump-log`: each function reads one kind of file and yields lines of named fields (with the names of
Kafka's DumpLogSegments) and problems. Nothing is changed, and damage never hides the rest. The command opens files and
prints.

An offset index entry has the last offset of a batch and the position of this batch; a time index entry the largest
timestamp so far and the last offset of its batch. Zero entries after the first are preallocated space, not entries.
Indexes are compared with the batch headers of the log.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from kafkad.core.log.epochs import CorruptCheckpoint, parse_checkpoint
from kafkad.core.log.producers.snapshot import CorruptSnapshot, decode_snapshot
from kafkad.core.log.records.batch import (
    CONTROL_FLAG,
    HEADER_SIZE,
    MAX_SEQUENCE,
    BatchHeader,
    Codec,
    CorruptBatch,
    has_valid_crc,
    read_header_within,
)
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.records.end_markers import read_end_marker
from kafkad.core.log.records.record import MalformedRecords, Record, iter_records, record_timestamp
from kafkad.core.log.recovery.checkpoints import CheckpointCorrupt, parse_offsets, parse_partition_metadata
from kafkad.core.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from kafkad.core.log.segments.transaction_index import ENTRY_LAYOUT
from kafkad.core.types import NO_SEQUENCE, NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file to dump: `read_at(size, position)` returns fewer bytes only at the end."""

    name: str
    size: int
    read_at: Callable[[int, int], bytes]

    def content(self) -> bytes:
        return self.read_at(self.size, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the dump; `kind` is batch, record, gap, index, empty, timeindex, txnindex, producer or epoch."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A check that failed."""

    message: str


Found = Iterator[Line | Problem]


def dump_log(log: Source, base_offset: int, *, deep: bool = False, with_data: bool = False) -> Found:
    """Every batch of a segment; `deep` adds the records, `with_data` also their keys and values."""
    expected = base_offset
    previous: int | None = None
    try:
        for position, header in walk_batches(log.read_at, 0, log.size):
            batch = memoryview(log.read_at(header.size, position))
            is_valid = has_valid_crc(batch, 0, header)
            yield Line(kind="batch", fields=_batch_fields(header, position, is_valid))
            if not is_valid:
                yield Problem(message=f"the batch at byte {position} does not match its checksum")
            if header.base_offset < expected or header.last_offset_delta < 0:
                yield Problem(
                    message=f"the batch at byte {position} has offsets {header.base_offset} to "
                    f"{header.last_offset}, expected {expected} or later"
                )
            if deep or with_data:
                for found in _dump_records(batch, header, position, with_data=with_data):
                    if isinstance(found, Line):
                        offset = found.fields["offset"]
                        if previous is not None and offset != previous + 1:
                            yield Line(kind="gap", fields={"offset": previous, "next": offset})
                        previous = offset
                    yield found
            expected = max(expected, header.next_offset)
    except CorruptBatch as error:
        yield Problem(
            message=f"Found {log.size - error.position} invalid bytes at the end of {log.name} ({error.reason})"
        )


def dump_txn_index(index: Source) -> Found:
    """The aborted transactions of a segment."""
    content = index.content()
    whole = len(content) - len(content) % ENTRY_LAYOUT.size
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    for values in ENTRY_LAYOUT.iter_unpack(memoryview(content)[:whole]):
        yield Line(kind="txnindex", fields=dict(zip(names, values, strict=True)))
        if values[0] != 0:
            yield Problem(message=f"expected entries of version 0, found {values[0]}")
    if whole != len(content):
        yield Problem(message=f"{len(content) - whole} bytes at the end are an incomplete entry")


def dump_snapshot(snapshot: Source) -> Found:
    """The producers in a `.snapshot` file."""
    try:
        entries = decode_snapshot(snapshot.content())
    except CorruptSnapshot as error:
        yield Problem(message=str(error))
        return
    for entry in entries:
        fields: dict[str, Any] = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": entry.current_txn_first_offset,
            "lastTimestamp": entry.last_timestamp,
        }
        if entry.batches:
            batch = entry.batches[0]
            fields["firstSequence"] = batch.first_sequence
            fields["lastSequence"] = batch.last_sequence
            fields["lastOffset"] = batch.last_offset
            fields["offsetDelta"] = batch.offset_delta
            fields["timestamp"] = batch.timestamp
        yield Line(kind="producer", fields=fields)


def dump_epochs(checkpoint: Source) -> Found:
    """The entries of `leader-epoch-checkpoint`, in which both numbers must increase."""
    try:
        entries = parse_checkpoint(checkpoint.content().decode("utf-8", "replace"))
    except CorruptCheckpoint as error:
        yield Problem(message=str(error))
        return
    last_epoch, last_start = -1, -1
    for epoch, start_offset in entries:
        yield Line(kind="epoch", fields={"epoch": epoch, "startOffset": start_offset})
        if epoch <= last_epoch or start_offset <= last_start:
            yield Problem(message=f"epoch {epoch} from {start_offset} follows epoch {last_epoch} from {last_start}")
        last_epoch, last_start = epoch, start_offset


def _dump_records(batch: memoryview, header: BatchHeader, position: int, *, with_data: bool) -> Found:
    try:
        for record in iter_records(batch):
            yield Line(kind="record", fields=_record_fields(batch, header, record, with_data))
            if not 0 <= record.offset_delta <= header.last_offset_delta:
                yield Problem(
                    message=f"the batch at byte {position} ends at offset {header.last_offset}, "
                    f"but has a record at offset {header.base_offset + record.offset_delta}"
                )
    except MalformedRecords as error:
        yield Problem(message=f"the records of the batch at byte {position} can't be read: {error}")


def _batch_fields(header: BatchHeader, position: int, is_valid: bool) -> dict[str, Any]:
    bits = header.codec_bits
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.records_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "position": position,
        _timestamp_type(header): header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": Codec(bits).name.lower() if bits <= max(Codec) else f"unknown({bits})",
        "crc": header.crc,
        "isvalid": is_valid,
    }


def _record_fields(batch: memoryview, header: BatchHeader, record: Record, with_data: bool) -> dict[str, Any]:
    sequence = NO_SEQUENCE
    if header.base_sequence >= 0:
        sequence = (header.base_sequence + record.offset_delta) & MAX_SEQUENCE
    fields: dict[str, Any] = {
        "offset": header.base_offset + record.offset_delta,
        _timestamp_type(header): record_timestamp(header, record),
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "headerKeys": [key for key, _ in record.headers],
    }
    if header.attributes & CONTROL_FLAG:
        marker = read_end_marker(batch)
        if marker is not None:
            fields["endTxnMarker"] = "COMMIT" if marker.commit else "ABORT"
            fields["coordinatorEpoch"] = marker.coordinator_epoch
    elif with_data:
        if record.key is not None:
            fields["key"] = record.key
        if record.value is not None:
            fields["payload"] = record.value
    return fields


def _timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def dump_offset_index(index: Source, log: Source, base_offset: int) -> Found:
    """Yields every entry, a problem for each entry without a batch in the log, and a line for an empty index."""
    previous = base_offset - 1
    if not index.size:
        yield Line(kind="empty", fields={})
    for relative, position in _entries(index.content(), OFFSET_ENTRY, relative_at=0):
        offset = base_offset + relative
        yield Line(kind="index", fields={"offset": offset, "position": position})
        if offset <= previous:
            yield Problem(message=f"Index offset: {offset}, previously indexed offset: {previous}")
        previous = offset
        try:
            found = read_header_within(log.read_at(HEADER_SIZE, max(position, 0)), position, log.size)
        except CorruptBatch as error:
            yield Problem(message=f"Index offset: {offset}, no batch in {log.name} {error}")
            continue
        if position < 0 or found.last_offset != offset:
            yield Problem(message=f"Index offset: {offset}, log offset: {found.last_offset}")
    yield from _trailing(index, OFFSET_ENTRY)


def dump_time_index(index: Source, log: Source, base_offset: int) -> Found:
    """Yields every entry, and a problem for each offset, timestamp or order that contradicts the log."""
    batches = _BatchFinder(log)
    previous = NO_TIMESTAMP
    for timestamp, relative in _entries(index.content(), TIME_ENTRY, relative_at=1):
        offset = base_offset + relative
        yield Line(kind="timeindex", fields={"timestamp": timestamp, "offset": offset})
        found = batches.at_or_after(offset)
        if found is None or found.last_offset != offset:
            log_offset = -1 if found is None else found.last_offset
            yield Problem(message=f"Indexed offset: {offset}, found log offset: {log_offset}")
        elif found.max_timestamp != timestamp:
            yield Problem(message=f"Index timestamp: {timestamp}, log timestamp: {found.max_timestamp}")
        if previous >= timestamp:
            yield Problem(message=f"Index timestamp: {timestamp}, Previously indexed timestamp: {previous}")
        previous = timestamp
    yield from _trailing(index, TIME_ENTRY)


class _BatchFinder:
    """Finds batches in one pass over the log, for offsets in ascending order."""

    def __init__(self, log: Source) -> None:
        self._headers = _intact_headers(log)
        self._current: BatchHeader | None = next(self._headers, None)

    def at_or_after(self, offset: int) -> BatchHeader | None:
        while self._current is not None and self._current.last_offset < offset:
            self._current = next(self._headers, None)
        return self._current


def _intact_headers(log: Source) -> Iterator[BatchHeader]:
    try:
        for _, header in walk_batches(log.read_at, 0, log.size):
            yield header
    except CorruptBatch:
        # Bytes from here on are no batches; the dump of the log reports them.
        return


def _entries(content: bytes, entry: Struct, *, relative_at: int) -> Iterator[tuple[int, int]]:
    whole = len(content) - len(content) % entry.size
    for number, values in enumerate(entry.iter_unpack(memoryview(content)[:whole])):
        if number and values[relative_at] == 0:
            return
        yield values


def _trailing(index: Source, entry: Struct) -> Found:
    trailing = index.size % entry.size
    if trailing:
        yield Problem(message=f"{trailing} bytes at the end of {index.name} are an incomplete entry")


def dump_offsets(checkpoint: Source) -> Found:
    """The entries of an offset checkpoint."""
    try:
        offsets = parse_offsets(checkpoint.content().decode(errors="replace"))
    except CheckpointCorrupt as error:
        yield Problem(message=str(error))
        return
    for partition, offset in offsets.items():
        fields = {"topic": partition.topic, "partition": partition.partition, "offset": offset}
        yield Line(kind="checkpoint", fields=fields)


def dump_partition_metadata(metadata: Source) -> Found:
    """The topic id of `partition.metadata`, as text if the file is intact."""
    text = metadata.content().decode(errors="replace")
    try:
        parse_partition_metadata(text)
    except CheckpointCorrupt as error:
        yield Problem(message=str(error))
    else:
        yield from dump_text(metadata)


def dump_text(file: Source) -> Found:
    """All non-empty lines."""
    for line in file.content().decode(errors="replace").splitlines():
        if line.strip():
            yield Line(kind="text", fields={"text": line})
