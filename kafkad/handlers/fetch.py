"""Fetch, versions 4 to 18: measures the readable bytes of each partition, and makes the response.

Two steps: `measure` finds the readable bytes without opening a file, `add_to_response` opens them. Between them the
fetch may wait. Consumers read up to the high watermark; with read_committed up to the last stable offset, and with the
list of aborted transactions. The batch that contains the fetch offset is sent whole (trap: the offset may be inside of
a batch).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.partition_slot import ROLE_LEADER, PartitionSlot, SlotReader
from kafkad.core.request_context import RequestContext
from kafkad.core.sessions.fetch_session import UNKNOWN, CachedPartition, FetchSession, PartitionKey
from kafkad.core.types import LOG_END, TXN_COMMITTED, LogPosition
from kafkad.handlers.partitions.fetch_access import partition_error, role_error, set_reader
from kafkad.handlers.partitions.fetch_measure import (
    UNKNOWN_TOPIC_CODES,
    FollowerFetchState,
    LogReadResult,
    Measure,
    SegmentRange,
)
from kafkad.handlers.partitions.leader_throttle import LeaderThrottle
from kafkad.handlers.partitions.partition_routes import Routing, TopicRoute
from kafkad.handlers.partitions.replica_selection import ReplicaSelection
from kafkad.wire.messages.fetch import FileSlice, PartitionData
from kafkad.wire.messages.fetch_request import FetchRequest


class RequestedRecords(NamedTuple):
    """Records from `offset` to below `upper`, at most `max_bytes`.

    With `whole` at least the first batch is read, also if it is larger. Isolation TXN_COMMITTED also requires the
    aborted transactions among the records.
    """

    offset: int
    upper: LogPosition
    max_bytes: int
    whole: bool
    isolation: int


class Logs(Protocol):
    """The readable side of partition logs."""

    def locate(self, slot: int, published: PartitionSlot, requested: "RequestedRecords") -> SegmentRange | None:
        """The bytes to read. None while the partition's manifest or index is pending: call this again when it arrives.

        Raises KafkaError when the log can't be read there.
        """

    def epoch_end(self, slot: int, published: PartitionSlot, epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset) of the newest epoch not after `epoch`, according to the leader; None as above."""

    def aborted(
        self, slot: int, published: PartitionSlot, offset: int, place: SegmentRange, upper: LogPosition
    ) -> Sequence[tuple[int, int]] | None:
        """(producer id, first offset) of the aborted transactions in `place`; None when the file was removed.

        Raises KafkaError as `locate` does.
        """

    def open(self, slot: int, published: PartitionSlot, place: SegmentRange) -> FileSlice | None:
        """The bytes of `place`; None when the file was removed."""


class FetchEvaluator:
    """Measures and reads the partitions of fetches. `bound` is called when a session's partition gets its slot."""

    def __init__(
        self,
        routing: Routing,
        slots: SlotReader,
        logs: Logs,
        bound: Callable[[FetchSession, int], None],
        broker_id: int = -1,
        throttle: LeaderThrottle | None = None,
        selection: ReplicaSelection | None = None,
        followers_listener: str | None = None,
    ) -> None:
        """Followers may fetch on `followers_listener` only; None: on every listener."""
        self._broker_id = broker_id
        self._throttle = throttle
        self._preferred_replica = None if selection is None else selection.preferred
        self._followers_listener = followers_listener
        self._routing = routing
        self._slots = slots
        self._logs = logs
        self._bound = bound

    def set_reader(self, session: FetchSession, request: FetchRequest, context: RequestContext) -> None:
        may_follow = self._followers_listener in (None, context.connection.listener)
        set_reader(session, request, context.version, may_follow=may_follow)

    def measure(self, session: FetchSession, keys: Iterable[PartitionKey], measure: Measure, max_bytes: int) -> None:
        """Add these partitions of `session` to `measure`; `max_bytes` is the limit for all its partitions."""
        remaining_bytes = max(0, max_bytes - measure.bytes_found)
        for key in keys:
            result = self._measure_partition(session, session.partitions[key], remaining_bytes, measure)
            measure.results.append(result)
            if result.place is not None:
                measure.bytes_found += result.place.length
                remaining_bytes = max(0, remaining_bytes - result.place.length)
            if result.error or result.redirects:
                measure.reject(result)
            elif session.unreported and not result.awaits_manifest:
                # Only a follower whose log does not diverge has all records before its fetch offset.
                self._follow(session, result, measure)

    def _follow(self, session: FetchSession, result: LogReadResult, measure: Measure) -> None:
        row, published = result.row, result.published
        if row.key in session.unreported and published is not None:
            session.unreported.discard(row.key)
            epoch, log_start = published.leader_epoch, session.log_starts.get(row.key, UNKNOWN)
            measure.follower_states.append(
                FollowerFetchState(published.owner, row.slot, published.generation, epoch, row.fetch_offset, log_start)
            )

    def _measure_partition(
        self, session: FetchSession, row: CachedPartition, remaining_bytes: int, measure: Measure
    ) -> LogReadResult:
        route = self._routing.find(row.key[0])
        slot, error = self._resolve(session, row, route)
        if error:
            return LogReadResult(row, error, None, None, None)
        published = self._slots.read(slot)
        error = partition_error(row, published, route)
        if not error and (published.role != ROLE_LEADER or session.isolation == LOG_END):
            error = role_error(session, row, published, route, self._broker_id)
        if error:
            return LogReadResult(row, error, None, None, None)
        if row.last_fetched_epoch >= 0:
            end = self._epoch_end(slot, published, row.last_fetched_epoch)
            if end is None:
                measure.needs_manifest, start = True, published.log_start
                # The follower's log may diverge: it must not take its own records for committed.
                shown = published._replace(hw_offset=start, lso_offset=start)
                return LogReadResult(row, 0, shown, None, None, awaits_manifest=True)
            if end[1] == UNKNOWN:
                return LogReadResult(row, ErrorCode.OFFSET_OUT_OF_RANGE, None, None, None)
            if end[0] < row.last_fetched_epoch or end[1] < row.fetch_offset:
                return LogReadResult(row, 0, published, None, end)
        offset = row.fetch_offset
        if not published.log_start <= offset <= published.leo_offset:
            return LogReadResult(row, ErrorCode.OFFSET_OUT_OF_RANGE, published, None, None)
        if (
            self._preferred_replica is not None
            and (preferred := self._preferred_replica(session, row, published, route)) >= 0
        ):
            return LogReadResult(row, 0, published, None, None, preferred=preferred)
        upper = published.upper_offset(measure.isolation)
        if offset >= upper:
            measure.quiet_slots.append((slot, upper))
            if measure.isolation == LOG_END and UNKNOWN < row.high_watermark < published.hw_offset:
                # The follower still has the previous high watermark.
                measure.is_urgent = True
            return LogReadResult(row, 0, published, None, None)
        if self._throttle is not None and self._throttle.must_throttle(session, row, route):
            return LogReadResult(row, 0, published, None, None)
        measure.readable_slots.append((slot, upper))
        try:
            return LogReadResult(row, 0, published, self._place(slot, published, row, remaining_bytes, measure), None)
        except KafkaError as unreadable:
            return LogReadResult(row, unreadable.code, None, None, None)

    def _epoch_end(self, slot: int, published: PartitionSlot, epoch: int) -> tuple[int, int] | None:
        """The end of the leader's current epoch is the log end, which needs no manifest."""
        if epoch == published.leader_epoch and published.role == ROLE_LEADER:
            return epoch, published.leo_offset
        return self._logs.epoch_end(slot, published, epoch)

    def _place(
        self, slot: int, published: PartitionSlot, row: CachedPartition, remaining_bytes: int, measure: Measure
    ) -> SegmentRange | None:
        limit, whole = min(remaining_bytes, row.max_bytes), measure.bytes_found == 0
        if limit <= 0 and not whole:
            return None
        upper = published.upper_bound(measure.isolation)
        requested = RequestedRecords(row.fetch_offset, upper, limit, whole, measure.isolation)
        place = self._logs.locate(slot, published, requested)
        if place is None:
            measure.needs_manifest = True
        return place

    def _resolve(self, session: FetchSession, row: CachedPartition, route: TopicRoute | None) -> tuple[int, int]:
        topic, partition = row.key
        if route is None:
            unknown_topic = (
                ErrorCode.UNKNOWN_TOPIC_ID if isinstance(topic, bytes) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            return UNKNOWN, unknown_topic
        if not 0 <= partition < len(route.slots):
            return UNKNOWN, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        slot = route.slots[partition]
        if slot == UNKNOWN:
            return UNKNOWN, ErrorCode.NOT_LEADER_OR_FOLLOWER
        if row.slot != slot:
            session.bind(row, slot)
            self._bound(session, slot)
        return slot, 0

    def add_to_response(
        self,
        session: FetchSession,
        measure: Measure,
        results: Iterable[LogReadResult],
        topics: dict[str | bytes, list[PartitionData]],
        *,
        full: bool,
    ) -> None:
        """Add the partitions of these results of `measure` to `topics`, in their order."""
        for result in results:
            row, published = result.row, result.published
            data = self._data(result, measure)
            has_records = data.records is not None
            fields = data.error, data.high_watermark, data.log_start_offset
            must_include = not result.awaits_manifest and row.must_include(*fields, has_records=has_records)
            if full or must_include or result.redirects:
                topics.setdefault(row.key[0], []).append(data)
                if self._throttle is not None and data.records is not None:
                    self._throttle.sent(session, row, self._routing.find(row.key[0]), data.records.length)
            elif data.records is not None:
                data.records.release()
            is_open = data.error != 0 or result.redirects or result.awaits_manifest
            has_more = has_records or is_open or published is None or _has_more(row, published, measure)
            session.evaluated(row.key, has_more=has_more, has_records=has_records and not full)

    def _data(self, result: LogReadResult, measure: Measure) -> PartitionData:
        row, published, partition = result.row, result.published, result.row.key[1]
        if published is None or result.error:
            # As in Apache Kafka: no list for a partition that can't be read, an empty list for an unknown partition.
            return PartitionData(partition, result.error, aborted=() if result.error in UNKNOWN_TOPIC_CODES else None)
        try:
            aborted: Sequence[tuple[int, int]] | None = None
            records: FileSlice | None = None
            if result.diverging is None:
                records, aborted = self._content(row, published, result.place, measure)
        except KafkaError as unreadable:
            return PartitionData(partition, unreadable.code)
        return PartitionData(
            partition,
            0,
            published.hw_offset,
            published.lso_offset,
            published.log_start,
            records,
            aborted,
            result.diverging,
            result.preferred,
        )

    def _content(
        self, row: CachedPartition, published: PartitionSlot, place: SegmentRange | None, measure: Measure
    ) -> tuple[FileSlice | None, Sequence[tuple[int, int]] | None]:
        """The records, and their aborted transactions: a list with read_committed, else None."""
        has_records = place is not None and place.length > 0
        if measure.isolation != TXN_COMMITTED:
            return (self._logs.open(row.slot, published, place) if place and has_records else None), None
        if place is None or not has_records:
            return None, ()
        upper = published.upper_bound(measure.isolation)
        aborted = self._logs.aborted(row.slot, published, row.fetch_offset, place, upper)
        if aborted is None:
            return None, ()
        return self._logs.open(row.slot, published, place), aborted


def _has_more(row: CachedPartition, published: PartitionSlot, measure: Measure) -> bool:
    """Whether there are more records, or for a follower a high watermark that is about to advance."""
    is_behind = measure.isolation == LOG_END and published.hw_offset < published.leo_offset
    return is_behind or row.fetch_offset < published.upper_offset(measure.isolation)
