"""The two clocks in milliseconds: one for deadlines, which never goes back, and one for what is written down."""

import time


def monotonic_ms() -> int:
    """The same in all processes of a machine, so that they can tell each other deadlines."""
    return time.monotonic_ns() // 1_000_000


def wall_clock_ms() -> int:
    """Since 1970, as in records and in everything that outlives the broker."""
    return time.time_ns() // 1_000_000
