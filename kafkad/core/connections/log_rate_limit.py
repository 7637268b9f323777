"""Log lines that would be written again and again while something goes wrong: each at most once a minute."""

from collections.abc import Hashable

from kafkad.core.connections.peer_log_rate_limit import QUIET_MS

_MOST = 10_000


class LogRateLimit:
    """What was said within the last minute."""

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
