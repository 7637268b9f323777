"""The rings of one process: one for each peer and direction, all checked once per loop pass."""

from collections.abc import Callable, Mapping

from kafkad.adapters.shared_memory.descriptor_ring import LARGEST_MESSAGE, Doorbell, RingReader, RingWriter
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.adapters.shared_memory.shared_region import SharedRegion

RINGED_ROLES = ("network", "fetcher")
"""These roles exchange messages with workers through rings."""


def ring_count(others: int, workers: int) -> int:
    """One ring for each pair and direction; `others` are network processes and fetchers."""
    return 2 * others * workers


def ring_number(sender: ProcessKey, receiver: ProcessKey, workers: int, networks: int) -> int:
    """The ring from `sender` to `receiver`, of which one is a worker. First come the rings of network processes, then
    the rings of fetchers.
    """
    other, worker = (receiver, sender) if sender.role == "worker" else (sender, receiver)
    row = other.index if other.role == "network" else networks + other.index
    return 2 * (row * workers + worker.index) + (sender.role == "worker")


class Rings:
    """The sending and receiving ends of `me`; an `Inbox` for the event loop."""

    def __init__(
        self,
        me: ProcessKey,
        region: SharedRegion,
        doorbells: Mapping[ProcessKey, Doorbell],
        on_frames: Callable[[ProcessKey, list[bytes]], None],
    ) -> None:
        self._me = me
        self._region = region
        self._doorbells = doorbells
        self._doorbell = doorbells[me]
        self._on_frames = on_frames
        self._workers = sum(key.role == "worker" for key in doorbells)
        self._networks = sum(key.role == "network" for key in doorbells)
        self._writers: dict[ProcessKey, RingWriter] = {}
        self._readers: dict[ProcessKey, RingReader] = {}
        self._inputs: tuple[tuple[ProcessKey, RingReader], ...] = ()
        """`_readers` as a tuple for every pass, as a callback may open and close rings meanwhile."""
        self._is_flushed = True
        """No message was sent since the last flush, and none waits for free space."""
        self.fd = self._doorbell.fd

    def open(self, peer: ProcessKey, my_incarnation: int, incarnation: int) -> None:
        """Open the rings to a new incarnation of `peer`; messages between earlier incarnations are skipped."""
        counts = self._workers, self._networks
        out, back = ring_number(self._me, peer, *counts), ring_number(peer, self._me, *counts)
        self._writers[peer] = RingWriter(self._region, out, (my_incarnation, incarnation), self._doorbells[peer])
        self._readers[peer] = RingReader(self._region, back, (incarnation, my_incarnation))
        self._inputs = tuple(self._readers.items())

    def close(self, peer: ProcessKey) -> None:
        self._writers.pop(peer, None)
        self._readers.pop(peer, None)
        self._inputs = tuple(self._readers.items())

    def send(self, peer: ProcessKey, frame: bytes, *, wakes: bool = True) -> bool:
        """False when there is no ring to `peer`, or the frame is too large; then the caller must use a link."""
        writer = self._writers.get(peer)
        if writer is None or len(frame) > LARGEST_MESSAGE:
            return False
        writer.send(frame, wakes=wakes)
        self._is_flushed = self._is_flushed and not writer.rings_pending
        return True

    def wake(self, peer: ProcessKey) -> None:
        """Make `peer` read the messages that were sent with `wakes=False`."""
        writer = self._writers.get(peer)
        if writer is not None:
            writer.rings_pending = True
            self._is_flushed = False

    def flush(self) -> bool:
        if self._is_flushed:
            return True
        done = True
        for writer in self._writers.values():
            writer.flush()
            done = done and not writer.has_backlog
        self._is_flushed = done
        return done

    def falls_asleep(self) -> bool:
        self._doorbell.mark_asleep()
        return not [peer for peer, reader in self._inputs if reader.has_input()]

    def wakes_up(self) -> None:
        self._doorbell.mark_awake()

    def serve(self) -> int:
        calls = 0
        for peer, reader in self._inputs:
            if reader.has_input():
                self._on_frames(peer, reader.receive())
                calls += 1
        return calls
