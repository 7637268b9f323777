"""When do clients wait for room on a disk, and when may they go on?"""

import pytest

from kafkad.core.free_space import LEAST_BYTES, enough_free_bytes, is_short_of_space, least_free_bytes
from kafkad.core.types import FreeSpace

GB = 1 << 30


@pytest.mark.parametrize(
    ("configured", "total", "least"),
    [(None, 500 * GB, LEAST_BYTES), (None, GB, GB // 20), (None, 0, 0), (0, GB, 0), (5 * GB, GB, 5 * GB)],
)
def test_least_room_is_what_was_configured_or_what_suits_the_file_system(
    configured: int | None, total: int, least: int
) -> None:
    assert least_free_bytes(configured, total) == least


def test_directory_that_was_short_of_room_needs_more_than_the_limit() -> None:
    def is_short(free: int, was_short: bool) -> bool:
        return is_short_of_space(FreeSpace(free_bytes=free, total_bytes=GB), 1000, was_short=was_short)

    assert [is_short(free, False) for free in (999, 1000)] == [True, False]
    assert [is_short(free, True) for free in (1000, enough_free_bytes(1000) - 1, enough_free_bytes(1000))] == [
        True,
        True,
        False,
    ]


def test_without_a_limit_nothing_is_short_of_room() -> None:
    assert not is_short_of_space(FreeSpace(free_bytes=0, total_bytes=GB), 0, was_short=True)
