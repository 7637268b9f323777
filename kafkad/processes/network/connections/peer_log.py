"""Log lines about peers that are closed or refused: one for each address and minute, then a count."""

import logging

from kafkad.core.connections.peer_complaints import PeerComplaints

log = logging.getLogger(__name__)


class PeerLog:
    """The log lines that any peer can cause. One object for the process: acceptor and connections share the minute."""

    def __init__(self) -> None:
        self._complaints = PeerComplaints()

    def warn(self, host: str, now_ms: int, message: str, *args: object) -> None:
        self.tick(now_ms)
        if self._complaints.may_log(host, now_ms):
            log.warning(message, *args)

    def closing(self, host: str, now_ms: int, peer: str, reason: str) -> None:
        self.warn(host, now_ms, "closing the connection from %s: %s", peer, reason)

    def tick(self, now_ms: int) -> None:
        """Log the counts of minutes that are over."""
        _say(self._complaints.over(now_ms))

    def close(self) -> None:
        _say(self._complaints.end())

    @property
    def next_ms(self) -> int | None:
        return self._complaints.next_ms


def _say(counts: list[tuple[str, int]]) -> None:
    for peer, count in counts:
        log.warning("%d more connections from %s were closed or turned away in the minute after that", count, peer)


def reason_of(error: OSError) -> str | None:
    """The log text about a connection that broke; none about a peer that just disconnected."""
    return None if isinstance(error, ConnectionResetError | BrokenPipeError) else str(error)
