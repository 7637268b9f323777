"""What a process that only reads finds, next to an owner that writes."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.reading.log_reader import (
    MAX_OPEN_SEGMENTS,
    SEGMENTS_A_STEP,
    Extent,
    FoundOffset,
    LogReader,
    ManifestStale,
    SearchPaused,
)
from kafkad.core.log.records.batch import Codec, read_header
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.records.compression import READ_BYTES
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.records.record_checks import READ_RECORDS
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments.removal import delete_segments, remove_files
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import LogFile
from kafkad.core.types import LogPosition
from tests.core.log.batches import NOW, append, batch, load
from tests.core.log.fake_store import FakeStore
from tests.core.log.many_headers import BROKEN_HEADER, batch_with_headers
from tests.core.log.sealed import sealed


def filled(store: FakeStore, batches: int = 40) -> PartitionLog:
    log = load(store)
    for number in range(batches):
        append(log, batch(3, timestamp=NOW + 10 * number), epoch=number // 20)
    return log


def fetched(reader: LogReader, extent: Extent) -> list[tuple[int, int]]:
    """(first, last offset) of the whole batches in what would be sent."""
    file = reader.log_file(extent.segment_base)
    end = extent.position + extent.length
    found = []
    at = extent.position
    while at < end:
        _, header = next(walk_batches(file.read_at, at, file.size()))
        if at + header.size <= end:
            found.append((header.base_offset, header.last_offset))
        at += header.size
    return found


def test_a_fetch_in_the_middle_of_a_batch_gets_the_whole_batch_first() -> None:
    log = filled(FakeStore())
    reader = LogReader(log.store, log.manifest())
    for offset in range(log.log_end_offset):
        extent = reader.locate(offset, log.log_end, 1)
        first = offset - offset % 3
        assert fetched(reader, extent) == [(first, first + 2)]


def test_a_fetch_gets_no_more_than_max_bytes() -> None:
    log = filled(FakeStore())
    reader = LogReader(log.store, log.manifest())
    size = len(batch(3))
    assert reader.locate(0, log.log_end, 3 * size + 5).length == 3 * size + 5
    assert reader.locate(0, log.log_end, size - 1).length == size
    assert reader.locate(0, log.log_end, size - 1, minimum_one_batch=False).length == 0


def test_a_fetch_ends_with_its_segment_and_never_passes_the_upper_bound() -> None:
    log = filled(FakeStore())
    reader = LogReader(log.store, log.manifest())
    bases = log.segments.base_offsets
    assert fetched(reader, reader.locate(0, log.log_end, 10**9))[-1][1] == bases[1] - 1
    upper = log.position_of(bases[-1] + 3)
    assert fetched(reader, reader.locate(bases[-1], upper, 10**9)) == [(bases[-1], bases[-1] + 2)]


def test_a_fetch_at_the_upper_bound_is_empty_and_beyond_it_out_of_range() -> None:
    log = filled(FakeStore())
    reader = LogReader(log.store, log.manifest())
    assert reader.locate(120, log.log_end, 1000).length == 0
    for offset in (121, -1):
        with pytest.raises(KafkaError) as refused:
            reader.locate(offset, log.log_end, 1000)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_consumer_at_the_end_needs_no_look_up() -> None:
    store = FakeStore()
    log = load(store, config=LogConfig())
    append(log, batch(3))
    reader = LogReader(store, log.manifest())
    reader.locate(0, log.log_end, 10**6)
    store.reads = 0
    for number in range(1, 50):
        append(log, batch(3))
        assert fetched_offsets(reader.locate(3 * number, log.log_end, 10**6), log) == 3 * number
    assert store.reads == 0


def fetched_offsets(extent: Extent, log: PartitionLog) -> int:
    """The base offset that the bytes of `extent` start with, read without counting."""
    content = log.store.read(f"{extent.segment_base:020d}.log")
    return int.from_bytes(content[extent.position : extent.position + 8], "big")


def test_an_offset_in_a_gap_of_compaction_gets_the_batch_after_it() -> None:
    store = FakeStore()
    log = load(store)
    for offset in (0, 50, 100):
        append_as_follower(log, batch(1, base_offset=offset, leader_epoch=0), leader_epoch=0, now_ms=NOW)
    log.roll(200, NOW)
    append_as_follower(log, batch(1, base_offset=300, leader_epoch=0), leader_epoch=0, now_ms=NOW)
    reader = LogReader(store, log.manifest())
    assert fetched(reader, reader.locate(7, log.log_end, 1)) == [(50, 50)]
    assert fetched(reader, reader.locate(150, log.log_end, 1)) == [(300, 300)]


def test_a_reader_with_an_old_manifest_is_told_to_ask_again() -> None:
    log = filled(FakeStore())
    old = LogReader(log.store, log.manifest())
    log.advance_high_watermark(log.log_end_offset)
    (effect,) = delete_segments(log, 0, NOW)
    remove_files(log, effect)
    with pytest.raises(ManifestStale):
        old.locate(0, log.log_end, 100)
    with pytest.raises(ManifestStale):
        old.offset_for_timestamp(NOW, log.log_end)
    log.roll(log.log_end_offset, NOW)
    append(log, batch(3))
    with pytest.raises(ManifestStale):
        old.locate(log.log_end_offset - 1, log.log_end, 100)


def test_a_segment_opened_before_it_was_deleted_can_still_be_read() -> None:
    log = filled(FakeStore())
    reader = LogReader(log.store, log.manifest())
    reader.locate(0, log.log_end, 100)
    log.advance_high_watermark(log.log_end_offset)
    (effect,) = delete_segments(log, 0, NOW)
    remove_files(log, effect)
    assert fetched(reader, reader.locate(0, log.log_end, 1)) == [(0, 2)]


def test_the_first_record_at_or_after_a_timestamp() -> None:
    log = filled(FakeStore())
    reader = LogReader(log.store, log.manifest())
    end = log.log_end
    assert reader.offset_for_timestamp(NOW - 5, end) == FoundOffset(NOW, 0, 0)
    assert reader.offset_for_timestamp(NOW + 1, end) == FoundOffset(NOW + 1, 1, 0)
    assert reader.offset_for_timestamp(NOW + 3, end) == FoundOffset(NOW + 10, 3, 0)
    assert reader.offset_for_timestamp(NOW + 252, end) == FoundOffset(NOW + 252, 77, 1)
    assert reader.offset_for_timestamp(NOW + 393, end) is None


def test_a_timestamp_is_not_found_below_the_log_start_or_above_the_upper_bound() -> None:
    log = filled(FakeStore())
    reader = LogReader(log.store, log.manifest())
    assert reader.offset_for_timestamp(NOW, log.log_end, log_start=10) == FoundOffset(NOW + 31, 10, 0)
    assert reader.offset_for_timestamp(NOW + 252, log.position_of(75)) is None


def test_a_batch_with_too_much_to_read_is_found_as_a_whole() -> None:
    """A consumer that begins there gets the record that it wanted, and some before it."""
    log = load(FakeStore(), config=LogConfig())
    records = [NewRecord(NOW, None, b"")] * READ_RECORDS + [NewRecord(NOW + 5, None, b"")]
    large = [NewRecord(NOW, None, bytes(READ_BYTES)), NewRecord(NOW + 9, None, b"")]
    for content in (records, large):
        append(log, memoryview(bytearray(build_batch(content, codec=Codec.ZSTD))))
    reader = LogReader(log.store, log.manifest())
    assert reader.offset_for_timestamp(NOW + 4, log.log_end) == FoundOffset(NOW + 5, 0, 0)
    assert reader.offset_for_timestamp(NOW + 8, log.log_end) == FoundOffset(NOW + 9, len(records), 0)


def test_a_search_by_time_does_not_read_headers() -> None:
    log = load(FakeStore())
    append(log, memoryview(bytearray(batch_with_headers(9, BROKEN_HEADER, timestamp=NOW))))
    reader = LogReader(log.store, log.manifest())
    assert reader.offset_for_timestamp(NOW, log.log_end) == FoundOffset(NOW, 0, 0)


def test_timestamps_that_go_back_are_found_where_they_first_occur() -> None:
    log = load(FakeStore())
    for number, timestamp in enumerate((50, 10, 90, 20, 90, 30)):
        append(log, batch(1, timestamp=NOW + timestamp))
        if number == 2:
            log.roll(log.log_end_offset, NOW)
    reader = LogReader(log.store, log.manifest())
    assert reader.offset_for_timestamp(NOW + 5, log.log_end) == FoundOffset(NOW + 50, 0, 0)
    assert reader.offset_for_timestamp(NOW + 60, log.log_end) == FoundOffset(NOW + 90, 2, 0)
    assert reader.max_timestamp(log.log_end) == FoundOffset(NOW + 90, 2, 0)


def test_the_record_with_the_largest_timestamp() -> None:
    log = filled(FakeStore())
    append(log, batch(2, timestamp=NOW))
    reader = LogReader(log.store, log.manifest())
    assert reader.max_timestamp(log.log_end) == FoundOffset(NOW + 392, 119, 1)
    assert LogReader(load(FakeStore()).store, log.manifest()).manifest == log.manifest()


def test_an_empty_log_has_no_timestamps() -> None:
    log = load(FakeStore())
    reader = LogReader(log.store, log.manifest())
    assert reader.max_timestamp(log.log_end) is None
    assert reader.offset_for_timestamp(0, log.log_end) is None


def test_records_without_a_time_are_found_by_none_and_the_first_is_the_newest() -> None:
    """The latter as Apache Kafka."""
    log = load(FakeStore())
    for _ in range(40):
        append(log, memoryview(bytearray(build_batch([NewRecord(-1, None, bytes(80))] * 2))))
    reader = LogReader(log.store, log.manifest())
    assert len(log.segments) > 2
    assert reader.offset_for_timestamp(0, log.log_end) is None
    append(log, memoryview(bytearray(build_batch([NewRecord(-1, None, None)]))))
    assert reader.max_timestamp(log.log_end) == FoundOffset(-1, 0, 0)


def test_times_of_1970_in_the_index_of_an_earlier_version_are_none() -> None:
    store = FakeStore()
    log = load(store)
    for _ in range(40):
        records = memoryview(bytearray(sealed(bytes(batch(1, timestamp=-1)), max_timestamp=0)))
        log.append_validated(records, read_header(records), leader_epoch=0, now_ms=NOW)
    assert LogReader(store, log.manifest()).max_timestamp(log.log_end) == FoundOffset(-1, 0, 0)
    append(log, batch(1, timestamp=NOW))
    assert LogReader(store, log.manifest()).max_timestamp(log.log_end) == FoundOffset(NOW, 40, 0)
    assert LogReader(store, log.manifest()).offset_for_timestamp(0, log.log_end) == FoundOffset(NOW, 40, 0)


def test_a_log_without_times_is_walked_once() -> None:
    store = FakeStore()
    log = load(store, config=LogConfig())
    for _ in range(2000):
        append(log, batch(1, timestamp=-1))
    reader = LogReader(store, log.manifest())
    assert reader.offset_for_timestamp(NOW, log.log_end) is None
    append(log, batch(1, timestamp=-1))
    before = store.reads
    assert reader.offset_for_timestamp(NOW, log.log_end) is None
    assert store.reads - before < 5


def test_epochs_are_answered_from_the_manifest() -> None:
    log = filled(FakeStore())
    reader = LogReader(log.store, log.manifest())
    assert reader.epoch_end_offset(0, 120, 1) == (0, 60)
    assert reader.epoch_end_offset(1, 120, 1) == (1, 120)
    assert reader.epoch_end_offset(2, 120, -1) == (-1, -1)
    assert reader.epoch_end_offset(2, 120, 3) == (1, 120)
    assert [reader.leader_epoch_at(offset) for offset in (0, 59, 60)] == [0, 0, 1]
    assert reader.latest_epoch() == 1


@given(st.lists(st.integers(1, 5), min_size=1, max_size=60), st.data())
def test_reading_step_by_step_finds_every_batch_once(counts: list[int], data: st.DataObject) -> None:
    log = load(FakeStore())
    written = []
    for count in counts:
        info = append(log, batch(count))
        written.append((info.base_offset, info.last_offset))
    reader = LogReader(log.store, log.manifest())
    found: list[tuple[int, int]] = []
    offset = 0
    while offset < log.log_end_offset:
        max_bytes = data.draw(st.integers(1, 3000))
        batches = fetched(reader, reader.locate(offset, log.log_end, max_bytes))
        found.extend(batches)
        offset = batches[-1][1] + 1
    assert found == written


def test_the_upper_bound_may_lie_in_an_older_segment() -> None:
    log = filled(FakeStore())
    reader = LogReader(log.store, log.manifest())
    upper = LogPosition(3, 0, len(batch(3)))
    assert fetched(reader, reader.locate(0, upper, 10**6)) == [(0, 2)]
    assert reader.locate(3, upper, 10**6).length == 0


SEGMENTS = 3 * SEGMENTS_A_STEP + 10


class OpenedNames:
    """A store that knows which files were opened, and how many of them are not closed again."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self.opened: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def open(self, name: str, *, create: bool = False) -> LogFile:
        self.opened.append(name)
        return self._store.open(name, create=create)

    def has(self, name: str) -> bool:
        self.opened.append(name)
        return self._store.has(name)

    def take_segments(self) -> set[str]:
        """The segments of which something was opened since the last call."""
        names, self.opened = {name.partition(".")[0] for name in self.opened}, []
        return names


def of_many_segments(store: FakeStore) -> PartitionLog:
    """A record in each; the timestamps go up by ten."""
    log = load(store, config=LogConfig())
    for number in range(SEGMENTS):
        append(log, batch(1, timestamp=NOW + 10 * number))
        log.roll(log.log_end_offset, NOW)
    return log


def searched(search: Callable[[], FoundOffset | None]) -> tuple[FoundOffset | None, int]:
    """What is found, and after how many steps."""
    for steps in range(1, 100):
        with suppress(SearchPaused):
            return search(), steps
    raise AssertionError("a search comes to an end")


def test_search_by_time_over_many_segments_goes_in_steps_and_keeps_few_of_them() -> None:
    log = of_many_segments(FakeStore())
    store = OpenedNames(log.store)  # type: ignore[arg-type]
    reader = LogReader(store, log.manifest())
    last = NOW + 10 * (SEGMENTS - 1)
    with pytest.raises(SearchPaused):
        reader.offset_for_timestamp(last, log.log_end)
    assert len(store.take_segments()) == SEGMENTS_A_STEP
    found, steps = searched(lambda: reader.offset_for_timestamp(last, log.log_end))
    assert found == FoundOffset(last, SEGMENTS - 1, 0)
    assert steps == SEGMENTS // SEGMENTS_A_STEP
    assert len(reader._segments) <= MAX_OPEN_SEGMENTS


def test_second_search_by_time_opens_the_segment_that_it_finds_and_the_newest() -> None:
    log = of_many_segments(FakeStore())
    store = OpenedNames(log.store)  # type: ignore[arg-type]
    reader = LogReader(store, log.manifest())
    newest = searched(lambda: reader.max_timestamp(log.log_end))[0]
    assert newest == FoundOffset(NOW + 10 * (SEGMENTS - 1), SEGMENTS - 1, 0)
    store.take_segments()
    assert reader.offset_for_timestamp(NOW + 95, log.log_end) == FoundOffset(NOW + 100, 10, 0)
    assert reader.max_timestamp(log.log_end) == newest
    assert len(store.take_segments()) <= 3


def test_what_a_reader_apart_has_learnt_the_reader_knows() -> None:
    log = of_many_segments(FakeStore())
    reader = LogReader(log.store, log.manifest())
    searched(lambda: reader.with_store(log.store).max_timestamp(log.log_end))
    assert len(reader.facts.max_timestamps) == SEGMENTS


def test_later_generation_takes_over_what_is_known_of_its_segments() -> None:
    log = of_many_segments(FakeStore())
    old = LogReader(log.store, log.manifest())
    searched(lambda: old.max_timestamp(log.log_end))
    old.aborted(0, Extent(0, 0, 1), log.log_end)
    log.advance_high_watermark(log.log_end_offset)
    for effect in delete_segments(log, 100, NOW):
        remove_files(log, effect)
    log.roll(log.log_end_offset, NOW)
    store = OpenedNames(log.store)  # type: ignore[arg-type]
    new = LogReader(store, log.manifest())
    new.facts.inherit(old.facts, old.manifest, new.manifest)
    first = new.manifest.segment_bases[0]
    assert 0 < first == min(new.facts.max_timestamps)
    assert new.max_timestamp(log.log_end) == FoundOffset(NOW + 10 * (SEGMENTS - 1), SEGMENTS - 1, 0)
    assert new.aborted(first, Extent(first, 0, 1), log.log_end) == []
    assert len(store.take_segments()) <= 3


def test_log_with_another_history_takes_nothing_over() -> None:
    log = of_many_segments(FakeStore())
    old = LogReader(log.store, log.manifest())
    searched(lambda: old.max_timestamp(log.log_end))
    other = replace(log.manifest(), epochs=((0, 0), (1, 50)))
    new = LogReader(log.store, other)
    new.facts.inherit(old.facts, old.manifest, other)
    assert new.facts.max_timestamps == {}


def test_segments_without_aborted_transactions_are_looked_at_once() -> None:
    log = of_many_segments(FakeStore())
    store = OpenedNames(log.store)  # type: ignore[arg-type]
    reader = LogReader(store, log.manifest())
    assert reader.aborted(0, Extent(0, 0, 1), log.log_end) == []
    assert len(store.take_segments()) == SEGMENTS + 1
    assert reader.aborted(1, Extent(1, 0, 1), log.log_end) == []
    assert len(store.take_segments()) <= 2


def test_reader_that_goes_through_many_segments_keeps_few_of_them() -> None:
    log = of_many_segments(FakeStore())
    reader = LogReader(log.store, log.manifest())
    for offset in range(SEGMENTS):
        assert fetched(reader, reader.locate(offset, log.log_end, 100)) == [(offset, offset)]
    assert len(reader._segments) <= MAX_OPEN_SEGMENTS
