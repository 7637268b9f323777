"""The processes that one process talks to: its ZeroMQ context, its links in its event loop, its process registry news.

`follow` is called at the start and at each `ProcessesChanged`; it returns which incarnations started and ended. The
caller then fails the requests pending there, and `settle` marks in the process registry that nothing of the old
incarnations is used any more.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Protocol

import zmq

from kafkad.adapters.links.messaging import Link, LinkSet, PeerChange, PeerGone, PeerJoined
from kafkad.adapters.operating_system.process_limits import require_threads
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.processes.runtime.rings import RINGED_ROLES, Rings

_THREADS = 2
"""Those of a ZeroMQ context."""


class Sender(Protocol):
    """`Peers`, for parts that send frames to other processes."""

    def send(self, peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool: ...


class Peers:
    """The links of `me`; `on_frames(peer, frames)` is called by the loop with what came in."""

    def __init__(
        self,
        loop: EventLoop,
        registry: ProcessRegistry,
        runtime_dir: Path,
        me: ProcessKey,
        on_frames: Callable[[ProcessKey, list[bytes]], None],
        rings: Rings | None = None,
    ) -> None:
        self._loop = loop
        self._rings = rings
        if rings is not None:
            loop.attach(rings)
        self._registry = registry
        self._me = me
        self._on_frames = on_frames
        require_threads(_THREADS)
        # Made after the fork: a context has threads.
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, 4096)
        self._links = LinkSet(
            self._context,
            runtime_dir,
            me,
            registry.incarnation(me),
            opened=self._opened,
            closing=self._closing,
        )

    def _opened(self, peer: ProcessKey, link: Link) -> None:
        self._loop.watch_link(link, partial(self._on_frames, peer))

    def _closing(self, peer: ProcessKey, link: Link) -> None:
        self._loop.unwatch_link(link)

    def follow(self) -> list[PeerChange]:
        """The changes since the last call, by the process registry as it is now."""
        changes = self._links.update(self._registry.entries())
        if self._rings is not None:
            for change in changes:
                self._follow_ring(self._rings, change)
        return changes

    def _follow_ring(self, rings: Rings, change: PeerChange) -> None:
        roles = {self._me.role, change.peer.role}
        if len(roles) < 2 or "worker" not in roles or roles.isdisjoint(RINGED_ROLES):
            return
        rings.close(change.peer)
        if not isinstance(change, PeerGone):
            incarnation = self._links.incarnation(change.peer)
            rings.open(change.peer, self._registry.incarnation(self._me), incarnation)

    def settle(self, changes: Iterable[PeerChange]) -> None:
        """Nothing of the incarnations that these changes ended is used any more."""
        for change in changes:
            if isinstance(change, PeerGone):
                # The next incarnation is counted already, though it has not started.
                seen = change.incarnation + 1
            elif isinstance(change, PeerJoined):
                seen = change.incarnation
            else:
                seen = change.new_incarnation
            self._registry.mark_seen(self._me, change.peer, seen)

    def link(self, peer: ProcessKey) -> Link | None:
        return self._links.link(peer)

    def incarnation(self, peer: ProcessKey) -> int:
        """The incarnation that messages to `peer` go to; 0 while there is none."""
        return self._links.incarnation(peer)

    def send(self, peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool:
        """False when `peer` has no incarnation to send to. Goes through a ring if there is one and the frame fits.

        With `wakes` false, a peer that sleeps may read it only when something else wakes it (`wake`).
        """
        if self._rings is not None and self._rings.send(peer, frame, wakes=wakes):
            return True
        link = self._links.link(peer)
        if link is None:
            return False
        link.send(frame)
        return True

    def wake(self, peer: ProcessKey) -> None:
        if self._rings is not None:
            self._rings.wake(peer)

    def ring(self) -> None:
        """Whoever sleeps hears of what was sent to it now, not when the pass ends."""
        if self._rings is not None:
            self._rings.flush()

    def close(self) -> None:
        self._links.close()
        self._context.term()
