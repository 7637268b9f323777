"""The peers of one process: its ZeroMQ context, its links, and changes in the process registry.

`follow` is called at the start and at each `ProcessesChanged`; it returns which incarnations started and ended. The
caller then fails the requests pending there, and calls `mark_seen`: the process registry gets a mark that this process
no longer uses anything of the old incarnations.
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
"""The threads of a ZeroMQ context."""


class Sender(Protocol):
    """`Peers`, for parts that send frames to other processes."""

    def send(self, peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool: ...


class Peers:
    """The links of `me`; the loop calls `on_frames(peer, frames)` with received frames."""

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
        # Created after the fork: a context has threads.
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
        """The changes in the process registry since the last call."""
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

    def mark_seen(self, changes: Iterable[PeerChange]) -> None:
        """This process no longer uses anything of the incarnations that these changes ended."""
        for change in changes:
            if isinstance(change, PeerGone):
                # The next incarnation is already counted, although it has not started.
                seen = change.incarnation + 1
            elif isinstance(change, PeerJoined):
                seen = change.incarnation
            else:
                seen = change.new_incarnation
            self._registry.mark_seen(self._me, change.peer, seen)

    def link(self, peer: ProcessKey) -> Link | None:
        return self._links.link(peer)

    def incarnation(self, peer: ProcessKey) -> int:
        """The incarnation of `peer` that messages are sent to; 0 while there is none."""
        return self._links.incarnation(peer)

    def send(self, peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool:
        """Send a frame: through a ring if there is one and the frame fits, else through the link.

        False when `peer` has no incarnation. With `wakes` false, a sleeping peer may read the frame only after another
        event wakes it (`wake`).
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

    def flush_rings(self) -> None:
        """Wake sleeping receivers now instead of at the end of the pass."""
        if self._rings is not None:
            self._rings.flush()

    def close(self) -> None:
        self._links.close()
        self._context.term()
