"""A record as every client can express it."""

import time
from dataclasses import dataclass, field

AN_HOUR_AGO_MS = time.time_ns() // 1_000_000 - 3_600_000
"""When records were made that do not say otherwise: not now, and not so long ago that retention takes them."""


@dataclass(frozen=True, slots=True)
class Record:
    """What was sent, and what has to come back; `timestamp` in milliseconds."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = field(default=())
    timestamp: int = AN_HOUR_AGO_MS
