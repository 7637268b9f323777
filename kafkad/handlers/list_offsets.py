"""ListOffsets, versions 1 to 11: an offset by a special timestamp, or by time.

Consumers see up to the high watermark, or the last stable offset with read_committed; brokers see everything. There is
no tiered storage: its special timestamps are answered as Apache Kafka does without it. A look-up by time may open every
segment of a log; it is done in steps, by threads that may wait for the disk.
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
from kafkad.handlers.requests.broker_view import BrokerView, NotYet
from kafkad.handlers.requests.steps import ROWS_A_STEP, LogMoved, LogSearch, Pause, Steps, Waits, in_steps, until_known
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
"""The first version that knows each special timestamp."""
NOT_FOUND = FoundOffset(UNKNOWN, UNKNOWN, UNKNOWN)


class _Question(NamedTuple):
    """One row of the request; `is_repeated` when its partition is in the request again."""

    topic: str
    wanted: RequestedOffset
    is_repeated: bool


class _Asked(NamedTuple):
    """The fields that hold for all rows."""

    request: ListOffsetsRequest
    context: RequestContext
    view: BrokerView


def handle(body: memoryview, context: RequestContext, view: BrokerView) -> Steps:
    request = yield from read_request(body, context.version)
    times = Counter((name, wanted.partition) for name, rows in request.topics for wanted in rows)
    questions = [
        _Question(name, wanted, times[name, wanted.partition] > 1) for name, rows in request.topics for wanted in rows
    ]
    asked = _Asked(request, context, view)
    found = yield from in_steps(questions, partial(_result, asked), partial(_ask_ahead, asked))
    topics: dict[str, dict[int, OffsetResult]] = {name: {} for name, _ in request.topics}
    for question, result in zip(questions, found, strict=True):
        topics[question.topic][result.partition] = result
    packed = []
    for name, results in topics.items():
        packed.append(pack_topic(context.version, name, results.values()))
        if len(packed) % ROWS_A_STEP == 0:
            yield Pause.TURN
    return pack_response(context.version, packed)


def _result(asked: _Asked, question: _Question) -> Generator[Waits, Any, OffsetResult]:
    wanted = question.wanted
    if question.is_repeated:
        return OffsetResult(wanted.partition, ErrorCode.INVALID_REQUEST)
    try:
        found = yield from until_known(partial(_find, asked, question))
    except KafkaError as error:
        return OffsetResult(wanted.partition, error.code)
    return OffsetResult(wanted.partition, ErrorCode.NONE, *found)


def _leader(asked: _Asked, question: _Question) -> tuple[int, PartitionSlot]:
    wanted = question.wanted
    must_lead = asked.request.replica_id != DEBUGGING_CONSUMER
    return find_leader(
        asked.view, question.topic, wanted.partition, wanted.current_leader_epoch, require_leader=must_lead
    )


def _ask_ahead(asked: _Asked, questions: Iterable[_Question]) -> None:
    """Ask for manifests ahead, so that the request does not wait for each of them in turn."""
    for question in questions:
        if question.wanted.timestamp >= 0 or question.wanted.timestamp == Special.MAX_TIMESTAMP:
            with suppress(KafkaError):
                asked.view.logs.reader(*_leader(asked, question))


def _find(asked: _Asked, question: _Question) -> Generator[Waits, Any, FoundOffset]:
    timestamp, version = question.wanted.timestamp, asked.context.version
    if timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    slot, published = _leader(asked, question)
    upper = _upper_bound(asked.request, published)
    is_behind = asked.request.replica_id == CONSUMER and published.hw_offset < published.epoch_start
    match timestamp:
        case Special.LATEST:
            if is_behind:
                raise _not_available(version)
            return FoundOffset(UNKNOWN, upper.offset, published.leader_epoch)
        case Special.EARLIEST | Special.EARLIEST_LOCAL:
            return FoundOffset(UNKNOWN, published.log_start, _first_epoch(slot, published, asked.view))
        case Special.LATEST_TIERED | Special.EARLIEST_PENDING_UPLOAD:
            return NOT_FOUND
        case Special.MAX_TIMESTAMP:
            found = yield from _search(slot, published, asked.view, partial(_newest_record, published))
            # The newest of all records is looked up; a client that may not see it gets none (as in Apache Kafka).
            if found is not None and found.offset >= upper.offset:
                found = None
        case _:
            by_time = partial(_first_from, timestamp, upper, published.log_start)
            found = yield from _search(slot, published, asked.view, by_time)
    if found is None and is_behind:
        raise _not_available(version)
    return found or NOT_FOUND


def _not_available(version: int) -> KafkaError:
    """A leader that was just elected does not know yet what is committed: the end of the log would seem to go back."""
    known = version >= OFFSET_NOT_AVAILABLE_FROM
    return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE)


def _newest_record(published: PartitionSlot, reader: LogReader) -> FoundOffset | None:
    return reader.max_timestamp(_end(published), published.log_start)


def _first_from(timestamp: int, upper: LogPosition, log_start: int, reader: LogReader) -> FoundOffset | None:
    return reader.offset_for_timestamp(timestamp, upper, log_start)


def _search(
    slot: int, published: PartitionSlot, view: BrokerView, look: Callable[[LogReader], FoundOffset | None]
) -> Generator[Waits, Any, FoundOffset | None]:
    while True:
        reader = _reader(slot, published, view)
        try:
            found: FoundOffset | None = yield LogSearch(reader=reader, look=look)
            if view.slots.read(slot).generation != published.generation:
                # A thread has looked: segments may have been replaced under their names meanwhile.
                raise LogMoved
            return found
        except SearchPaused:
            continue
        except (ManifestStale, WrongIndex, *DAMAGE) as error:
            now = view.slots.read(slot)
            if now.generation != published.generation:
                raise LogMoved from error
            if isinstance(error, WrongIndex):
                view.logs.doubted(slot, now, error)
                raise NotYet from None
            if isinstance(error, ManifestStale):
                # The owner has removed segments meanwhile: its next manifest names the present files.
                view.logs.outdated(slot, now)
                raise NotYet from None
            raise view.logs.unreadable(slot, published, error) from error


def _first_epoch(slot: int, published: PartitionSlot, view: BrokerView) -> int:
    """The epoch of the first record; an empty log begins with the present leader epoch."""
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
        raise NotYet
    return reader
