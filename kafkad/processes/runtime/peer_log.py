"""Log lines that peers cause: a limited number for each address and minute, then a count."""

import logging

from kafkad.core.connections.peer_log_rate_limit import PeerLogRateLimit

log = logging.getLogger(__name__)

EVENTS_A_MINUTE = 20
"""The limit for groups and transactions. A rebalance has two or three lines."""


class PeerLog:
    """Lines of one kind, logged at `level`; `others` is the format of the line with a count and an address."""

    def __init__(self, level: int, others: str, *, lines: int = 1) -> None:
        self._level = level
        self._others = others
        self._log_rate_limit = PeerLogRateLimit(lines=lines)

    def log(self, host: str, now_ms: int, message: str, *args: object) -> None:
        self.tick(now_ms)
        if self._log_rate_limit.may_log(host, now_ms):
            log.log(self._level, message, *args)

    def closing(self, host: str, now_ms: int, peer: str, reason: str) -> None:
        self.log(host, now_ms, "closing the connection from %s: %s", peer, reason)

    def tick(self, now_ms: int) -> None:
        """Log the counts of past minutes."""
        self._log_counts(self._log_rate_limit.over(now_ms))

    def close(self) -> None:
        self._log_counts(self._log_rate_limit.end())

    @property
    def next_ms(self) -> int | None:
        return self._log_rate_limit.next_ms

    def _log_counts(self, counts: list[tuple[str, int]]) -> None:
        for peer, count in counts:
            log.log(self._level, self._others, count, peer)


def closed_connections_log() -> PeerLog:
    """Closed or rejected connections: one line a minute for each address."""
    return PeerLog(logging.WARNING, "%d more connections from %s were closed or rejected in the minute after that")


def events_of_coordinators() -> PeerLog:
    """Events of groups and transactions."""
    others = "%d more events of groups and transactions were caused by %s in the minute after that"
    return PeerLog(logging.INFO, others, lines=EVENTS_A_MINUTE)


def reason_of(error: OSError) -> str | None:
    """The log text for a failed connection; None if the peer only disconnected."""
    return None if isinstance(error, ConnectionResetError | BrokenPipeError) else str(error)
