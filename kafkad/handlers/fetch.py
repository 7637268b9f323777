"""Fetch, versions 4 to 18: how much has each partition of a fetch now, and is that enough to send?

Two steps: `measure` finds how much is readable without opening anything, `answer` turns that into a response. Between
them the fetch may wait. Consumers read up to the high watermark; with read_committed up to the last stable offset, and
with the list of aborted transactions. The batch that holds the fetch offset is sent whole (trap: the offset may be
inside of a batch).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.partition_slot import ROLE_LEADER, PartitionSlot, SlotReader
from kafkad.core.request_context import RequestContext
from kafkad.core.sessions.fetch_session import UNKNOWN, CachedPartition, FetchSession, PartitionKey
from kafkad.core.types import LOG_END, TXN_COMMITTED, LogPosition
from kafkad.handlers.partitions.fetch_access import refusal, role_refusal, set_reader
from kafkad.handlers.partitions.fetch_findings import NOT_THERE, Finding, Followed, Measure, Place
from kafkad.handlers.partitions.leader_throttle import LeaderThrottle
from kafkad.handlers.partitions.partition_routes import Routing, TopicRoute
from kafkad.handlers.partitions.replica_selection import ReplicaSelection
from kafkad.wire.messages.fetch import FileSlice, PartitionData, TopicData
from kafkad.wire.messages.fetch_request import FetchRequest


class RequestedRecords(NamedTuple):
    """Records from `offset` to below `upper`, at most `max_bytes` of them.

    With `whole` at least the first batch is taken, however large. With isolation TXN_COMMITTED their aborted
    transactions are needed too.
    """

    offset: int
    upper: LogPosition
    max_bytes: int
    whole: bool
    isolation: int


class Logs(Protocol):
    """The readable side of partition logs."""

    def locate(self, slot: int, published: PartitionSlot, wanted: "RequestedRecords") -> Place | None:
        """The place to read from.

        None when it is not known yet: ask again when the partition's manifest or index is there. Raises KafkaError when
        the log can't be read there.
        """

    def epoch_end(self, slot: int, published: PartitionSlot, epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset) of the newest epoch not after `epoch`, as its leader says it; None as above."""

    def aborted(
        self, slot: int, published: PartitionSlot, offset: int, place: Place, upper: LogPosition
    ) -> Sequence[tuple[int, int]] | None:
        """(producer id, first offset) of the aborted transactions in `place`; None when its file is gone.

        Raises KafkaError as `locate` does.
        """

    def open(self, slot: int, published: PartitionSlot, place: Place) -> FileSlice | None:
        """The bytes of `place`; None when its file is gone."""


class FetchEvaluator:
    """Looks at partitions for fetches. `bound` is called when a session's partition gets its slot."""

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
        """Followers are served on `followers_listener`; None: on any."""
        self._broker_id = broker_id
        self._throttle = throttle
        self._selects = None if selection is None else selection.preferred
        self._followers_listener = followers_listener
        self._routing = routing
        self._slots = slots
        self._logs = logs
        self._bound = bound

    def set_reader(self, session: FetchSession, request: FetchRequest, context: RequestContext) -> None:
        may_follow = self._followers_listener in (None, context.connection.listener)
        set_reader(session, request, context.version, may_follow=may_follow)

    def measure(
        self, session: FetchSession, max_bytes: int, absent_before: frozenset[PartitionKey] | None = None
    ) -> Measure:
        """Look at the partitions of `session` that may have news."""
        measure = Measure(session.isolation, absent_before)
        self.measure_more(session, session.dirty, measure, max_bytes)
        return measure

    def measure_more(
        self, session: FetchSession, keys: Iterable[PartitionKey], measure: Measure, max_bytes: int
    ) -> None:
        """Look at these partitions of `session` too; `max_bytes` is the limit with those before."""
        room = max(0, max_bytes - measure.bytes_found)
        for key in keys:
            finding = self._look(session, session.partitions[key], room, measure)
            measure.findings.append(finding)
            if finding.place is not None:
                measure.bytes_found += finding.place.length
                room = max(0, room - finding.place.length)
            if finding.error or finding.turns_away:
                measure.turned_away(finding)
            elif session.unreported and not finding.awaits_manifest:
                # Only who is known to have the same records has reached its offset.
                self._follow(session, finding, measure)

    def _follow(self, session: FetchSession, finding: Finding, measure: Measure) -> None:
        row, published = finding.row, finding.published
        if row.key in session.unreported and published is not None:
            session.unreported.discard(row.key)
            epoch, log_start = published.leader_epoch, session.log_starts.get(row.key, UNKNOWN)
            measure.followed.append(
                Followed(published.owner, row.slot, published.generation, epoch, row.fetch_offset, log_start)
            )

    def _look(self, session: FetchSession, row: CachedPartition, room: int, measure: Measure) -> Finding:
        route = self._routing.find(row.key[0])
        slot, error = self._resolve(session, row, route)
        if error:
            return Finding(row, error, None, None, None)
        published = self._slots.read(slot)
        error = refusal(row, published, route)
        if not error and (published.role != ROLE_LEADER or session.isolation == LOG_END):
            error = role_refusal(session, row, published, route, self._broker_id)
        if error:
            return Finding(row, error, None, None, None)
        if row.last_fetched_epoch >= 0:
            end = self._epoch_end(slot, published, row.last_fetched_epoch)
            if end is None:
                measure.needs_manifest, start = True, published.log_start
                # Who may have other records must not take them for committed.
                shown = published._replace(hw_offset=start, lso_offset=start)
                return Finding(row, 0, shown, None, None, awaits_manifest=True)
            if end[1] == UNKNOWN:
                return Finding(row, ErrorCode.OFFSET_OUT_OF_RANGE, None, None, None)
            if end[0] < row.last_fetched_epoch or end[1] < row.fetch_offset:
                return Finding(row, 0, published, None, end)
        offset = row.fetch_offset
        if not published.log_start <= offset <= published.leo_offset:
            return Finding(row, ErrorCode.OFFSET_OUT_OF_RANGE, published, None, None)
        if self._selects is not None and (preferred := self._selects(session, row, published, route)) >= 0:
            return Finding(row, 0, published, None, None, preferred=preferred)
        upper = published.upper_offset(measure.isolation)
        if offset >= upper:
            measure.quiet_slots.append((slot, upper))
            if measure.isolation == LOG_END and UNKNOWN < row.high_watermark < published.hw_offset:
                # The follower heard of the one before.
                measure.is_urgent = True
            return Finding(row, 0, published, None, None)
        if self._throttle is not None and self._throttle.holds_back(session, row, route):
            return Finding(row, 0, published, None, None)
        measure.readable_slots.append((slot, upper))
        try:
            return Finding(row, 0, published, self._place(slot, published, row, room, measure), None)
        except KafkaError as unreadable:
            return Finding(row, unreadable.code, None, None, None)

    def _epoch_end(self, slot: int, published: PartitionSlot, epoch: int) -> tuple[int, int] | None:
        """A leader's present epoch ends at the log end, which is known without a manifest."""
        if epoch == published.leader_epoch and published.role == ROLE_LEADER:
            return epoch, published.leo_offset
        return self._logs.epoch_end(slot, published, epoch)

    def _place(
        self, slot: int, published: PartitionSlot, row: CachedPartition, room: int, measure: Measure
    ) -> Place | None:
        limit, whole = min(room, row.max_bytes), measure.bytes_found == 0
        if limit <= 0 and not whole:
            return None
        upper = published.upper_bound(measure.isolation)
        wanted = RequestedRecords(row.fetch_offset, upper, limit, whole, measure.isolation)
        place = self._logs.locate(slot, published, wanted)
        if place is None:
            measure.needs_manifest = True
        return place

    def _resolve(self, session: FetchSession, row: CachedPartition, route: TopicRoute | None) -> tuple[int, int]:
        topic, partition = row.key
        if route is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if isinstance(topic, bytes) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return UNKNOWN, unknown
        if not 0 <= partition < len(route.slots):
            return UNKNOWN, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        slot = route.slots[partition]
        if slot == UNKNOWN:
            return UNKNOWN, ErrorCode.NOT_LEADER_OR_FOLLOWER
        if row.slot != slot:
            session.bind(row, slot)
            self._bound(session, slot)
        return slot, 0

    def answer(self, session: FetchSession, measure: Measure, *, full: bool) -> list[TopicData]:
        """The partitions of the response, in the order in which they were looked at."""
        topics: dict[str | bytes, list[PartitionData]] = {}
        self.answer_more(session, measure, measure.findings, topics, full=full)
        return list(topics.items())

    def answer_more(
        self,
        session: FetchSession,
        measure: Measure,
        findings: Iterable[Finding],
        topics: dict[str | bytes, list[PartitionData]],
        *,
        full: bool,
    ) -> None:
        """Add the answers for these findings of `measure` to `topics`."""
        for finding in findings:
            row, published = finding.row, finding.published
            data = self._data(finding, measure)
            has_records = data.records is not None
            told = data.error, data.high_watermark, data.log_start_offset
            tell = not finding.awaits_manifest and row.must_include(*told, has_records=has_records)
            if full or tell or finding.turns_away:
                topics.setdefault(row.key[0], []).append(data)
                if self._throttle is not None and data.records is not None:
                    self._throttle.sent(session, row, self._routing.find(row.key[0]), data.records.length)
            elif data.records is not None:
                data.records.release()
            is_open = data.error != 0 or finding.turns_away or finding.awaits_manifest
            has_more = has_records or is_open or published is None or _has_more(row, published, measure)
            session.evaluated(row.key, has_more=has_more, has_records=has_records and not full)

    def _data(self, finding: Finding, measure: Measure) -> PartitionData:
        row, published, partition = finding.row, finding.published, finding.row.key[1]
        if published is None or finding.error:
            # As in Apache Kafka: no list for a partition that can't be read, an empty list for one that does not exist.
            return PartitionData(partition, finding.error, aborted=() if finding.error in NOT_THERE else None)
        try:
            aborted: Sequence[tuple[int, int]] | None = None
            records: FileSlice | None = None
            if finding.diverging is None:
                records, aborted = self._content(row, published, finding.place, measure)
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
            finding.diverging,
            finding.preferred,
        )

    def _content(
        self, row: CachedPartition, published: PartitionSlot, place: Place | None, measure: Measure
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
    """Records, or for a follower a high watermark that is about to move."""
    is_behind = measure.isolation == LOG_END and published.hw_offset < published.leo_offset
    return is_behind or row.fetch_offset < published.upper_offset(measure.isolation)
