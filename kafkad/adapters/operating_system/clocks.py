"""Two clocks in milliseconds: the monotonic clock for deadlines, and the wall clock for stored times."""

import time


def monotonic_ms() -> int:
    """The same in all processes of a machine, so deadlines can be sent between them."""
    return time.monotonic_ns() // 1_000_000


def wall_clock_ms() -> int:
    """Milliseconds since 1970, as in records and other stored times."""
    return time.time_ns() // 1_000_000
