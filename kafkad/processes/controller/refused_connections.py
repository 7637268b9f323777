"""Detects failed brokers before their sessions expire: their hosts refuse connections.

One idle connection to each watched broker is kept open. When it is closed, it is opened again; when the host has
refused connections for `kafkad.suspect.refused.ms`, no process listens there. This applies only after a first response:
Apache Kafka registers half a second before it listens.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.processes.runtime.broker_connections import (
    FIRST_PAUSE_MS,
    LONGEST_PAUSE_MS,
    BrokerConnections,
    Destination,
    Request,
)
from kafkad.processes.runtime.connection_timeouts import ConnectionTimeouts
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.wire.api_table import API_VERSIONS


@dataclass(frozen=True, slots=True)
class Watched:
    """A broker at its address. With another `epoch` it is a new incarnation without a first response."""

    destination: Destination
    epoch: int


def watched_brokers(registered: Mapping[int, tuple[int, tuple[str, int]]], own_id: int) -> list[Watched]:
    """All other registered brokers."""
    others = {each: at for each, at in registered.items() if each != own_id}
    return [Watched(Destination(each, *at), epoch) for each, (epoch, at) in others.items()]


@dataclass(slots=True)
class _State:
    has_replied: bool = False
    refused_since_ms: int | None = None
    is_suspect: bool = False


class RefusedConnections:
    """Call `tick` in each pass of the loop; it may sleep until `next_deadline_ms`."""

    def __init__(
        self,
        loop: EventLoop,
        client_id: str,
        timeouts: ConnectionTimeouts,
        log_rate_limit: LogRateLimit,
        suspect_after_ms: int,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._connections = BrokerConnections(loop, client_id, timeouts, clock, self._closed, log_rate_limit)
        self._suspect_after_ms = suspect_after_ms
        self._clock = clock
        self._states: dict[Destination, tuple[Watched, _State]] = {}
        self._suspects: list[Watched] = []
        self._recovered: list[Watched] = []

    def take_suspects(self) -> list[Watched]:
        """The brokers that refuse connections. Each is listed again once a second, until it has recovered."""
        suspects, self._suspects = self._suspects, []
        return suspects

    def take_recovered(self) -> list[Watched]:
        """The brokers that have responded."""
        recovered, self._recovered = self._recovered, []
        return recovered

    def watch(self, brokers: Collection[Watched]) -> None:
        """Watch exactly these brokers; none if the timeout is 0."""
        if self._suspect_after_ms == 0:
            return
        for to, (watched, _) in list(self._states.items()):
            if watched not in brokers:
                del self._states[to]
                self._connections.drop(to)
        for watched in brokers:
            if watched.destination not in self._states:
                self._states[watched.destination] = (watched, _State())
                self._send_request(watched.destination, FIRST_PAUSE_MS)

    def _send_request(self, to: Destination, longest_pause_ms: int) -> None:
        watched, state = self._states[to]
        self._connections.send(
            to,
            Request(
                api_key=API_VERSIONS,
                version=0,
                is_flexible=False,
                body=b"",
                on_reply=lambda _body: self._on_reply(watched, state),
                on_failure=lambda _reason: None,
                on_refused=lambda: self._refused(watched, state),
                repeats=True,
                longest_pause_ms=longest_pause_ms,
            ),
        )

    def _closed(self, to: Destination) -> None:
        if to in self._states:
            self._send_request(to, FIRST_PAUSE_MS)

    def _on_reply(self, watched: Watched, state: _State) -> None:
        state.has_replied, state.refused_since_ms, state.is_suspect = True, None, False
        self._recovered.append(watched)

    def _refused(self, watched: Watched, state: _State) -> None:
        if not state.has_replied:
            return
        now_ms = self._clock()
        if state.refused_since_ms is None:
            state.refused_since_ms = now_ms
        if now_ms - state.refused_since_ms < self._suspect_after_ms:
            return
        if not state.is_suspect:
            # From now on with a longer backoff.
            state.is_suspect = True
            self._connections.drop(watched.destination)
            self._send_request(watched.destination, LONGEST_PAUSE_MS)
        self._suspects.append(watched)

    def tick(self) -> None:
        self._connections.tick()

    @property
    def next_deadline_ms(self) -> int | None:
        return self._connections.next_deadline_ms

    def close(self) -> None:
        self._states.clear()
        self._connections.close()
