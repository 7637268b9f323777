"""A bit that has flipped in an index shows nobody other records, and the index is made anew."""

from collections import deque
from collections.abc import Iterator
from copy import deepcopy

import pytest

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.reading.log_reader import FoundOffset, LogReader
from kafkad.core.log.records.batch import CorruptBatch, read_header
from kafkad.core.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from kafkad.core.log.segments.index_repair import BATCHES_A_STEP, repair_indexes
from kafkad.core.log.segments.indexed_batches import WrongIndex
from kafkad.core.log.segments.layout import LOG, OFFSET_INDEX, TIME_INDEX, file_name
from kafkad.core.log.segments.removal import truncate_to
from kafkad.core.log.segments.segment import Segment
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import NoSpaceLeft
from tests.core.log.batches import NOW, SMALL, append, batch, load
from tests.core.log.fake_store import FakeStore
from tests.core.log.log_content import check_indexes

BATCHES = 30
RECORDS = 3 * BATCHES
EACH_MS = 10
SMALL_INTERVALS = LogConfig(segment_bytes=1 << 20, index_interval_bytes=500, segment_index_bytes=1 << 16)


def _closed() -> FakeStore:
    """A log of several segments, closed cleanly; the times of its batches ascend."""
    store = FakeStore()
    log = load(store)
    for number in range(BATCHES):
        append(log, batch(3, timestamp=NOW + EACH_MS * number))
    log.close()
    return store


def _opened(store: FakeStore) -> PartitionLog:
    log = load(store, was_clean=True)
    log.advance_high_watermark(log.log_end_offset)
    return log


STORE = _closed()
BASES = _opened(deepcopy(STORE)).segments.base_offsets


def _flips(kind: str, base: int, every: int = 1) -> Iterator[FakeStore]:
    name = file_name(base, kind)
    for bit in range(0, 8 * STORE.sizes()[name], every):
        store = deepcopy(STORE)
        store.flip_bit(name, bit // 8, bit % 8)
        yield store


def _mend(log: PartitionLog, base: int) -> str:
    segment = log.segments.floor(base)
    assert segment is not None
    return _mended(segment, is_active=segment is log.segments.active)


def _mended(segment: Segment, *, is_active: bool) -> str:
    steps = repair_indexes(segment, SMALL.index_interval_bytes, is_active=is_active)
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            assert isinstance(finished.value, str)
            return finished.value


def _first_offset(reader: LogReader, log: PartitionLog, offset: int) -> int:
    extent = reader.locate(offset, log.log_end, 1)
    assert extent.length > 0
    return read_header(reader.log_file(extent.segment_base).read_at(extent.length, extent.position)).base_offset


@pytest.mark.parametrize("base", [BASES[1], BASES[-1]], ids=["sealed", "active"])
def test_a_reader_is_told_of_a_wrong_offset_entry_or_gets_the_right_records(base: int) -> None:
    doubts = 0
    for store in _flips(OFFSET_INDEX, base):
        log = _opened(store)
        reader = LogReader(store, log.manifest())
        for offset in range(RECORDS):
            try:
                assert _first_offset(reader, log, offset) == offset - offset % 3
            except WrongIndex as error:
                assert error.base_offset == base
                doubts += 1
                assert _mend(log, base)
                reader = LogReader(store, log.manifest())
                assert _first_offset(reader, log, offset) == offset - offset % 3
    assert doubts > 30


@pytest.mark.parametrize("base", [BASES[1], BASES[-1]], ids=["sealed", "active"])
def test_a_search_by_time_is_told_of_a_wrong_time_entry_or_finds_the_right_record(base: int) -> None:
    doubts = 0
    for store in _flips(TIME_INDEX, base):
        log = _opened(store)
        reader = LogReader(store, log.manifest())
        for number in range(BATCHES):
            try:
                found = reader.offset_for_timestamp(NOW + EACH_MS * number, log.log_end)
            except WrongIndex as error:
                assert error.base_offset == base
                doubts += 1
                assert _mend(log, base)
                reader = LogReader(store, log.manifest())
                found = reader.offset_for_timestamp(NOW + EACH_MS * number, log.log_end)
            assert found == FoundOffset(NOW + EACH_MS * number, 3 * number, 0)
        newest = reader.max_timestamp(log.log_end)
        assert newest == FoundOffset(NOW + EACH_MS * (BATCHES - 1) + 2, RECORDS - 1, 0)
    assert doubts > 30


@pytest.mark.parametrize("kind", [OFFSET_INDEX, TIME_INDEX])
@pytest.mark.parametrize("base", [BASES[1], BASES[-1]], ids=["sealed", "active"])
def test_the_owner_knows_the_place_of_each_offset_and_the_age_of_each_segment(kind: str, base: int) -> None:
    right = _opened(deepcopy(STORE))
    places = [right.position_of(offset) for offset in range(RECORDS + 1)]
    ages = [segment.load_max_timestamp() for segment in right.segments]
    for store in _flips(kind, base):
        log = _opened(store)
        assert [log.position_of(offset) for offset in range(RECORDS + 1)] == places
        assert [segment.load_max_timestamp() for segment in log.segments] == ages


def test_an_index_of_which_nothing_is_right_costs_few_looks() -> None:
    store = deepcopy(STORE)
    log = _opened(store)
    place = log.position_of(BASES[2] - 1)
    name = file_name(BASES[1], OFFSET_INDEX)
    store.replace(name, b"".join(OFFSET_ENTRY.pack(number + 1, 7) for number in range(10_000)))
    log = _opened(store)
    store.reads = 0
    assert log.position_of(BASES[2] - 1) == place
    assert store.reads < 300


def test_a_log_is_truncated_where_the_batch_begins() -> None:
    for store in _flips(OFFSET_INDEX, BASES[-1]):
        log = _opened(store)
        offset = BASES[-1] + 6
        truncate_to(log, offset, NOW)
        assert log.log_end_offset == offset
        append(log, batch(3, timestamp=NOW))
        assert log.segments.active.next_offset() == offset + 3


def test_a_sealed_segment_with_a_wrong_index_does_not_keep_the_log_offline() -> None:
    """The last batch is looked up in it, as the active one is empty and there is no snapshot of its producers."""
    store = deepcopy(STORE)
    log = _opened(store)
    log.roll(log.log_end_offset, NOW)
    log.close()
    for name in [name for name in store.names() if name.endswith(".snapshot")]:
        store.unlink(name)
    name = file_name(BASES[-1], OFFSET_INDEX)
    store.replace(name, store.read(name)[:-4] + (1 << 30).to_bytes(4, "big"))
    assert _opened(store).log_end_offset == RECORDS


def test_what_was_wrong_is_named_and_both_indexes_are_right_again() -> None:
    store = deepcopy(STORE)
    name = file_name(BASES[1], OFFSET_INDEX)
    store.flip_bit(name, 7, 0)
    before = STORE.read(name), STORE.read(file_name(BASES[1], TIME_INDEX))
    log = _opened(store)
    assert _mend(log, BASES[1]).startswith(f"{name}, entry 0: offset ")
    assert (store.read(name), store.read(file_name(BASES[1], TIME_INDEX))) == before
    check_indexes(store)


def test_indexes_that_are_right_stay_and_are_not_compared_again() -> None:
    log = _opened(deepcopy(STORE))
    store = log.store
    assert isinstance(store, FakeStore)
    changes = store.changes
    assert [_mend(log, base) for base in BASES] == [""] * len(BASES)
    assert store.changes == changes
    assert all(segment.is_index_checked for segment in log.segments)


def test_an_active_segment_grows_while_its_indexes_are_made_anew() -> None:
    store = FakeStore()
    log = load(store, config=SMALL_INTERVALS)
    for number in range(2 * BATCHES_A_STEP):
        append(log, batch(1, timestamp=NOW + number))
    log.close()
    store.flip_bit(file_name(0, OFFSET_INDEX), 7, 1)
    log = load(store, config=SMALL_INTERVALS, was_clean=True)
    steps = repair_indexes(log.segments.active, SMALL_INTERVALS.index_interval_bytes, is_active=True)
    for number in range(2 * BATCHES_A_STEP, 2 * BATCHES_A_STEP + 50):
        next(steps, None)
        append(log, batch(1, timestamp=NOW + number))
    deque(steps, maxlen=0)
    for number in range(2 * BATCHES_A_STEP + 50, 2 * BATCHES_A_STEP + 100):
        append(log, batch(1, timestamp=NOW + number))
    log.close()
    assert check_indexes(store) > 100
    log = load(store, config=SMALL_INTERVALS, was_clean=True)
    reader = LogReader(store, log.manifest())
    assert [_first_offset(reader, log, offset) for offset in range(0, log.log_end_offset, 7)] == list(
        range(0, log.log_end_offset, 7)
    )


def test_what_is_behind_a_damaged_batch_is_still_found() -> None:
    """The entry of the damaged batch is not what is wrong."""
    store = deepcopy(STORE)
    index = store.read(file_name(BASES[1], OFFSET_INDEX))
    entries = list(OFFSET_ENTRY.iter_unpack(index))
    store.flip_bit(file_name(BASES[1], LOG), entries[1][1] + 16, 3)
    log = _opened(store)
    reader = LogReader(store, log.manifest())
    for offset in range(BASES[1] + entries[1][0], BASES[1] + entries[2][0]):
        with pytest.raises((WrongIndex, CorruptBatch)):
            reader.locate(offset, log.log_end, 1)
    assert _mend(log, BASES[1]) == ""
    assert _first_offset(reader, log, BASES[1] + entries[2][0]) == BASES[1] + entries[2][0] - 2
    store.flip_bit(file_name(BASES[1], OFFSET_INDEX), 7, 0)
    log = _opened(store)
    assert _mend(log, BASES[1])
    reader = LogReader(store, log.manifest())
    assert _first_offset(reader, log, BASES[2] - 1) == BASES[2] - 3


def test_entries_as_apache_kafka_wrote_them_for_appends_of_several_batches_are_right() -> None:
    """Before 4.0: the last offset of all, with the position of the first batch."""
    store = deepcopy(STORE)
    name = file_name(BASES[1], OFFSET_INDEX)
    entries = [(relative + 3, position) for relative, position in OFFSET_ENTRY.iter_unpack(store.read(name))]
    store.replace(name, b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries))
    log = _opened(store)
    reader = LogReader(store, log.manifest())
    assert [_first_offset(reader, log, offset) for offset in range(0, RECORDS, 3)] == list(range(0, RECORDS, 3))
    assert _mend(log, BASES[1]) == ""


def test_a_time_index_that_lacks_its_end_is_made_anew() -> None:
    store = deepcopy(STORE)
    name = file_name(BASES[1], TIME_INDEX)
    whole = store.read(name)
    store.replace(name, whole[: -TIME_ENTRY.size])
    assert "ends with time" in _mend(_opened(store), BASES[1])
    assert store.read(name) == whole


def test_without_room_the_old_files_stay() -> None:
    store = deepcopy(STORE)
    store.flip_bit(file_name(BASES[1], OFFSET_INDEX), 7, 0)
    log = _opened(store)

    def full(name: str, content: bytes) -> None:
        raise NoSpaceLeft("told to be full")

    store.replace = full  # type: ignore[method-assign]
    with pytest.raises(NoSpaceLeft):
        _mend(log, BASES[1])
    assert log.position_of(BASES[2] - 1) == _opened(deepcopy(STORE)).position_of(BASES[2] - 1)
