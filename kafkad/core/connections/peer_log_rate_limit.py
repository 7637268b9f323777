"""Limits log lines about peers: the first lines within a minute are logged, later ones are counted.

A peer that is disconnected thousands of times a second must fill neither the log nor the memory: IPv6 peers are counted
by their /64 network, and peers beyond `MAX_PEERS` within a minute share one entry.
"""

from kafkad.core.connections.peer_address import network_of

QUIET_MS = 60_000
MAX_PEERS = 1_000
OTHERS = "other addresses"


class _Minute:
    __slots__ = ("ends_ms", "left", "suppressed")

    def __init__(self, ends_ms: int, left: int) -> None:
        self.ends_ms = ends_ms
        self.left = left
        self.suppressed = 0


class PeerLogRateLimit:
    """The peers with a line in the last minute, ordered by the end of their minute. `lines` are logged per peer."""

    def __init__(self, most_peers: int = MAX_PEERS, *, lines: int = 1) -> None:
        self._most_peers = most_peers
        self._lines = lines
        self._minutes: dict[str, _Minute] = {}
        self._suppressed = 0

    def __len__(self) -> int:
        return len(self._minutes)

    def may_log(self, host: str, now_ms: int) -> bool:
        """Whether to log this line; if not, it is counted. Call `over` first."""
        peer = network_of(host)
        minute = self._minutes.get(peer)
        if minute is None and len(self._minutes) >= self._most_peers:
            peer = OTHERS
            minute = self._minutes.get(peer)
        if minute is None:
            self._minutes[peer] = _Minute(now_ms + QUIET_MS, self._lines - 1)
            return True
        if minute.left > 0:
            minute.left -= 1
            return True
        minute.suppressed += 1
        self._suppressed += 1
        return False

    def over(self, now_ms: int) -> list[tuple[str, int]]:
        """(peer, number of suppressed lines) for minutes that have ended; removes them."""
        counts = []
        while self._minutes:
            peer, minute = next(iter(self._minutes.items()))
            if minute.ends_ms > now_ms:
                break
            counts += self._forget(peer, minute)
        return counts

    def end(self) -> list[tuple[str, int]]:
        """The same for all peers, when the process stops."""
        return [count for peer, minute in list(self._minutes.items()) for count in self._forget(peer, minute)]

    def _forget(self, peer: str, minute: _Minute) -> list[tuple[str, int]]:
        del self._minutes[peer]
        self._suppressed -= minute.suppressed
        return [(peer, minute.suppressed)] if minute.suppressed else []

    @property
    def next_ms(self) -> int | None:
        """The time of the next counts; None while no line is suppressed."""
        return next(iter(self._minutes.values())).ends_ms if self._suppressed else None
