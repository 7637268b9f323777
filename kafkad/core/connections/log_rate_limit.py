"""Limits repeated log lines to one per subject and minute."""

from collections.abc import Hashable

from kafkad.core.connections.peer_log_rate_limit import QUIET_MS

_MOST = 10_000


class LogRateLimit:
    """The subjects logged within the last minute."""

    __slots__ = ("_quiet_until_ms",)

    def __init__(self) -> None:
        self._quiet_until_ms: dict[Hashable, int] = {}

    def is_due(self, about: Hashable, now_ms: int) -> bool:
        """Whether to log now; then the subject is not due for a minute."""
        if now_ms < self._quiet_until_ms.get(about, now_ms):
            return False
        if len(self._quiet_until_ms) >= _MOST:
            self._quiet_until_ms.clear()
        self._quiet_until_ms[about] = now_ms + QUIET_MS
        return True
