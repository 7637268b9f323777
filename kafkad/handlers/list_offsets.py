"""ListOffsets, versions 1 to 11: an offset by what is special about it, or by time.

Consumers see up to the high watermark, or the last stable offset with read_committed; brokers see everything.
There is no tiered storage: its special timestamps are answered as Apache Kafka does without it.
"""

from collections import Counter
from collections.abc import Generator
from enum import IntEnum

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.reading import FoundOffset, LogReader, ManifestStale
from kafkad.core.partition_slot import PartitionSlot
from kafkad.core.types import LogPosition
from kafkad.handlers.damage import DAMAGE
from kafkad.handlers.leadership import find_leader
from kafkad.handlers.steps import STEP, Steps
from kafkad.handlers.view import BrokerView, NotYet
from kafkad.wire.list_offsets import (
    ListOffsetsRequest,
    OffsetResult,
    WantedOffset,
    pack_response,
    pack_topic,
    read_request,
)

CONSUMER, DEBUGGING_CONSUMER = -1, -2
READ_COMMITTED = 1
UNKNOWN = -1

class Special(IntEnum):
    """What a negative timestamp asks for."""

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
"""The version that each special timestamp came with."""
NOT_FOUND = FoundOffset(UNKNOWN, UNKNOWN, UNKNOWN)


def handle(body: memoryview, version: int, view: BrokerView) -> Steps:
    request = yield from read_request(body, version)
    times = Counter((name, wanted.partition) for name, rows in request.topics for wanted in rows)
    topics: dict[str, dict[int, OffsetResult | None]] = {}
    number = 0
    for name, rows in request.topics:
        results = topics.setdefault(name, {})
        for wanted in rows:
            if times[name, wanted.partition] > 1:
                results[wanted.partition] = OffsetResult(wanted.partition, ErrorCode.INVALID_REQUEST)
            else:
                results[wanted.partition] = _result(request, name, wanted, version, view)
            number += 1
            if wanted.timestamp >= 0 or number % STEP == 0:
                yield False
    yield from _look_again(request, topics, version, view)
    packed = []
    for name, results in topics.items():
        packed.append(pack_topic(version, name, [each for each in results.values() if each is not None]))
        if len(packed) % STEP == 0:
            yield False
    return pack_response(version, packed)


def _look_again(
    request: ListOffsetsRequest, topics: dict[str, dict[int, OffsetResult | None]], version: int, view: BrokerView
) -> Generator[bool, None, None]:
    """At those whose manifests were asked for, until all have come."""
    waiting = [
        (name, wanted) for name, rows in request.topics for wanted in rows if topics[name][wanted.partition] is None
    ]
    while waiting:
        yield True
        still: list[tuple[str, WantedOffset]] = []
        for number, (name, wanted) in enumerate(waiting, 1):
            result = topics[name][wanted.partition] = _result(request, name, wanted, version, view)
            if result is None:
                still.append((name, wanted))
            if wanted.timestamp >= 0 or number % STEP == 0:
                yield False
        waiting = still


def _result(
    request: ListOffsetsRequest, name: str, wanted: WantedOffset, version: int, view: BrokerView
) -> OffsetResult | None:
    """None: its owner was asked where its segments are."""
    try:
        if wanted.timestamp < 0 and version < _SINCE.get(wanted.timestamp, version + 1):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        must_lead = request.replica_id != DEBUGGING_CONSUMER
        slot, published = find_leader(
            view, name, wanted.partition, wanted.current_leader_epoch, require_leader=must_lead
        )
        found = _find(request, wanted.timestamp, slot, published, view)
    except NotYet:
        return None
    except KafkaError as error:
        return OffsetResult(wanted.partition, error.code)
    return OffsetResult(wanted.partition, ErrorCode.NONE, *found)


def _find(
    request: ListOffsetsRequest, timestamp: int, slot: int, published: PartitionSlot, view: BrokerView
) -> FoundOffset:
    upper = _upper_bound(request, published)
    match timestamp:
        case Special.LATEST:
            return FoundOffset(UNKNOWN, upper.offset, published.leader_epoch)
        case Special.EARLIEST | Special.EARLIEST_LOCAL:
            return FoundOffset(UNKNOWN, published.log_start, _first_epoch(slot, published, view))
        case Special.LATEST_TIERED | Special.EARLIEST_PENDING_UPLOAD:
            return NOT_FOUND
    reader = _reader(slot, published, view)
    try:
        if timestamp == Special.MAX_TIMESTAMP:
            found = reader.max_timestamp(_end(published), published.log_start)
            # The newest of all records is looked for; who may not see that one is told of none (as Apache Kafka).
            return found if found is not None and found.offset < upper.offset else NOT_FOUND
        return reader.offset_for_timestamp(timestamp, upper, published.log_start) or NOT_FOUND
    except ManifestStale:
        # The owner has tidied up meanwhile: its next manifest names the files that are there.
        view.logs.outdated(slot, view.slots.read(slot))
        raise NotYet from None
    except DAMAGE as error:
        raise view.logs.unreadable(slot, published, error) from error


def _first_epoch(slot: int, published: PartitionSlot, view: BrokerView) -> int:
    """The epoch of the first record there is, or will be: an empty log begins with the present leader."""
    if published.log_start == published.leo_offset:
        return published.leader_epoch
    return _reader(slot, published, view).leader_epoch_at(published.log_start)


def _upper_bound(request: ListOffsetsRequest, published: PartitionSlot) -> LogPosition:
    if request.replica_id != CONSUMER:
        return _end(published)
    if request.isolation_level == READ_COMMITTED:
        return LogPosition(published.lso_offset, published.lso_segment, published.lso_position)
    return LogPosition(published.hw_offset, published.hw_segment, published.hw_position)


def _end(published: PartitionSlot) -> LogPosition:
    return LogPosition(published.leo_offset, published.leo_segment, published.leo_position)


def _reader(slot: int, published: PartitionSlot, view: BrokerView) -> LogReader:
    reader = view.logs.reader(slot, published)
    if reader is None:
        raise NotYet
    return reader
