"""What does an append answer?"""

from typing import NamedTuple


class AppendInfo(NamedTuple):
    """The result of an append. A tuple, because one is made per produced batch."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
