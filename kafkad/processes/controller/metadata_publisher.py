"""Sends metadata to the other processes: a snapshot over each new link, then every delta in order.

The version in the process registry changes after the deltas were sent, never before. A peer with a gap requests a
snapshot.
"""

from collections.abc import Callable, Sequence

from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry
from kafkad.core.controller.deltas import MetadataDelta, encode, snapshot
from kafkad.core.controller.image import MetadataImage
from kafkad.wire.processes.controller_messages import pack_delta

FOLLOWERS = ("worker", "network")
"""The roles that must have applied a change before its client gets the response."""

Send = Callable[[ProcessKey, bytes], object]


class MetadataPublisher:
    """Remembers which version each linked peer got as a snapshot; all later deltas go to it, too."""

    def __init__(self, registry: ProcessRegistry, send: Send) -> None:
        self._registry = registry
        self._send = send
        self._snapshots: dict[ProcessKey, int] = {}
        self._followers = tuple(key for role in FOLLOWERS for key in registry.role(role))
        # All links at the same version share one encoding: six open at once at the start.
        self._encoded: tuple[int, bytes] = (-1, b"")

    def linked(self, peer: ProcessKey, image: MetadataImage) -> None:
        """A link to a new incarnation of `peer` is open."""
        self._snapshots[peer] = image.version
        self._send(peer, self._snapshot(image))

    def unlinked(self, peer: ProcessKey) -> None:
        self._snapshots.pop(peer, None)

    def snapshot_requested(self, peer: ProcessKey, have_version: int, image: MetadataImage) -> None:
        """`peer` requests a snapshot. It is not sent if one is in flight, as all later deltas follow that."""
        sent = self._snapshots.get(peer)
        if sent is None or have_version >= sent:
            self.linked(peer, image)

    def publish(self, changes: Sequence[MetadataDelta]) -> None:
        for delta in changes:
            frame = pack_delta(encode(delta))
            for peer in self._snapshots:
                self._send(peer, frame)
        if changes:
            self.announce(changes[-1].version)

    def announce(self, version: int) -> None:
        """The version that was sent over every link."""
        self._registry.metadata_version = version

    def applied(self) -> int:
        """The version that every live worker and network process has applied."""
        registry = self._registry
        versions = [registry.applied_version(key) for key in self._followers if registry.is_live(key)]
        return min(versions, default=registry.metadata_version)

    def _snapshot(self, image: MetadataImage) -> bytes:
        if self._encoded[0] != image.version:
            self._encoded = (image.version, pack_delta(encode(snapshot(image))))
        return self._encoded[1]
