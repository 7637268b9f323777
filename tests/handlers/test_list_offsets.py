"""ListOffsets in every version, compared with what Apache Kafka 4.3.0 was seen to answer."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import HEADER_SIZE
from kafkad.core.log.segments.index import TIME_ENTRY
from kafkad.core.log.segments.removal import delete_segments, remove_files
from kafkad.core.partition_slot import STATE_DELETING, STATE_OFFLINE, STATE_RECOVERING
from kafkad.handlers import list_offsets
from kafkad.handlers.requests.broker_view import BrokerView, ManifestPending
from kafkad.wire.api_table import LIST_OFFSETS
from kafkad.wire.primitives import MalformedRequest
from tests.contexts import a_context
from tests.core.log.batches import NOW, append, batch, load
from tests.core.log.fake_store import FakeStore
from tests.handlers.kio_calls import KioApi, versions_of
from tests.handlers.logs_behind_views import RECORDS, a_view_of_a_log, filled_log
from tests.handlers.stepping import finished
from tests.handlers.views import Logs, Slots, a_partition, a_topic, a_view

VERSIONS = versions_of(LIST_OFFSETS)
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
CONSUMER, FOLLOWER, DEBUGGER = -1, 3, -2


def asked(
    version: int,
    *rows: tuple[str, int, int],
    epoch: int = -1,
    replica: int = CONSUMER,
    isolation: int = 0,
) -> memoryview:
    """`rows` are (topic, partition, timestamp)."""
    api = KioApi("list_offsets", version)
    topics = tuple(
        api.part(
            "ListOffsetsTopic",
            name=topic,
            partitions=(
                api.part(
                    "ListOffsetsPartition", partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp
                ),
            ),
        )
        for topic, partition, timestamp in rows
    )
    return api.request(replica_id=replica, isolation_level=isolation, topics=topics, timeout=timedelta(seconds=1))


def answer(body: memoryview, version: int, view: BrokerView) -> Any:
    return KioApi("list_offsets", version).read(finished(list_offsets.handle(body, a_context(version), view)))


def first(response: Any) -> tuple[int, int, int]:
    """(error code, timestamp, offset) of the only partition."""
    ((row,),) = (topic.partitions for topic in response.topics)
    return row.error_code.value, row.timestamp, row.offset


def ask(view: BrokerView, timestamp: int, version: int = 11, **options: Any) -> tuple[int, int, int]:
    return first(answer(asked(version, ("text", 0, timestamp), **options), version, view))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_ends_of_the_log_are_told_in_every_version(version: int) -> None:
    log = filled_log()
    log.advance_high_watermark(45)
    view = a_view_of_a_log(log)

    response = answer(asked(version, ("text", 0, LATEST), ("none", 0, LATEST)), version, view)

    (found,), (missing,) = (topic.partitions for topic in response.topics)
    assert [topic.name for topic in response.topics] == ["text", "none"]
    assert (found.partition_index, found.error_code, found.timestamp, found.offset) == (0, ErrorCode.none, -1, 45)
    assert (missing.error_code, missing.offset) == (ErrorCode.unknown_topic_or_partition, -1)
    assert ask(view, EARLIEST, version) == (0, -1, 0)
    if version >= 4:
        assert (found.leader_epoch, missing.leader_epoch) == (1, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_first_record_from_a_time_on_is_found(version: int) -> None:
    log = filled_log()
    log.advance_high_watermark(RECORDS)
    view = a_view_of_a_log(log)
    assert ask(view, NOW + 52, version) == (0, NOW + 52, 17)
    assert ask(view, NOW + 53, version) == (0, NOW + 60, 18)
    assert ask(view, 0, version) == (0, NOW, 0)


def test_no_record_of_that_time_is_no_error() -> None:
    assert ask(a_view_of_a_log(filled_log()), NOW + 10_000) == (0, -1, -1)


def test_what_is_found_by_time_has_the_epoch_that_wrote_it() -> None:
    log = filled_log()
    log.advance_high_watermark(RECORDS)
    view = a_view_of_a_log(log)
    for timestamp, epoch in ((NOW, 0), (NOW + 120, 1)):
        response = answer(asked(11, ("text", 0, timestamp)), 11, view)
        assert response.topics[0].partitions[0].leader_epoch == epoch


def test_consumers_find_nothing_above_the_high_watermark_and_brokers_do() -> None:
    log = filled_log()
    log.advance_high_watermark(30)
    view = a_view_of_a_log(log)
    assert ask(view, NOW + 100) == (0, -1, -1)
    assert ask(view, NOW + 100, replica=FOLLOWER) == (0, NOW + 100, 30)
    assert ask(view, LATEST, replica=FOLLOWER) == (0, -1, RECORDS)
    assert ask(view, LATEST, replica=DEBUGGER) == (0, -1, RECORDS)


@pytest.mark.parametrize("version", range(2, 12))
def test_read_committed_ends_at_the_last_stable_offset(version: int) -> None:
    log = filled_log()
    log.advance_high_watermark(RECORDS)
    view = a_view_of_a_log(log)
    slots = view.slots
    assert isinstance(slots, Slots)
    at = log.position_of(21)
    slots.published[0] = slots.published[0]._replace(
        lso_offset=21, lso_segment=at.segment_base, lso_position=at.position
    )
    assert ask(view, LATEST, version, isolation=1) == (0, -1, 21)
    assert ask(view, NOW + 70, version, isolation=1) == (0, -1, -1)
    assert ask(view, LATEST, version) == (0, -1, RECORDS)


@pytest.mark.parametrize(
    ("version", "error"), [(4, ErrorCode.leader_not_available), (5, ErrorCode.offset_not_available)]
)
def test_a_new_leader_tells_no_end_before_it_knows_what_is_committed(version: int, error: ErrorCode) -> None:
    log = filled_log()
    log.advance_high_watermark(30)
    view = a_view_of_a_log(log)
    slots = view.slots
    assert isinstance(slots, Slots)
    slots.published[0] = slots.published[0]._replace(epoch_start=31)
    refused = (error.value, -1, -1)
    assert ask(view, LATEST, version) == refused
    assert ask(view, NOW + 100, version) == refused, "the first record from then on may be committed"
    assert ask(view, NOW, version) == (0, NOW, 0), "what is found is committed"
    assert ask(view, EARLIEST, version) == (0, -1, 0)
    assert ask(view, LATEST, version, replica=FOLLOWER) == (0, -1, RECORDS)
    assert ask(view, MAX_TIMESTAMP, 7) == (ErrorCode.offset_not_available.value, -1, -1)
    slots.published[0] = slots.published[0]._replace(epoch_start=30)
    assert ask(view, LATEST, version) == (0, -1, 30)


def test_the_record_with_the_largest_timestamp_is_found() -> None:
    log = filled_log()
    log.advance_high_watermark(RECORDS)
    assert ask(a_view_of_a_log(log), MAX_TIMESTAMP) == (0, NOW + 192, RECORDS - 1)


def test_the_record_with_the_largest_timestamp_may_be_deleted_already() -> None:
    """As in Apache Kafka. Without an offset the partition seemed to be empty."""
    log = load(FakeStore())
    for later_ms in (500, 100, 200):
        append(log, batch(1, timestamp=NOW + later_ms))
    log.advance_high_watermark(3)
    log.log_start_offset = 1
    assert ask(a_view_of_a_log(log), MAX_TIMESTAMP) == (0, NOW + 500, 0)


def test_without_tiered_storage_the_local_log_is_all_there_is() -> None:
    view = a_view_of_a_log(filled_log())
    assert ask(view, EARLIEST_LOCAL) == (0, -1, 0)
    assert ask(view, LATEST_TIERED) == (0, -1, -1)
    assert ask(view, PENDING_UPLOAD) == (0, -1, -1)


SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, PENDING_UPLOAD: 11}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("special", SINCE)
def test_special_timestamps_are_known_from_their_version_on(special: int, version: int) -> None:
    code = ask(a_view_of_a_log(filled_log()), special, version)[0]
    assert code == (0 if version >= SINCE[special] else ErrorCode.unsupported_version.value)


def test_a_negative_timestamp_that_means_nothing_is_refused() -> None:
    assert ask(a_view_of_a_log(filled_log()), -7) == (ErrorCode.unsupported_version.value, -1, -1)


def test_an_empty_log_begins_with_the_present_leader() -> None:
    view = a_view(a_topic("text", 7, a_partition(leader_epoch=4)))
    for timestamp in (LATEST, EARLIEST):
        response = answer(asked(11, ("text", 0, timestamp)), 11, view)
        row = response.topics[0].partitions[0]
        assert (row.error_code, row.offset, row.leader_epoch) == (ErrorCode.none, 0, 4)


@pytest.mark.parametrize("version", range(4, 12))
def test_who_believes_in_another_leader_epoch_is_fenced(version: int) -> None:
    view = a_view_of_a_log(filled_log(), leader_epoch=1)
    assert ask(view, EARLIEST, version, epoch=0)[0] == ErrorCode.fenced_leader_epoch.value
    assert ask(view, EARLIEST, version, epoch=1)[0] == 0
    assert ask(view, EARLIEST, version, epoch=2)[0] == ErrorCode.unknown_leader_epoch.value


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (STATE_OFFLINE, ErrorCode.kafka_storage_error),
        (STATE_RECOVERING, ErrorCode.not_leader_or_follower),
        (STATE_DELETING, ErrorCode.not_leader_or_follower),
    ],
)
def test_a_log_that_can_not_be_read_now_says_so(state: int, error: ErrorCode) -> None:
    view = a_view_of_a_log(filled_log())
    slots = view.slots
    assert isinstance(slots, Slots)
    slots.published[0] = slots.published[0]._replace(state=state)
    assert ask(view, LATEST) == (error.value, -1, -1)


def test_a_slot_that_belongs_to_another_topic_by_now_is_not_looked_into() -> None:
    view = a_view_of_a_log(filled_log())
    slots = view.slots
    assert isinstance(slots, Slots)
    slots.published[0] = slots.published[0]._replace(topic_id=bytes(16))
    assert ask(view, LATEST)[0] == ErrorCode.not_leader_or_follower.value


def test_a_partition_beyond_the_last_is_unknown() -> None:
    view = a_view_of_a_log(filled_log())
    for partition in (1, -1):
        code, _, _ = first(answer(asked(11, ("text", partition, LATEST)), 11, view))
        assert code == ErrorCode.unknown_topic_or_partition.value


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_named_twice_is_answered_once_and_refused(version: int) -> None:
    view = a_view_of_a_log(filled_log())
    response = answer(asked(version, ("text", 0, LATEST), ("text", 0, EARLIEST)), version, view)
    assert first(response) == (ErrorCode.invalid_request.value, -1, -1)


def test_a_manifest_that_is_not_here_is_waited_for() -> None:
    view = a_view_of_a_log(filled_log())
    logs = view.logs
    assert isinstance(logs, Logs)
    logs.readers.clear()
    with pytest.raises(ManifestPending):
        ask(view, EARLIEST)
    assert logs.asked == [0]


def test_a_manifest_that_names_files_which_are_gone_is_asked_for_again() -> None:
    log = filled_log()
    log.advance_high_watermark(RECORDS)
    view = a_view_of_a_log(log)
    logs = view.logs
    assert isinstance(logs, Logs)
    for effect in delete_segments(log, log.segments.base_offsets[1], NOW):
        remove_files(log, effect)
    with pytest.raises(ManifestPending):
        ask(view, NOW + 100)
    assert logs.forgotten == [0]


def test_an_index_that_contradicts_the_log_is_reported_to_its_owner() -> None:
    log = filled_log()
    log.advance_high_watermark(RECORDS)
    view = a_view_of_a_log(log)
    logs = view.logs
    assert isinstance(logs, Logs)
    segment = log.segments[0]
    times = segment.time_index
    times.file.write_at((b"\x7f",), (times.entries - 1) * TIME_ENTRY.size)
    with pytest.raises(ManifestPending):
        ask(view, NOW + 100)
    assert logs.doubts == [(0, 0)]


def _damage(log: PartitionLog, position: int, content: bytes) -> None:
    log.segments[0].log.write_at((content,), position)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("at", "content", "code"),
    [
        (8, b"\xff\xff\xff\xff", ErrorCode.corrupt_message),
        (HEADER_SIZE, b"\x7f\x7f\x7f", ErrorCode.invalid_record),
        # Attributes that name a codec which the records were not written with.
        (21, b"\x00\x01", ErrorCode.unknown_server_error),
    ],
)
def test_a_damaged_log_costs_its_own_partition_only(version: int, at: int, content: bytes, code: ErrorCode) -> None:
    log = filled_log()
    log.advance_high_watermark(RECORDS)
    view = a_view_of_a_log(log)
    _damage(log, at, content)
    response = answer(asked(version, ("none", 0, LATEST), ("text", 0, NOW)), version, view)
    (missing,), (damaged,) = (topic.partitions for topic in response.topics)
    assert missing.error_code is ErrorCode.unknown_topic_or_partition
    assert (damaged.error_code, damaged.offset) == (code, -1)
    assert isinstance(view.logs, Logs)
    assert [slot for slot, _ in view.logs.log_rate_limit] == [0]
    assert ask(view, LATEST, version) == (0, -1, RECORDS)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_off_anywhere_is_malformed(version: int) -> None:
    whole = bytes(asked(version, ("text", 0, LATEST)))
    for end in range(len(whole)):
        with pytest.raises(MalformedRequest):
            finished(list_offsets.handle(memoryview(whole[:end]), a_context(version), a_view()))
