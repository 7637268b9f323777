"""ListOffsets, versions 1 to 11: offsets by timestamp, or by a special timestamp such as LATEST.

Consumers read up to the high watermark, or the last stable offset with read_committed; brokers up to the log end. There
is no tiered storage: its special timestamps get the results of an Apache Kafka without it. A search by time may open
every segment of a log, so threads that may wait for the disk search in steps.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.reading.log_reader import FoundOffset, LogReader, ManifestStale, SearchPaused
from kafkad.core.log.segments.indexed_batches import WrongIndex
from kafkad.core.partition_slot import PartitionSlot
from kafkad.core.request_context import RequestContext
from kafkad.core.types import HIGH_WATERMARK, TXN_COMMITTED, LogPosition
from kafkad.handlers.partitions.damage import DAMAGE
from kafkad.handlers.partitions.fetch_access import READ_COMMITTED
from kafkad.handlers.partitions.leadership import find_leader
from kafkad.handlers.requests.broker_view import BrokerView, ManifestPending
from kafkad.handlers.requests.steps import (
    ROWS_A_STEP,
    LogMoved,
    LogSearch,
    Pause,
    Steps,
    Waits,
    in_steps,
    retry_until_read,
)
from kafkad.wire.messages.list_offsets import (
    ListOffsetsRequest,
    OffsetResult,
    RequestedOffset,
    pack_response,
    pack_topic,
    read_request,
)

CONSUMER, DEBUGGING_CONSUMER = -1, -2
UNKNOWN = -1
OFFSET_NOT_AVAILABLE_FROM = 5
"""The first version whose clients know this error."""


class Special(IntEnum):
    """The meaning of negative timestamps."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_SINCE: dict[int, int] = {
    Special.LATEST: 1,
    Special.EARLIEST: 1,
    Special.MAX_TIMESTAMP: 7,
    Special.EARLIEST_LOCAL: 8,
    Special.LATEST_TIERED: 9,
    Special.EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version with each special timestamp."""
NOT_FOUND = FoundOffset(UNKNOWN, UNKNOWN, UNKNOWN)


class _PartitionRequest(NamedTuple):
    """One partition of the request; `is_repeated` if the request names the partition several times."""

    topic: str
    requested: RequestedOffset
    is_repeated: bool


class _Lookup(NamedTuple):
    """The request and its context, for all partitions."""

    request: ListOffsetsRequest
    context: RequestContext
    view: BrokerView


def handle(body: memoryview, context: RequestContext, view: BrokerView) -> Steps:
    request = yield from read_request(body, context.version)
    times = Counter((name, requested.partition) for name, rows in request.topics for requested in rows)
    partitions = [
        _PartitionRequest(name, requested, times[name, requested.partition] > 1)
        for name, rows in request.topics
        for requested in rows
    ]
    lookup = _Lookup(request, context, view)
    found = yield from in_steps(partitions, partial(_result, lookup), partial(_request_manifests, lookup))
    topics: dict[str, dict[int, OffsetResult]] = {name: {} for name, _ in request.topics}
    for row, result in zip(partitions, found, strict=True):
        topics[row.topic][result.partition] = result
    packed = []
    for name, results in topics.items():
        packed.append(pack_topic(context.version, name, results.values()))
        if len(packed) % ROWS_A_STEP == 0:
            yield Pause.TURN
    return pack_response(context.version, packed)


def _result(lookup: _Lookup, row: _PartitionRequest) -> Generator[Waits, Any, OffsetResult]:
    requested = row.requested
    if row.is_repeated:
        return OffsetResult(requested.partition, ErrorCode.INVALID_REQUEST)
    try:
        found = yield from retry_until_read(partial(_find, lookup, row))
    except KafkaError as error:
        return OffsetResult(requested.partition, error.code)
    return OffsetResult(requested.partition, ErrorCode.NONE, *found)


def _leader(lookup: _Lookup, row: _PartitionRequest) -> tuple[int, PartitionSlot]:
    requested = row.requested
    must_lead = lookup.request.replica_id != DEBUGGING_CONSUMER
    return find_leader(
        lookup.view, row.topic, requested.partition, requested.current_leader_epoch, require_leader=must_lead
    )


def _request_manifests(lookup: _Lookup, rows: Iterable[_PartitionRequest]) -> None:
    """Request all manifests at once, so that the request does not wait for one after the other."""
    for row in rows:
        if row.requested.timestamp >= 0 or row.requested.timestamp == Special.MAX_TIMESTAMP:
            with suppress(KafkaError):
                lookup.view.logs.reader(*_leader(lookup, row))


def _find(lookup: _Lookup, row: _PartitionRequest) -> Generator[Waits, Any, FoundOffset]:
    timestamp, version = row.requested.timestamp, lookup.context.version
    if timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    slot, published = _leader(lookup, row)
    upper = _upper_bound(lookup.request, published)
    is_behind = lookup.request.replica_id == CONSUMER and published.hw_offset < published.epoch_start
    match timestamp:
        case Special.LATEST:
            if is_behind:
                raise _not_available(version)
            return FoundOffset(UNKNOWN, upper.offset, published.leader_epoch)
        case Special.EARLIEST | Special.EARLIEST_LOCAL:
            return FoundOffset(UNKNOWN, published.log_start, _first_epoch(slot, published, lookup.view))
        case Special.LATEST_TIERED | Special.EARLIEST_PENDING_UPLOAD:
            return NOT_FOUND
        case Special.MAX_TIMESTAMP:
            found = yield from _search(slot, published, lookup.view, partial(_newest_record, published))
            # As in Apache Kafka: the search covers all records, and a newest record beyond `upper` is no result.
            if found is not None and found.offset >= upper.offset:
                found = None
        case _:
            by_time = partial(_first_from, timestamp, upper, published.log_start)
            found = yield from _search(slot, published, lookup.view, by_time)
    if found is None and is_behind:
        raise _not_available(version)
    return found or NOT_FOUND


def _not_available(version: int) -> KafkaError:
    """A new leader's high watermark may be behind the previous leader's, so the end offset could decrease (KIP-207)."""
    has_code = version >= OFFSET_NOT_AVAILABLE_FROM
    return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if has_code else ErrorCode.LEADER_NOT_AVAILABLE)


def _newest_record(published: PartitionSlot, reader: LogReader) -> FoundOffset | None:
    return reader.max_timestamp(_end(published))


def _first_from(timestamp: int, upper: LogPosition, log_start: int, reader: LogReader) -> FoundOffset | None:
    return reader.offset_for_timestamp(timestamp, upper, log_start)


def _search(
    slot: int, published: PartitionSlot, view: BrokerView, search: Callable[[LogReader], FoundOffset | None]
) -> Generator[Waits, Any, FoundOffset | None]:
    while True:
        reader = _reader(slot, published, view)
        try:
            found: FoundOffset | None = yield LogSearch(reader=reader, search=search)
            if view.slots.read(slot).generation != published.generation:
                # Meanwhile segments may have been replaced under their names, so the result may be wrong.
                raise LogMoved
            return found
        except SearchPaused:
            continue
        except (ManifestStale, WrongIndex, *DAMAGE) as error:
            current = view.slots.read(slot)
            if current.generation != published.generation:
                raise LogMoved from error
            if isinstance(error, WrongIndex):
                view.logs.recheck_index(slot, current, error)
                raise ManifestPending from None
            if isinstance(error, ManifestStale):
                # The owner has removed segments meanwhile: the next manifest names the current files.
                view.logs.refresh_manifest(slot, current)
                raise ManifestPending from None
            raise view.logs.unreadable(slot, published, error) from error


def _first_epoch(slot: int, published: PartitionSlot, view: BrokerView) -> int:
    """The epoch of the first record; the current leader epoch for an empty log."""
    if published.log_start == published.leo_offset:
        return published.leader_epoch
    return _reader(slot, published, view).leader_epoch_at(published.log_start)


def _upper_bound(request: ListOffsetsRequest, published: PartitionSlot) -> LogPosition:
    if request.replica_id != CONSUMER:
        return _end(published)
    return published.upper_bound(TXN_COMMITTED if request.isolation_level == READ_COMMITTED else HIGH_WATERMARK)


def _end(published: PartitionSlot) -> LogPosition:
    return LogPosition(published.leo_offset, published.leo_segment, published.leo_position)


def _reader(slot: int, published: PartitionSlot, view: BrokerView) -> LogReader:
    reader = view.logs.reader(slot, published)
    if reader is None:
        raise ManifestPending
    return reader
