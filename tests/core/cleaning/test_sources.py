from kafkad.core.cleaning.sources import SourceSegment, group_segments
from kafkad.core.log.settings import LogConfig

CONFIG = LogConfig(segment_bytes=1000, segment_index_bytes=100)


def segment(base: int, size: int, index: int = 8, times: int = 12) -> SourceSegment:
    return SourceSegment(base_offset=base, size=size, index_bytes=index, time_index_bytes=times)


def groups(*segments: SourceSegment, end: int = 10**10) -> list[list[int]]:
    return [[each.base_offset for each in group] for group in group_segments(segments, CONFIG, end)]


def test_neighbours_are_grouped_up_to_the_size_of_a_segment() -> None:
    assert groups(segment(0, 500), segment(10, 500), segment(20, 1), segment(30, 999), end=40) == [[0, 10], [20, 30]]


def test_a_segment_that_is_too_large_is_a_group_of_its_own() -> None:
    assert groups(segment(0, 5000), segment(10, 1), end=20) == [[0], [10]]


def test_indexes_are_no_larger_than_they_may_be() -> None:
    assert groups(segment(0, 1, index=60), segment(10, 1, index=60), end=20) == [[0], [10]]
    assert groups(segment(0, 1, times=60), segment(10, 1, times=60), end=20) == [[0], [10]]


def test_offsets_of_a_group_fit_into_its_index() -> None:
    far = 2**31
    assert groups(segment(0, 1), segment(10, 1), end=far) == [[0, 10]]
    assert groups(segment(0, 1), segment(10, 1), end=far + 1) == [[0], [10]]
    # An empty segment has no offsets.
    assert groups(segment(0, 1), segment(10, 0), segment(far + 5, 1), end=far + 9) == [[0, 10], [far + 5]]


def test_no_more_segments_are_grouped_than_their_owner_replaces_in_one_go() -> None:
    grouped = groups(*(segment(number, 1, index=0, times=0) for number in range(150)), end=150)
    assert [len(group) for group in grouped] == [64, 64, 22]
