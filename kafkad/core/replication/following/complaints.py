"""What goes wrong with leaders, for the broker's log: one line for each partition, cause and minute."""

from collections.abc import Hashable

QUIET_MS = 60_000
_MOST = 10_000


class Complaints:
    """Which lines are due."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: dict[Hashable, int] = {}

    def is_due(self, about: Hashable, now_ms: int) -> bool:
        """Whether to say it now; the same is not due again for a minute."""
        if now_ms < self._said.get(about, now_ms):
            return False
        if len(self._said) >= _MOST:
            self._said.clear()
        self._said[about] = now_ms + QUIET_MS
        return True
