"""Throttles the copies of a worker to a common rate.

The copied bytes become due over time at the present rate, which may change while a copy waits.
"""

RATE_CHECK_MS = 1_000
"""The rate may change while the next piece waits because of it."""


class CopyRate:
    """The copied bytes that exceed the rate so far."""

    __slots__ = ("_at_ms", "_owed_bytes")

    def __init__(self) -> None:
        self._owed_bytes = self._at_ms = 0

    def copied(self, size: int, rate: int, now_ms: int) -> None:
        paid_bytes = max(0, now_ms - self._at_ms) * rate // 1000
        self._owed_bytes = max(0, self._owed_bytes - paid_bytes) + size
        self._at_ms = now_ms

    def due_ms(self, rate: int, now_ms: int) -> int:
        """When the next bytes may be copied; at most `RATE_CHECK_MS` ahead, when the caller checks again."""
        if rate <= 0:
            return now_ms + RATE_CHECK_MS
        return min(self._at_ms + self._owed_bytes * 1000 // rate, now_ms + RATE_CHECK_MS)
