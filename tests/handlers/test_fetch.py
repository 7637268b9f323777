"""What each partition of a fetch can answer now, and whether that is worth sending."""

from typing import Any
from uuid import UUID

import pytest

from kafkad.core.controller.image import Broker, MetadataImage, Partition, Topic
from kafkad.core.errors import ErrorCode
from kafkad.core.partition_slot import STATE_DELETING, STATE_OFFLINE, STATE_RECOVERING, PartitionSlot
from kafkad.core.quotas.replication_quota import LEADER_REPLICAS, ReplicationQuota
from kafkad.core.sessions.fetch_session import CachedPartition, FetchSession, PartitionKey
from kafkad.core.types import HIGH_WATERMARK, ISOLATIONS, LOG_END, TXN_COMMITTED, LogPosition
from kafkad.handlers.fetch import FetchEvaluator, RequestedRecords
from kafkad.handlers.partitions.fetch_access import set_reader, updates_of
from kafkad.handlers.partitions.fetch_measure import FollowerFetchState, Measure, SegmentRange
from kafkad.handlers.partitions.leader_throttle import LeaderThrottle
from kafkad.handlers.partitions.partition_routes import Routing, TopicRoute
from kafkad.handlers.partitions.replica_selection import ReplicaSelection
from kafkad.plugins.replica_selectors import RackAwareReplicaSelector
from kafkad.wire.messages.fetch import FileSlice, PartitionData, TopicData
from kafkad.wire.messages.fetch_request import FetchedPartition, FetchRequest
from tests.handlers.views import Slots

TOPIC, SECOND = UUID(int=1), UUID(int=2)
BYTES_A_RECORD = 10


class RegularLogs:
    """Logs of records of ten bytes in one segment; partitions in `unknown` have no manifest here yet."""

    def __init__(self) -> None:
        self.unknown: set[int] = set()
        self.gone: set[int] = set()
        self.epoch_ends: dict[int, tuple[int, int]] = {}
        self.released: list[SegmentRange] = []
        self.aborted_transactions: list[tuple[int, int]] = []

    def locate(self, slot: int, published: PartitionSlot, wanted: RequestedRecords) -> SegmentRange | None:
        if slot in self.unknown:
            return None
        offset, upper, max_bytes, whole, _ = wanted
        room = max(max_bytes, BYTES_A_RECORD) if whole else max_bytes
        return SegmentRange(0, offset * BYTES_A_RECORD, min((upper.offset - offset) * BYTES_A_RECORD, room))

    def aborted(
        self, slot: int, published: PartitionSlot, offset: int, place: SegmentRange, upper: LogPosition
    ) -> list[tuple[int, int]] | None:
        return None if slot in self.gone else [row for row in self.aborted_transactions if row[1] < upper.offset]

    def epoch_end(self, slot: int, published: PartitionSlot, epoch: int) -> tuple[int, int] | None:
        return None if slot in self.unknown else self.epoch_ends.get(epoch, (-1, -1))

    def open(self, slot: int, published: PartitionSlot, place: SegmentRange) -> FileSlice | None:
        if slot in self.gone:
            return None
        return FileSlice(
            100 + slot, place.position, place.length, lambda: self.released.append(place), slot, published.generation
        )


class World:
    """Topic one with partitions in slots 0 to 2, topic two in slot 3; each has offsets 100 to 110 and epoch 5."""

    def __init__(self, throttle: LeaderThrottle | None = None, selection: ReplicaSelection | None = None) -> None:
        self.slots = Slots()
        self.logs = RegularLogs()
        self.bound: list[int] = []
        replicas = [(1, 2, 3)] * 4
        routing = Routing([TopicRoute("one", TOPIC, [0, 1, 2, -1], replicas=replicas), TopicRoute("two", SECOND, [3])])
        bound = self.bound
        self.evaluator = FetchEvaluator(
            routing, self.slots, self.logs, lambda _session, slot: bound.append(slot), 1, throttle, selection
        )
        for slot in range(4):
            self.slots.published[slot] = PartitionSlot(
                topic_id=(SECOND if slot == 3 else TOPIC).bytes,
                partition=slot % 3,
                owner=0,
                role=1,
                state=2,
                leader_epoch=5,
                log_start=100,
                hw_offset=110,
                lso_offset=110,
                leo_offset=110,
                segment_count=1,
            )

    def change(self, slot: int, **values: Any) -> None:
        self.slots.published[slot] = self.slots.published[slot]._replace(**values)


def a_row(topic: str | bytes, partition: int, offset: int, *, max_bytes: int = 1000, **values: int) -> CachedPartition:
    made = CachedPartition((topic, partition), offset, max_bytes)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def a_session(*rows: CachedPartition) -> FetchSession:
    return FetchSession(rows, 0, uses_topic_ids=False)


def measured(
    world: World, session: FetchSession, max_bytes: int, absent: frozenset[PartitionKey] | None = None
) -> Measure:
    measure = Measure(session.isolation, absent)
    world.evaluator.measure(session, list(session.dirty), measure, max_bytes)
    return measure


def response(world: World, session: FetchSession, measure: Measure, *, full: bool) -> list[TopicData]:
    topics: dict[str | bytes, list[PartitionData]] = {}
    world.evaluator.add_to_response(session, measure, measure.results, topics, full=full)
    return list(topics.items())


def look(world: World, *rows: CachedPartition, max_bytes: int = 10_000) -> Measure:
    return measured(world, a_session(*rows), max_bytes)


def only(world: World, row: CachedPartition) -> PartitionData:
    """The full answer for one partition."""
    session = a_session(row)
    measure = measured(world, session, 10_000)
    ((_, (data,)),) = response(world, session, measure, full=True)
    return data


def test_records_from_the_offset_to_the_high_watermark_are_found() -> None:
    world = World()
    measure = look(world, a_row("one", 0, 104))
    assert (measure.bytes_found, measure.is_urgent, measure.needs_manifest) == (60, False, False)
    data = only(world, a_row("one", 0, 104))
    assert (data.error, data.high_watermark, data.last_stable_offset, data.log_start_offset) == (0, 110, 110, 100)
    assert data.records is not None
    assert (data.records.fd, data.records.position, data.records.length) == (100, 1040, 60)
    assert measure.readable_slots == [(0, 110)]


def test_a_topic_is_found_by_its_id() -> None:
    assert only(World(), a_row(TOPIC.bytes, 1, 104)).error == 0


def test_at_the_high_watermark_there_is_nothing_yet() -> None:
    world = World()
    world.change(0, leo_offset=120)
    for offset in (110, 115, 120):
        measure = look(world, a_row("one", 0, offset))
        assert (measure.bytes_found, measure.is_urgent, measure.quiet_slots) == (0, False, [(0, 110)])
        assert only(world, a_row("one", 0, offset)).records is None


@pytest.mark.parametrize("offset", [99, 111, 0, -1])
def test_an_offset_outside_the_log_is_out_of_range(offset: int) -> None:
    world = World()
    assert look(world, a_row("one", 0, offset)).is_urgent
    data = only(world, a_row("one", 0, offset))
    assert (data.error, data.high_watermark, data.records) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, None)


@pytest.mark.parametrize(
    ("topic", "partition", "error"),
    [
        ("none", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (UUID(int=9).bytes, 0, ErrorCode.UNKNOWN_TOPIC_ID),
        ("one", 4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("one", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_does_not_exist_is_news_only_when_it_was_there_before(
    topic: str | bytes, partition: int, error: ErrorCode
) -> None:
    row = a_row(topic, partition, 0)
    measure = look(World(), row)
    assert (measure.is_urgent, measure.absent) == (False, {row.key})
    again = measured(World(), a_session(row), 1000, frozenset([row.key]))
    assert (again.is_urgent, again.absent) == (False, {row.key})
    later = measured(World(), a_session(row), 1000, frozenset())
    assert (later.is_urgent, later.absent) == (True, set())
    assert only(World(), a_row(topic, partition, 0)).error == error


def test_a_follower_is_told_at_once_of_a_topic_that_its_leader_does_not_know_yet() -> None:
    world = World()
    measure = measured(world, a_follower(world, a_row("none", 0, 0)), 1000)
    assert (measure.is_urgent, measure.absent) == (True, set())


def test_what_is_not_here_is_told_at_once() -> None:
    assert look(World(), a_row("one", 3, 0)).is_urgent
    assert only(World(), a_row("one", 3, 0)).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"state": STATE_OFFLINE}, ErrorCode.KAFKA_STORAGE_ERROR),
        ({"state": STATE_DELETING}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"topic_id": bytes(16)}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"state": STATE_RECOVERING, "segment_count": 0, "leo_offset": 0}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"state": STATE_RECOVERING}, ErrorCode.NONE),
    ],
)
def test_a_log_that_can_not_be_read_now_says_so(values: dict[str, Any], error: ErrorCode) -> None:
    world = World()
    world.change(0, **values)
    assert only(world, a_row("one", 0, 104)).error == error


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-2, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_who_believes_in_another_leader_epoch_is_fenced(epoch: int, error: ErrorCode) -> None:
    assert only(World(), a_row("one", 0, 104, current_leader_epoch=epoch)).error == error


@pytest.mark.parametrize(
    ("last_epoch", "offset", "diverging", "error"),
    [
        (5, 104, None, 0),
        (-2, 104, None, 0),
        (3, 104, None, 0),
        (3, 107, (3, 106), 0),
        (4, 104, (3, 106), 0),
        (2, 104, None, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_fetcher_whose_log_parted_is_told_where(
    last_epoch: int, offset: int, diverging: tuple[int, int] | None, error: int
) -> None:
    world = World()
    world.logs.epoch_ends = {3: (3, 106), 4: (3, 106)}
    data = only(world, a_row("one", 0, offset, last_fetched_epoch=last_epoch))
    assert (data.diverging, data.error) == (diverging, error)
    assert (data.records is None) is (diverging is not None or error != 0)


def test_the_present_epoch_is_known_before_its_first_record() -> None:
    world = World()
    data = only(world, a_row("one", 0, 110, last_fetched_epoch=5))
    assert (data.error, data.diverging) == (0, None)


@pytest.mark.parametrize(("ends", "error"), [({}, ErrorCode.OFFSET_OUT_OF_RANGE), ({5: (5, 110)}, 0)])
def test_a_follower_knows_the_present_epoch_from_its_records_only(ends: dict[int, tuple[int, int]], error: int) -> None:
    world = World()
    world.change(0, role=2)
    world.logs.epoch_ends = ends
    data = only(world, a_row("one", 0, 110, last_fetched_epoch=5))
    assert (data.error, data.diverging) == (error, None)


def test_the_bytes_of_a_fetch_are_shared_by_its_partitions_in_order() -> None:
    rows = [a_row("one", index, 100) for index in range(3)]
    measure = look(World(), *rows, max_bytes=150)
    assert [result.place.length if result.place else 0 for result in measure.results] == [100, 50, 0]


def test_the_bytes_of_a_partition_are_limited_too() -> None:
    measure = look(World(), a_row("one", 0, 100, max_bytes=30), a_row("one", 1, 100))
    assert [result.place.length for result in measure.results if result.place] == [30, 100]


def test_a_partition_that_got_no_room_comes_first_the_next_time() -> None:
    world = World()
    session = a_session(a_row("one", 0, 100), a_row("one", 1, 100))
    served = []
    for full in (True, False, False):
        measure = measured(world, session, BYTES_A_RECORD)
        topics = response(world, session, measure, full=full)
        served.append([row.partition for _, rows in topics for row in rows if row.records is not None])
    assert served == [[0], [0], [1]]


def test_a_divergence_is_told_until_the_fetcher_has_acted_on_it() -> None:
    world = World()
    world.logs.epoch_ends = {3: (3, 106)}
    session = a_session(a_row("one", 0, 107, last_fetched_epoch=3))
    session.set_isolation(TXN_COMMITTED)
    for _ in range(2):
        ((_, (data,)),) = response(world, session, measured(world, session, 1000), full=False)
        assert (data.diverging, data.aborted) == ((3, 106), None)


def test_the_first_batch_is_sent_whole_however_small_the_limits() -> None:
    measure = look(World(), a_row("one", 0, 100, max_bytes=1), a_row("one", 1, 100, max_bytes=1), max_bytes=1)
    assert measure.bytes_found == BYTES_A_RECORD


def test_a_manifest_that_is_not_here_is_waited_for() -> None:
    world = World()
    world.logs.unknown.add(0)
    assert look(world, a_row("one", 0, 104)).needs_manifest
    assert look(world, a_row("one", 0, 104, last_fetched_epoch=3)).needs_manifest


def test_a_follower_at_the_log_end_whose_epoch_is_not_known_yet_is_looked_at_again() -> None:
    """Another partition of its fetch has records, so the answer does not wait: nothing else would say what is new."""
    world = World()
    world.logs.unknown = {0}
    session = a_session(a_row("one", 0, 110, last_fetched_epoch=3), a_row("one", 1, 104))
    measure = measured(world, session, 10_000)
    assert measure.quiet_slots == []
    response(world, session, measure, full=False)
    assert ("one", 0) in session.dirty
    world.logs.unknown, world.logs.epoch_ends = set(), {3: (3, 110)}
    measure = measured(world, session, 10_000)
    assert (0, 110) in measure.quiet_slots
    response(world, session, measure, full=False)
    assert ("one", 0) not in session.dirty, "its watch tells from now on"


def test_a_file_that_is_gone_meanwhile_answers_nothing() -> None:
    world = World()
    world.logs.gone.add(0)
    data = only(world, a_row("one", 0, 104))
    assert (data.error, data.records) == (0, None)


def test_aborted_transactions_are_listed_for_who_reads_committed_only() -> None:
    world = World()
    for committed, aborted in ((False, None), (True, [])):
        session = a_session(a_row("one", 0, 104))
        session.set_isolation(TXN_COMMITTED if committed else HIGH_WATERMARK)
        measure = measured(world, session, 1000)
        ((_, (data,)),) = response(world, session, measure, full=True)
        assert data.aborted == aborted


def test_followers_read_up_to_the_log_end_and_consumers_to_the_high_watermark() -> None:
    world = World()
    world.change(0, hw_offset=105, lso_offset=103)
    ends = {}
    for isolation in ISOLATIONS:
        session = a_session(a_row("one", 0, 101))
        session.set_isolation(isolation)
        ends[isolation] = measured(world, session, 100_000).bytes_found // BYTES_A_RECORD
    assert ends == {HIGH_WATERMARK: 4, TXN_COMMITTED: 2, LOG_END: 9}


def in_racks(*in_sync: int) -> MetadataImage:
    """Broker 1, which leads, is in rack a, 2 and 3 are in b, 4 in c; all have partition 0 of topic one."""
    partition = Partition(
        index=0,
        slot=0,
        owner=0,
        log_dir=0,
        leader=1,
        leader_epoch=5,
        partition_epoch=0,
        replicas=(1, 2, 3, 4),
        isr=in_sync,
    )
    topic = Topic(name="one", id=TOPIC, partitions=(partition,), configs={})
    brokers = {
        each: Broker(id=each, epoch=0, listeners=(), rack=rack) for each, rack in zip((1, 2, 3, 4), "abbc", strict=True)
    }
    return MetadataImage(topics={"one": topic}, brokers=brokers)


@pytest.mark.parametrize(
    ("rack", "in_sync", "expected"),
    [
        ("", (1, 2, 3, 4), -1),
        ("a", (1, 2, 3, 4), -1),
        ("b", (1, 2, 3, 4), 3),
        ("b", (1, 2, 4), 2),
        ("b", (1, 4), -1),
        ("elsewhere", (1, 2, 3, 4), -1),
    ],
)
@pytest.mark.parametrize("offset", [101, 110])
def test_a_consumer_is_sent_to_a_replica_in_its_rack(
    rack: str, in_sync: tuple[int, ...], expected: int, offset: int
) -> None:
    world = World(selection=ReplicaSelection(RackAwareReplicaSelector(), 1, lambda: in_racks(*in_sync)))
    session = a_session(a_row("one", 0, offset))
    session.rack_id = rack
    measure = measured(world, session, 10_000)
    assert measure.is_urgent is (expected >= 0)
    ((_, (data,)),) = response(world, session, measure, full=True)
    assert (data.preferred, data.error, data.high_watermark) == (expected, 0, 110)
    assert (data.records is None) is (expected >= 0 or offset == 110)
    if expected >= 0:
        # As often as it asks, also in a session.
        again = response(world, session, measured(world, session, 10_000), full=False)
        assert [each.preferred for _, rows in again for each in rows] == [expected]


@pytest.mark.parametrize("role", [1, 2])
def test_who_is_no_leader_or_has_not_the_offset_sends_nobody_away(role: int) -> None:
    world = World(selection=ReplicaSelection(RackAwareReplicaSelector(), 1, lambda: in_racks(1, 2, 3, 4)))
    world.change(0, role=role, hw_offset=105)
    session = a_session(a_row("one", 0, 101 if role == 2 else 108))
    session.rack_id = "b"
    ((_, (data,)),) = response(world, session, measured(world, session, 10_000), full=True)
    assert (data.preferred, data.error) == (-1, 0)


@pytest.mark.parametrize(("in_sync", "is_sent"), [((1,), False), ((1, 2), True)])
def test_a_throttled_follower_that_is_out_of_sync_waits_until_the_rate_is_below_the_limit(
    in_sync: tuple[int, ...], is_sent: bool
) -> None:
    partition = Partition(
        index=0,
        slot=0,
        owner=0,
        log_dir=0,
        leader=1,
        leader_epoch=5,
        partition_epoch=0,
        replicas=(1, 2),
        isr=in_sync,
    )
    topic = Topic(name="one", id=TOPIC, partitions=(partition,), configs={LEADER_REPLICAS: "0:1"})
    quota = ReplicationQuota(num_samples=11, window_ms=1_000, now_ms=0)
    quota.rate = 1
    now_ms = [0]
    world = World(LeaderThrottle(quota, 1, lambda: MetadataImage(topics={"one": topic}), lambda: now_ms[0]))

    def sent(replica_id: int) -> int:
        session = a_follower(world, a_row("one", 0, 101), replica_id)
        measure = measured(world, session, 10_000)
        ((_, (data,)),) = response(world, session, measure, full=True)
        return 0 if data.records is None else data.records.length

    assert sent(2) == 90
    assert sent(2) == (90 if is_sent else 0)
    session = a_session(a_row("one", 0, 101))
    assert measured(world, session, 10_000).bytes_found == 90, "it is no follower"
    now_ms[0] = 200_000
    assert sent(2) == 90


def test_a_follower_hears_of_a_high_watermark_that_has_moved() -> None:
    world = World()
    world.change(0, hw_offset=105)
    session = a_follower(world, a_row("one", 0, 110))
    first = measured(world, session, 10_000)
    assert not first.is_urgent
    response(world, session, first, full=True)
    # It is about to move: the next request looks at the partition again.
    waiting = measured(world, session, 10_000)
    assert (len(waiting.results), waiting.is_urgent) == (1, False)
    response(world, session, waiting, full=False)
    world.change(0, hw_offset=110)
    moved = measured(world, session, 10_000)
    assert moved.is_urgent
    ((_, (data,)),) = response(world, session, moved, full=False)
    assert data.high_watermark == 110
    assert measured(world, session, 10_000).results == []


def a_follower(world: World, row: CachedPartition, replica_id: int = 2, *, may_follow: bool = True) -> FetchSession:
    session = a_session(row)
    request = FetchRequest(replica_id, 0, 1, 1000, 0)
    request.replica_epoch = 77
    partition = FetchedPartition(row.key[1], -1, row.fetch_offset, -1, 90, 1000)
    request.topics.append((row.key[0], [partition]))
    set_reader(session, request, 17, may_follow=may_follow)
    return session


def test_what_a_follower_has_is_reported_once_for_each_request() -> None:
    world = World()
    session = a_follower(world, a_row("one", 0, 104))
    follower_states = measured(world, session, 1000).follower_states
    assert follower_states == [FollowerFetchState(0, 0, 0, 5, 104, 90)]
    assert (session.replica_id, session.replica_epoch) == (2, 77)
    session.dirty[("one", 0)] = None
    assert measured(world, session, 1000).follower_states == []
    session.report_again(0)
    assert measured(world, session, 1000).follower_states == follower_states


def test_what_a_follower_has_is_reported_when_its_epochs_are_compared_and_not_before() -> None:
    """Until the manifest is there nobody knows whether its records are the leader's."""
    world = World()
    session = a_follower(world, a_row("one", 0, 104, last_fetched_epoch=3))
    world.logs.unknown = {0}
    assert measured(world, session, 1000).follower_states == []
    world.logs.unknown, world.logs.epoch_ends = set(), {3: (3, 101)}
    assert measured(world, session, 1000).follower_states == []
    world.logs.epoch_ends = {3: (3, 110)}
    assert measured(world, session, 1000).follower_states == [FollowerFetchState(0, 0, 0, 5, 104, 90)]


def test_the_high_watermark_is_told_when_the_epochs_are_compared_and_not_before() -> None:
    """A follower with other records would take its own for committed."""
    world = World()
    session = a_follower(world, a_row("one", 0, 104, last_fetched_epoch=3))
    world.logs.unknown = {0}

    def told(*, full: bool) -> list[tuple[int, int]]:
        topics = response(world, session, measured(world, session, 1000), full=full)
        return [(row.high_watermark, row.last_stable_offset) for _, rows in topics for row in rows]

    assert (told(full=True), told(full=False)) == ([(100, 100)], [])
    world.logs.unknown, world.logs.epoch_ends = set(), {3: (3, 110)}
    assert told(full=False) == [(110, 110)]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"offset": 111}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 104, "current_leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"offset": 104, "last_fetched_epoch": 3}, 0),
    ],
    ids=["out of range", "fenced", "diverging"],
)
def test_a_fetch_that_finds_nothing_to_read_reports_nothing(row: dict[str, int], error: int) -> None:
    world = World()
    world.logs.epoch_ends = {3: (3, 101)}
    measure = measured(world, a_follower(world, a_row("one", 0, **row)), 1000)
    assert (measure.follower_states, measure.results[0].error) == ([], error)


@pytest.mark.parametrize(
    ("replica_id", "epoch", "error"),
    [
        (2, 5, 0),
        (9, 5, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (9, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (1, 5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_only_followers_of_the_partition_are_answered_as_such(replica_id: int, epoch: int, error: int) -> None:
    world = World()
    session = a_follower(world, a_row("one", 0, 104, current_leader_epoch=epoch), replica_id)
    assert measured(world, session, 1000).results[0].error == error


def test_nobody_follows_where_followers_are_not_served() -> None:
    """What a replica asks for counts as on its disk: a stranger could acknowledge in its place."""
    world = World()
    measure = measured(world, a_follower(world, a_row("one", 0, 104), may_follow=False), 1000)
    assert (measure.results[0].error, measure.follower_states) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])


@pytest.mark.parametrize(
    ("replica_id", "version", "error"),
    [(-1, 11, 0), (-1, 10, 6), (-2, 11, 0), (-2, 10, 6), (2, 17, 6)],
    ids=["new", "old", "new debugging", "old debugging", "follower"],
)
def test_consumers_read_from_followers_and_others_from_the_leader(replica_id: int, version: int, error: int) -> None:
    """The debugging consumer (-2) is one like any other since Apache Kafka 2.4 (FetchParams.fetchOnlyLeader)."""
    world = World()
    world.change(0, role=2)
    session = a_session(a_row("one", 0, 104))
    set_reader(session, FetchRequest(replica_id, 0, 1, 1000, 0), version)
    assert measured(world, session, 1000).results[0].error == error


def test_the_debugging_consumer_reads_what_is_committed() -> None:
    """FetchRequest.isConsumer, FetchIsolation.of: only brokers read up to the log end."""
    session = a_session(a_row("one", 0, 104))
    set_reader(session, FetchRequest(-2, 0, 1, 1000, 0), 11)
    assert session.isolation == HIGH_WATERMARK
    set_reader(session, FetchRequest(-2, 0, 1, 1000, 1), 11)
    assert session.isolation == TXN_COMMITTED


def test_partitions_are_grouped_by_topic() -> None:
    world = World()
    session = a_session(a_row("one", 0, 104), a_row("two", 0, 104), a_row("one", 2, 104))
    topics = response(world, session, measured(world, session, 1000), full=True)
    assert [(topic, [row.partition for row in rows]) for topic, rows in topics] == [("one", [0, 2]), ("two", [0])]


def incremental(world: World, session: FetchSession) -> list[int]:
    """The partitions that the next incremental response mentions."""
    measure = measured(world, session, 10_000)
    return [row.partition for _, rows in response(world, session, measure, full=False) for row in rows]


def test_an_incremental_response_mentions_only_what_changed() -> None:
    world = World()
    session = a_session(a_row("one", 0, 110), a_row("one", 1, 110))
    assert incremental(world, session) == [0, 1]
    assert (incremental(world, session), len(session.dirty)) == ([], 0)
    world.change(1, hw_offset=111, leo_offset=111)
    session.slot_changed(1)
    assert incremental(world, session) == [1]


def test_a_session_goes_on_looking_at_what_has_more_to_say() -> None:
    world = World()
    session = a_session(a_row("one", 0, 104), a_row("one", 1, 110), a_row("none", 0, 0))
    incremental(world, session)
    assert list(session.dirty) == [("none", 0), ("one", 0)]


def test_a_session_is_told_which_slots_it_looks_at_once() -> None:
    world = World()
    session = a_session(a_row("one", 0, 110), a_row("two", 0, 110))
    incremental(world, session)
    for slot in world.bound:
        session.slot_changed(slot)
    incremental(world, session)
    assert world.bound == [0, 3]


def test_the_rows_of_a_session_are_those_of_the_request() -> None:
    request = FetchRequest(-1, 500, 1, 1000, 0)
    request.topics = [("one", [FetchedPartition(2, 5, 104, 3, 100, 77)])]
    (((row,), _forgotten, _is_last),) = updates_of(request)
    assert (row.key, row.fetch_offset, row.max_bytes) == (("one", 2), 104, 77)
    assert (row.current_leader_epoch, row.last_fetched_epoch, row.slot) == (5, 3, -1)
