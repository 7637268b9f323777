"""The two clocks in milliseconds: a monotonic one for deadlines, and the wall clock for stored times."""

import time


def monotonic_ms() -> int:
    """The same in all processes of a machine, so deadlines can be sent between them."""
    return time.monotonic_ns() // 1_000_000


def wall_clock_ms() -> int:
    """Since 1970, as in records and all other stored times."""
    return time.time_ns() // 1_000_000
