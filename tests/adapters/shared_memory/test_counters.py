"""Counters: one writer for each block, readers that sum, roles that outlive their processes."""

import os
from collections.abc import Iterator

import pytest

from kafkad.adapters.shared_memory.counters import COUNTERS_BYTES, WORDS_PER_BLOCK, Counters
from kafkad.adapters.shared_memory.process_registry import PROCESS_SLOTS
from kafkad.adapters.shared_memory.shared_region import SharedRegion


@pytest.fixture
def counters() -> Iterator[Counters]:
    region = SharedRegion("test-counters", COUNTERS_BYTES)
    yield Counters(region)
    region.close()


def test_sum_is_over_all_processes(counters: Counters) -> None:
    for slot in (0, 5, PROCESS_SLOTS - 1):
        counters.block(slot)[WORDS_PER_BLOCK - 1] += slot + 1
    assert counters.sum(WORDS_PER_BLOCK - 1) == 1 + 6 + PROCESS_SLOTS
    assert counters.sum(0) == 0


def test_what_a_killed_process_counted_is_still_there(counters: Counters) -> None:
    pid = os.fork()
    if pid == 0:
        counters.block(2)[7] += 41
        os._exit(1)
    os.waitpid(pid, 0)
    block = counters.block(2)
    block[7] += 1
    assert counters.sum(7) == 42


def test_restart_zeroes_gauges_only(counters: Counters) -> None:
    block = counters.block(1)
    block[3], block[4] = 10, 20
    counters.block(2)[4] = 5
    counters.zero(1, [4])
    assert (counters.sum(3), counters.sum(4)) == (10, 5)


def test_block_of_a_slot_that_does_not_exist_is_refused(counters: Counters) -> None:
    with pytest.raises(AssertionError, match="process slot 64"):
        counters.block(PROCESS_SLOTS)
