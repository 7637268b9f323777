"""Messages between two processes of the broker: one ZeroMQ PAIR for each two incarnations that communicate.

The endpoint's name contains both incarnations, so messages to a dead process can't reach its next incarnation, and no
other process gets them. Sends never block: messages that ZeroMQ does not take wait in a bounded queue here. The
messages are descriptors and control messages, never records.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import zmq
from zmq.backend import Socket as RawSocket

from kafkad.adapters.operating_system.process_limits import OutOfResources
from kafkad.adapters.shared_memory.descriptor_ring import BACKLOG_MESSAGES
from kafkad.adapters.shared_memory.process_registry import ProcessEntry, ProcessKey, ProcessState

RANKS = ("controller", "worker", "network", "fetcher", "cleaner", "reporter")
"""Of two linked roles the first one in this list binds; of two processes of one role the one with the smaller index."""

LINKED_ROLES = frozenset(
    {
        ("worker", "network"),
        ("worker", "fetcher"),
        ("worker", "worker"),
        ("controller", "network"),
        ("controller", "worker"),
        ("worker", "cleaner"),
        ("worker", "reporter"),
        ("controller", "fetcher"),
        ("controller", "cleaner"),
        ("controller", "reporter"),
        ("cleaner", "reporter"),
    }
)
"""The pairs of roles that communicate; the binding role is first."""

MAX_PATH_BYTES = 107
"""The longest sun_path of a Unix socket, without the terminating zero."""
_LONGEST_NAME = len("/controller0.999999-reporter63.999999")

_HIGH_WATER_MARK = 1000
_RECONNECT_MS = 2
_RECONNECT_MAX_MS = 200
_MESSAGES_PER_READ = 1000


class LinkOverflow(Exception):
    """The local queue is full, because the peer does not read; waiting would block this process too."""


class RuntimePathTooLong(Exception):
    """The path of the runtime directory is too long for Unix sockets in it."""


def check_runtime_path(runtime_dir: Path) -> None:
    """Raise `RuntimePathTooLong` at the start, before the name of a later incarnation is too long."""
    length = len(str(runtime_dir).encode()) + _LONGEST_NAME
    if length > MAX_PATH_BYTES:
        longest = MAX_PATH_BYTES - _LONGEST_NAME
        raise RuntimePathTooLong(
            f"runtime directory {runtime_dir} is too long for Unix sockets: at most {longest} bytes; "
            "set kafkad.runtime.dir to a shorter path"
        )


def is_linked(a: ProcessKey, b: ProcessKey) -> bool:
    return (a.role, b.role) in LINKED_ROLES or (b.role, a.role) in LINKED_ROLES


def binds(me: ProcessKey, peer: ProcessKey) -> bool:
    """Whether `me` binds; exactly one of two linked processes does."""
    return _rank(me) < _rank(peer)


def _rank(key: ProcessKey) -> tuple[int, int]:
    return RANKS.index(key.role), key.index


def link_endpoint(runtime_dir: Path, a: ProcessKey, a_incarnation: int, b: ProcessKey, b_incarnation: int) -> str:
    """The endpoint of the link between two incarnations, the same for both."""
    sides = [(a, a_incarnation), (b, b_incarnation)]
    sides.sort(key=lambda side: _rank(side[0]))
    name = "-".join(f"{key.role}{key.index}.{incarnation}" for key, incarnation in sides)
    return f"ipc://{runtime_dir}/{name}"


class Link:
    """One end of a pair. `needs_check` is true if there may be input although the descriptor reports none."""

    __slots__ = ("_backlog", "_backlog_limit", "_socket", "fd", "needs_check")

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        endpoint: str,
        *,
        bind: bool,
        high_water_mark: int = _HIGH_WATER_MARK,
        backlog_limit: int = BACKLOG_MESSAGES,
    ) -> None:
        self._socket = context.socket(zmq.PAIR)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, high_water_mark)
        self._socket.setsockopt(zmq.RCVHWM, high_water_mark)
        self._socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
        if bind:
            self._socket.bind(endpoint)
        else:
            self._socket.connect(endpoint)
        self._backlog: deque[bytes] = deque()
        self._backlog_limit = backlog_limit
        self.fd = int(self._socket.getsockopt(zmq.FD))
        self.needs_check = True

    @property
    def backlog(self) -> int:
        """The number of messages that ZeroMQ has not taken yet."""
        return len(self._backlog)

    def send(self, frame: bytes | memoryview) -> None:
        """Send `frame`, now or later, in order. Copies it. Raises `LinkOverflow`."""
        # ZeroMQ's descriptor is edge-triggered, and a send may consume the edge of a received message.
        self.needs_check = True
        if not self._backlog:
            try:
                # The raw socket's method, because pyzmq's wrapper would double the cost.
                RawSocket.send(self._socket, frame, zmq.NOBLOCK, True, False)
                return
            except zmq.Again:
                pass
        if len(self._backlog) >= self._backlog_limit:
            raise LinkOverflow(f"{len(self._backlog)} messages wait for a peer that does not read")
        self._backlog.append(bytes(frame))

    def flush(self) -> bool:
        """Send the queued messages; returns whether the queue is empty."""
        backlog = self._backlog
        if backlog:
            self.needs_check = True
        while backlog:
            try:
                RawSocket.send(self._socket, backlog[0], zmq.NOBLOCK, True, False)
            except zmq.Again:
                return False
            backlog.popleft()
        return True

    def receive(self, limit: int = _MESSAGES_PER_READ) -> list[bytes]:
        """The received messages, at most `limit`; then there may be more."""
        frames: list[bytes] = []
        socket = self._socket
        self.needs_check = True
        try:
            # One exception at the end costs less than reading EVENTS before each message.
            while len(frames) < limit:
                frames.append(RawSocket.recv(socket, zmq.NOBLOCK, True, False))
        except zmq.Again:
            # ZeroMQ has handled all its commands now, also the one that a send is possible again.
            self.needs_check = bool(self._backlog)
        return frames

    def has_input(self) -> bool:
        """Read EVENTS, which also re-arms the descriptor's edge; called before each epoll_wait."""
        self.needs_check = False
        events = int(self._socket.getsockopt(zmq.EVENTS))
        return bool(events & zmq.POLLIN) or bool(self._backlog and events & zmq.POLLOUT)

    def close(self) -> None:
        """Close the link, and drop the queued messages of both directions."""
        self._backlog.clear()
        self._socket.close(linger=0)


@dataclass(frozen=True, slots=True)
class PeerJoined:
    """There is a link to the first incarnation of `peer`."""

    peer: ProcessKey
    incarnation: int


@dataclass(frozen=True, slots=True)
class PeerReplaced:
    """There is a link to the new incarnation; pending requests to the old incarnation fail."""

    peer: ProcessKey
    old_incarnation: int
    new_incarnation: int


@dataclass(frozen=True, slots=True)
class PeerGone:
    """The incarnation has ended, without a next incarnation yet; there is no link."""

    peer: ProcessKey
    incarnation: int


PeerChange: TypeAlias = PeerJoined | PeerReplaced | PeerGone


def _ignore(peer: ProcessKey, link: Link) -> None:
    """The default callback, for links outside an event loop."""


class LinkSet:
    """The links of one incarnation of a process, one to the current incarnation of each linked process.

    `opened` is called with each new link and `closing` before a link is closed, to update an event loop.
    """

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        runtime_dir: Path,
        me: ProcessKey,
        my_incarnation: int,
        *,
        opened: Callable[[ProcessKey, Link], None] = _ignore,
        closing: Callable[[ProcessKey, Link], None] = _ignore,
    ) -> None:
        self._opened = opened
        self._closing = closing
        self._context = context
        self._runtime_dir = runtime_dir
        self._me = me
        self._my_incarnation = my_incarnation
        self._links: dict[ProcessKey, tuple[int, Link]] = {}
        self._last_incarnations: dict[ProcessKey, int] = {}

    def update(self, entries: Iterable[ProcessEntry]) -> list[PeerChange]:
        """Update the links to the state of the process registry; returns the changes. Closed links drop messages."""
        changes: list[PeerChange] = []
        for entry in entries:
            if entry.key != self._me and is_linked(self._me, entry.key):
                change = self._update_peer(entry)
                if change is not None:
                    changes.append(change)
        return changes

    def _update_peer(self, entry: ProcessEntry) -> PeerChange | None:
        peer, incarnation = entry.key, entry.incarnation
        current = self._links.get(peer)
        is_live = entry.state not in (ProcessState.NONE, ProcessState.DEAD)
        if current is not None and (current[0] != incarnation or not is_live):
            self._closing(peer, current[1])
            self._links.pop(peer)[1].close()
            if not is_live:
                return PeerGone(peer, current[0])
        if not is_live or (current is not None and current[0] == incarnation):
            return None
        self._open(peer, incarnation)
        previous = self._last_incarnations.get(peer, 0)
        self._last_incarnations[peer] = incarnation
        return PeerReplaced(peer, previous, incarnation) if previous else PeerJoined(peer, incarnation)

    def _open(self, peer: ProcessKey, incarnation: int) -> None:
        endpoint = link_endpoint(self._runtime_dir, self._me, self._my_incarnation, peer, incarnation)
        try:
            link = Link(self._context, endpoint, bind=binds(self._me, peer))
        except zmq.ZMQError as error:
            raise OutOfResources(f"can't create a socket in {self._runtime_dir}: {error}") from error
        self._links[peer] = (incarnation, link)
        self._opened(peer, link)

    def link(self, peer: ProcessKey) -> Link | None:
        """The link to the current incarnation of `peer`, if any."""
        current = self._links.get(peer)
        return current[1] if current is not None else None

    def incarnation(self, peer: ProcessKey) -> int:
        """The incarnation of `peer` at the other end of the link; 0 without a link."""
        current = self._links.get(peer)
        return current[0] if current is not None else 0

    def items(self) -> list[tuple[ProcessKey, Link]]:
        return [(peer, link) for peer, (_, link) in self._links.items()]

    def close(self) -> None:
        for peer, (_, link) in self._links.items():
            self._closing(peer, link)
            link.close()
        self._links.clear()
