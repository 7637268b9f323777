"""Looking up and appending index entries."""

from kafkad.core.log.segments.index import (
    FLUSH_ENTRIES,
    OFFSET_ENTRY,
    TIME_ENTRY,
    IndexAppender,
    TimestampOffset,
    last_timestamp,
    lookup_timestamp,
    used_entries,
)
from tests.core.log.fake_store import FakeFile, FakeStore

BASE = 1000


def index(content: bytes, zero_entries: int = 0, entry_size: int = 8) -> FakeFile:
    store = FakeStore()
    store.replace("index", content + bytes(zero_entries * entry_size))
    return store.open("index")


def test_a_timestamp_is_looked_up_in_many_pages() -> None:
    content = b"".join(TIME_ENTRY.pack(10 * n, n) for n in range(1, 3000))
    file = index(content, 100, 12)
    assert lookup_timestamp(file, file.size(), BASE, 5) == TimestampOffset(-1, BASE)
    for n in (1, 340, 341, 342, 2999):
        assert lookup_timestamp(file, file.size(), BASE, 10 * n + 9) == TimestampOffset(10 * n, BASE + n)
    assert last_timestamp(file, file.size(), BASE) == TimestampOffset(29990, BASE + 2999)


def test_entries_are_written_several_at_once_and_the_file_is_preallocated() -> None:
    store = FakeStore()
    file = store.open("index", create=True)
    appender = IndexAppender(file, OFFSET_ENTRY, max_bytes=1003)
    for number in range(FLUSH_ENTRIES - 1):
        appender.append(number + 1, number + 1)
    assert store.sizes()["index"] == 0
    appender.append(FLUSH_ENTRIES, FLUSH_ENTRIES)
    assert store.sizes()["index"] == 1000
    assert used_entries(file, 1000, OFFSET_ENTRY) == FLUSH_ENTRIES
    appender.append(100, 100)
    appender.trim()
    assert store.sizes()["index"] == (FLUSH_ENTRIES + 1) * 8
    assert appender.free_entries == 1003 // 8 - FLUSH_ENTRIES - 1


def test_truncating_an_index_forgets_written_and_buffered_entries() -> None:
    store = FakeStore()
    appender = IndexAppender(store.open("index", create=True), OFFSET_ENTRY, max_bytes=1000)
    for number in range(1, 20):
        appender.append(number, number)
    appender.truncate_to_entries(5)
    assert appender.last == (5, 5)
    assert appender.entries == 5
    appender.truncate_to_entries(0)
    assert (appender.last, store.sizes()["index"]) == ((-1, -1), 0)
