"""Python's wall clock, off by the milliseconds in the file that CHAOS_CLOCK names, in all processes that have it open.

In a folder of its own, because Python takes it from PYTHONPATH at its start; the monotonic clock does not jump.
"""

import mmap
import os
import time

with open(os.environ["CHAOS_CLOCK"], "r+b") as _file:
    _shift = mmap.mmap(_file.fileno(), 8)
_wall_ns = time.time_ns


def _shifted_ns() -> int:
    return _wall_ns() + int.from_bytes(_shift[:8], "little", signed=True) * 1_000_000


time.time_ns = _shifted_ns
time.time = lambda: _shifted_ns() / 1e9
