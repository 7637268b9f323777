"""A segment that was cut between two batches is found by where it ends and where the next one begins."""

from dataclasses import replace

import pytest

from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import read_header
from kafkad.core.log.segments.gaps import Gap, find_gaps
from kafkad.core.log.segments.layout import LOG, file_name
from kafkad.core.log.segments.removal import delete_records_before
from tests.core.log.batches import append, batch, load
from tests.core.log.fake_store import FakeStore

RECORDS = 3


@pytest.fixture
def store() -> FakeStore:
    """A log of several segments, closed cleanly."""
    store = FakeStore()
    log = load(store)
    while len(log.segments) < 4:
        append(log, batch(RECORDS))
    log.close()
    return store


def opened(store: FakeStore, *, was_clean: bool = True) -> PartitionLog:
    """All of it was synced."""
    log = load(store, was_clean=was_clean, recovery_point=1 << 40)
    log.advance_high_watermark(log.log_end_offset)
    return log


def cut(store: FakeStore, batches: int) -> Gap:
    """The last batches of the second segment go; returns what is missing then."""
    log = opened(store)
    segment, following = log.segments[1], log.segments[2]
    positions = []
    at = 0
    while at < segment.size:
        header = read_header(segment.log.read_at(segment.size - at, at))
        positions.append((at, header.base_offset))
        at += header.size
    position, offset = positions[-batches]
    name = file_name(segment.base_offset, LOG)
    store.open(name).truncate(position)
    return Gap(name, offset, following.base_offset)


def gaps(log: PartitionLog) -> list[Gap]:
    return [gap for gap in find_gaps(log) if gap is not None]


def test_a_log_that_is_whole_has_no_gap(store: FakeStore) -> None:
    log = opened(store)
    assert len([*find_gaps(log)]) == len(log.segments) - 1
    assert [*find_gaps(log)] == [], "each segment is looked at once"


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("was_clean", [True, False])
def test_a_cut_between_two_batches_is_a_gap(store: FakeStore, batches: int, was_clean: bool) -> None:
    missing = cut(store, batches)
    log = opened(store, was_clean=was_clean)
    assert gaps(log) == [missing]
    assert gaps(log) == []


def test_what_lies_below_the_log_start_is_not_missed(store: FakeStore) -> None:
    missing = cut(store, 1)
    log = opened(store)
    delete_records_before(log, missing.end)
    assert gaps(log) == []


def test_a_log_that_is_or_was_compacted_has_gaps_of_its_own(store: FakeStore) -> None:
    cut(store, 1)
    log = opened(store)
    log.update_config(replace(log.config, cleanup_policy=frozenset({"compact"})))
    assert gaps(log) == []
    log = opened(store)
    log.cleaned_offset = 0
    assert gaps(log) == []


def test_little_is_read(store: FakeStore) -> None:
    log = opened(store)
    before = store.read_bytes
    assert gaps(log) == []
    assert store.read_bytes - before < sum(segment.size for segment in log.segments)
