"""The kept page answers as the whole index would, however the index grows between two look-ups."""

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.log.segments.index import OFFSET_ENTRY, OffsetPosition, used_entries
from kafkad.core.log.segments.offset_lookup import OffsetLookup
from kafkad.core.ports import LogFile
from tests.core.log.fake_store import FakeStore

BASE = 1000


class _CountingFile:
    """A file that counts how often it was read."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self.reads = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def read_at(self, size: int, position: int) -> bytes:
        self.reads += 1
        return self._file.read_at(size, position)


def _file(offsets: list[int], zero_entries: int) -> LogFile:
    store = FakeStore()
    content = b"".join(OFFSET_ENTRY.pack(offset, number + 1) for number, offset in enumerate(offsets))
    store.replace("index", content + bytes(zero_entries * OFFSET_ENTRY.size))
    return store.open("index")


def _expected(offsets: list[int], target: int) -> OffsetPosition:
    number = bisect_right(offsets, target) - 1
    return OffsetPosition(BASE, 0) if number < 0 else OffsetPosition(BASE + offsets[number], number + 1)


@given(
    st.lists(st.integers(1, 2**31 - 1), unique=True, max_size=2000).map(sorted),
    st.lists(st.integers(-5, 2**31), min_size=1),
    st.sampled_from([0, 1, 600]),
)
def test_the_greatest_entry_at_or_below_is_found(offsets: list[int], targets: list[int], zero_entries: int) -> None:
    file = _file(offsets, zero_entries)
    lookup = OffsetLookup(file, BASE)
    for target in targets:
        assert lookup.at_or_before(BASE + target) == _expected(offsets, target)
    assert used_entries(file, file.size(), OFFSET_ENTRY) == len(offsets)


@given(
    st.lists(st.integers(1, 700), min_size=1, max_size=6),
    st.lists(st.integers(0, 12_000), min_size=1, max_size=6),
)
def test_what_was_added_since_the_last_look_up_is_found(grown_by: list[int], targets: list[int]) -> None:
    preallocated = sum(grown_by) + 5
    file = _file([], preallocated)
    lookup = OffsetLookup(file, BASE)
    offsets: list[int] = []
    for more, target in zip(grown_by, targets, strict=False):
        for _ in range(more):
            offsets.append(3 * len(offsets) + 2)
            file.write_at((OFFSET_ENTRY.pack(offsets[-1], len(offsets)),), (len(offsets) - 1) * OFFSET_ENTRY.size)
        for asked in (target, offsets[-1], offsets[-1] + 1, target):
            assert lookup.at_or_before(BASE + asked) == _expected(offsets, asked)


def test_a_reader_that_goes_forward_reads_each_page_about_once() -> None:
    offsets = list(range(2, 8000, 2))
    file = _CountingFile(_file(offsets, 300_000))
    lookup = OffsetLookup(file, BASE)  # type: ignore[arg-type]
    for target in range(8000):
        assert lookup.at_or_before(BASE + target) == _expected(offsets, target)
    pages = len(offsets) * OFFSET_ENTRY.size // 4096 + 1
    assert file.reads <= 32 * pages
