"""What does an append return?"""

from typing import NamedTuple


class AppendInfo(NamedTuple):
    """The result of an append. A tuple for speed: each produced batch makes one."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
