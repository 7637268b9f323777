"""A follower's log is its leader's, file by file, however an answer is cut; each segment costs one write an answer."""

from random import Random

import pytest

from kafkad.core.log.append_info import AppendInfo
from kafkad.core.log.coordinated import append_end_marker
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import NoSpaceLeft
from tests.core.log.batches import NOW, SMALL, append, batch, load
from tests.core.log.fake_store import FakeStore

ONE_SEGMENT = LogConfig(index_interval_bytes=200, segment_index_bytes=4096)
FEW_ENTRIES = LogConfig(segment_bytes=1 << 20, index_interval_bytes=1, segment_index_bytes=64)
SHORT_LIVED = LogConfig(segment_bytes=1 << 20, index_interval_bytes=200, segment_index_bytes=4096, segment_ms=1000)


class CountingStore(FakeStore):
    """How many writes the logs got."""

    def __init__(self) -> None:
        super().__init__()
        self.log_writes = 0

    def before_change(self, what: str) -> None:
        self.log_writes += what.startswith("write") and what.endswith(".log")
        super().before_change(what)


def fetched(log: PartitionLog) -> memoryview:
    """All that a leader has, in one answer."""
    parts = [segment.log.read_at(segment.size, 0) for segment in log.segments]
    return memoryview(bytearray(b"".join(parts)))


def follow(log: PartitionLog, records: memoryview) -> AppendInfo:
    return append_as_follower(log, records, leader_epoch=9, now_ms=NOW)


def test_many_batches_of_one_segment_are_one_write() -> None:
    leader = load(FakeStore(), config=ONE_SEGMENT)
    for _ in range(100):
        append(leader, batch())
    store = CountingStore()
    log = load(store, config=ONE_SEGMENT)
    follow(log, fetched(leader))
    assert (log.log_end_offset, store.log_writes) == (100, 1)


def test_each_segment_of_an_answer_is_one_write() -> None:
    leader = load(FakeStore())
    for _ in range(100):
        append(leader, batch())
    store = CountingStore()
    log = load(store)
    follow(log, fetched(leader))
    # The batch that begins a segment is written by itself.
    assert len(log.segments) == len(leader.segments) > 5
    assert store.log_writes <= 2 * len(log.segments)


def grow(leader: PartitionLog, random: Random) -> None:
    """Sixty batches: of nobody in particular, of a transactional producer, and markers that end its transactions."""
    epoch, at_ms, sequence, is_open = 0, NOW, 0, False
    for _ in range(60):
        epoch += random.random() < 0.05
        at_ms += random.choice((0, 1, 400))
        kind = random.random()
        if is_open and kind < 0.2:
            append_end_marker(
                leader,
                producer_id=5,
                producer_epoch=0,
                coordinator_epoch=0,
                commit=kind < 0.1,
                transaction_version=1,
                leader_epoch=epoch,
                now_ms=at_ms,
            )
            is_open = False
        elif kind < 0.4:
            made = batch(random.randint(1, 3), timestamp=at_ms, size=random.randint(1, 400))
            append(leader, made, epoch=epoch, now_ms=at_ms)
        else:
            made = batch(1, timestamp=at_ms, producer_id=5, sequence=sequence, is_transactional=True)
            guard = leader.producers.begin_verification(5, 0, sequence, at_ms, supports_epoch_bump=False)
            leader.append_as_leader(made, leader_epoch=epoch, now_ms=at_ms, produce_version=11, guard=guard)
            sequence, is_open = sequence + 1, True


def first_batch(content: memoryview) -> memoryview:
    return content[: 12 + int.from_bytes(content[8:12], "big")]


def follow_one_by_one(log: PartitionLog, content: memoryview) -> None:
    while content:
        size = len(first_batch(content))
        follow(log, content[:size])
        content = content[size:]


def follow_cut_anywhere(log: PartitionLog, content: memoryview, random: Random) -> None:
    """As fetches do that ask for some bytes, and for a whole batch where none fits into them."""
    at = 0
    while at < len(content):
        before = log.log_end_offset
        follow(log, content[at : at + random.randint(300, 5000)])
        if log.log_end_offset == before:
            follow(log, first_batch(content[at:]))
        at = sum(segment.size for segment in log.segments)


@pytest.mark.parametrize("config", [SMALL, FEW_ENTRIES, SHORT_LIVED], ids=["size", "index", "age"])
@pytest.mark.parametrize("seed", range(20))
def test_the_files_are_those_of_batches_that_came_one_by_one(seed: int, config: LogConfig) -> None:
    random = Random(seed)
    leader = load(FakeStore(), config=config)
    grow(leader, random)
    content = fetched(leader)
    stores = FakeStore(), FakeStore()
    one_by_one, cut = (load(store, config=config) for store in stores)
    follow_one_by_one(one_by_one, content)
    follow_cut_anywhere(cut, content, random)
    assert {name: stores[0].read(name) for name in stores[0].names()} == {
        name: stores[1].read(name) for name in stores[1].names()
    }
    assert cut.log_end == one_by_one.log_end


def test_a_disk_without_room_for_all_takes_what_fits() -> None:
    leader = load(FakeStore(), config=ONE_SEGMENT)
    for _ in range(20):
        append(leader, batch())
    content = fetched(leader)
    store = FakeStore()
    log = load(store, config=ONE_SEGMENT)
    size = len(content) // 20
    store.full_for, store.free_bytes = None, size * 5 + size // 2
    with pytest.raises(NoSpaceLeft):
        follow(log, content)
    assert log.log_end_offset == 5
    store.free_bytes = None
    follow(log, content[5 * size :])
    assert fetched(log) == content
