"""The event loop of a process: one epoll over its descriptors and links, without polling.

ZeroMQ's descriptor is edge-triggered: a send or a partial read may consume the edge of a received message. So each used
link is checked again before every wait, and a pass with input left does not sleep. Callbacks handle the events.
"""

import select
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol

from kafkad import standard_streams
from kafkad.adapters.links.messaging import Link
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.metrics.catalogue import BLOCK_WORDS, BUSY_NS, error_index
from kafkad.wire import error_counts

IDLE = -1
"""No deadline: sleep until an event."""


class Inbox(Protocol):
    """A source of messages without a descriptor of its own: the rings in shared memory."""

    fd: int
    """An edge when a sender wakes the sleeping process; it is not read."""

    def flush(self) -> bool:
        """Before a sleep: send queued messages; False when some must be retried soon."""

    def falls_asleep(self) -> bool:
        """Announce the sleep, then check once more: True when there is no message, so the process may sleep."""

    def wakes_up(self) -> None: ...

    def serve(self) -> int:
        """Call back with the received messages; returns the number of callbacks."""


HEARTBEAT_S = 2.0
"""The longest time between two heartbeats. The heartbeat is `block[BUSY_NS]`, which grows in each pass. An idle process
wakes up only for the heartbeat, for a dozen microseconds. When it stops, the supervisor treats the process as hung
(`kafkad.core.supervision.watchdog`).
"""
MAX_EVENTS_PER_PASS = 256
"""Descriptors handled in one pass. With thousands of ready ones, messages of other processes and new connections wait
for at most this many.
"""
_RETRY_MS = 1
"""How often a full ring is checked for free space while messages wait: its reader does not wake the writer."""
_FOREVER_S = float("inf")
_UNUSED_BLOCK: CounterBlock = memoryview(bytearray(8 * BLOCK_WORDS)).cast("Q")


def _ignore_edge(_events: int) -> None:
    """Every pass checks the inbox; the edge only ends the wait."""


class EventLoop:
    """`watch` descriptors, `watch_link` links, then `run_once` in a loop.

    `others(fd, events)` gets the events of descriptors that were registered with `epoll` directly: ten thousand
    connections without a callback each. `falls_asleep` is called right before each wait and `wakes_up` right after it,
    before any callback: between the two a network process uses no files of the owners (process registry, grace
    periods). `block` counts the time awake.
    """

    def __init__(
        self,
        others: Callable[[int, int], None] | None = None,
        *,
        falls_asleep: Callable[[], None] | None = None,
        wakes_up: Callable[[], None] | None = None,
        block: CounterBlock | None = None,
    ) -> None:
        self.epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._links: dict[int, tuple[Link, Callable[[list[bytes]], None]]] = {}
        self._others = others
        self._falls_asleep = falls_asleep
        self._wakes_up = wakes_up
        self._inbox: Inbox | None = None
        self._block = block if block is not None else _UNUSED_BLOCK
        self._woke_ns = monotonic_ns()
        self.is_crowded = False
        """Whether more descriptors were ready than the pass has handled."""

    def attach(self, inbox: Inbox) -> None:
        """Check `inbox` in each pass."""
        self._inbox = inbox
        self.watch(inbox.fd, _ignore_edge, select.EPOLLIN | select.EPOLLET)

    def watch(self, fd: int, callback: Callable[[int], None], events: int = select.EPOLLIN) -> None:
        """Call `callback(events)` whenever `fd` has one of `events` (level-triggered by default)."""
        self.epoll.register(fd, events)
        self._callbacks[fd] = callback

    def modify(self, fd: int, events: int) -> None:
        self.epoll.modify(fd, events)

    def unwatch(self, fd: int) -> None:
        """Call this before `fd` is closed. Unknown descriptors are ignored."""
        if self._callbacks.pop(fd, None) is not None:
            self.epoll.unregister(fd)

    def watch_link(self, link: Link, callback: Callable[[list[bytes]], None]) -> None:
        """Call `callback(frames)` with received frames; the loop also sends queued frames."""
        self.epoll.register(link.fd, select.EPOLLIN)
        self._links[link.fd] = (link, callback)

    def unwatch_link(self, link: Link) -> None:
        """Call this before the link is closed."""
        if self._links.pop(link.fd, None) is not None:
            self.epoll.unregister(link.fd)

    def run_once(self, timeout_ms: float = IDLE) -> int:
        """Wait for events, at most `timeout_ms`, and call back; returns the number of callbacks."""
        touched = self._touched()
        if self._falls_asleep is not None:
            self._falls_asleep()
        ready = self._poll(timeout_ms, may_sleep=not touched)
        self.is_crowded = len(ready) == MAX_EVENTS_PER_PASS
        if self._wakes_up is not None:
            self._wakes_up()
        links, callbacks = self._links, self._callbacks
        calls = 0
        for fd, events in ready:
            if fd in links:
                touched.add(fd)
            elif fd in callbacks:
                callbacks[fd](events)
                calls += 1
            elif self._others is not None:
                self._others(fd, events)
                calls += 1
        for fd in touched:
            # A callback may have closed a link that was ready.
            entry = links.get(fd)
            if entry is not None:
                calls += self._serve(*entry)
        if self._inbox is not None:
            calls += self._inbox.serve()
        return calls

    def _poll(self, timeout_ms: float, *, may_sleep: bool) -> list[tuple[int, int]]:
        inbox = self._inbox
        if inbox is not None:
            if not inbox.flush():
                timeout_ms = _RETRY_MS if timeout_ms < 0 else min(timeout_ms, _RETRY_MS)
            # Without a sleep the end of the pass checks the inbox: senders must not wake this process.
            may_sleep = may_sleep and timeout_ms != 0 and inbox.falls_asleep()
        if error_counts.codes:
            for code, count in error_counts.take():
                self._block[error_index(code)] += count
        timeout_s = 0 if not may_sleep else timeout_ms / 1000 if timeout_ms >= 0 else _FOREVER_S
        while True:
            self.beat()
            longest_s = standard_streams.RETRY_S if standard_streams.write_pending() else HEARTBEAT_S
            ready = self.epoll.poll(min(timeout_s, longest_s), MAX_EVENTS_PER_PASS)
            self._woke_ns = monotonic_ns()
            timeout_s -= longest_s
            if ready or timeout_s <= 0:
                break
        if inbox is not None:
            inbox.wakes_up()
        return ready

    def beat(self) -> None:
        """Send a heartbeat. Passes that wait for a disk several times also call this in between."""
        now_ns = monotonic_ns()
        self._block[BUSY_NS] += now_ns - self._woke_ns
        self._woke_ns = now_ns

    def _touched(self) -> set[int]:
        return {fd for fd, (link, _) in self._links.items() if link.needs_check and link.has_input()}

    def _serve(self, link: Link, callback: Callable[[list[bytes]], None]) -> int:
        if link.backlog:
            link.flush()
        frames = link.receive()
        if not frames:
            return 0
        callback(frames)
        return 1

    def close(self) -> None:
        self.epoll.close()
        self._callbacks.clear()
        self._links.clear()
