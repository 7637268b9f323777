"""The arena: slices of memory that another process sees, and memory that is given back."""

import os

from kafkad.adapters.shared_memory.arena import REQUEST_SLACK, Arena, arena_bytes
from kafkad.adapters.shared_memory.shared_region import SharedRegion

MB = 1 << 20


def resident_bytes(name: str) -> int:
    """What the region's pages cost now, from /proc/self/smaps."""
    inside = False
    for line in open("/proc/self/smaps"):  # noqa: SIM115
        if "-" in line.split()[0] and not line.split()[0].endswith(":"):
            inside = f"kafkad-{name}" in line
        elif inside and line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no region {name}")


def test_largest_legal_request_fits_an_empty_arena() -> None:
    largest = 100 * MB
    arena = Arena(SharedRegion("test-largest", arena_bytes(16 * MB, largest)))
    assert arena.reserve(largest + REQUEST_SLACK // 2) == 0


def test_configured_size_counts_when_it_is_larger() -> None:
    assert arena_bytes(512 * MB, 100 * MB) == 512 * MB


def test_bytes_written_by_one_process_are_seen_by_another() -> None:
    arena = Arena(SharedRegion("test-shared", MB))
    offset = arena.reserve(5)
    assert offset is not None
    pid = os.fork()
    if pid == 0:
        arena.view[offset : offset + 5] = b"hello"
        os._exit(0)
    os.waitpid(pid, 0)
    assert bytes(arena.view[offset : offset + 5]) == b"hello"


def test_untouched_arena_costs_nothing() -> None:
    region = SharedRegion("test-sparse", 4096 * MB)
    assert resident_bytes("test-sparse") == 0
    region.close()


def test_trim_gives_back_what_a_burst_touched() -> None:
    arena = Arena(SharedRegion("test-burst", 64 * MB))
    offset = arena.reserve(8 * MB)
    assert offset == 0
    arena.view[: 8 * MB] = bytes(8 * MB)
    assert arena.trim(MB) == 0, "nothing is taken away while it is lent out"
    arena.release(0)
    assert arena.trim(MB) == 7 * MB
    assert resident_bytes("test-burst") == MB


def test_counts_follow_reservations() -> None:
    arena = Arena(SharedRegion("test-counts", MB))
    assert arena.is_empty and arena.free_bytes == arena.size == MB
    arena.reserve(100)
    assert arena.used_bytes == 128 and not arena.is_empty
