"""The published slots of a worker's partitions, and the network processes that watch them.

To publish an offset, its file position may have to be read from index files, which may fail.

Watchers are notified of records that readers can see, and of a new log start offset, so that followers delete records.
"""

from collections.abc import Sequence

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.metrics.catalogue import BYTES_IN, MESSAGES_IN
from kafkad.core.types import LOG_END, TXN_COMMITTED
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.worker.outbox import FAILURES, Outbox
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.descriptors import pack_moved, unpack_watches, watch_key, watched_slot


class Slots:
    """Writes the slots of a worker's partitions."""

    def __init__(self, table: PartitionTable, block: CounterBlock, outbox: Outbox) -> None:
        self._table = table
        self._block = block
        self._outbox = outbox

    def publish(self, owned: OwnedPartition) -> None:
        """Write the slot, before any response that depends on it."""
        if owned.log is not None:
            try:
                content = owned.published_log(owned.log)
            except FAILURES as failure:
                self._outbox.failed(owned, failure)
            else:
                self._table.publish(owned.slot, content)
                return
        self._table.publish(owned.slot, owned.published(self._table.read(owned.slot)))

    def publish_appended(self, owned: OwnedPartition) -> None:
        """At the end of the pass: also count the records that were appended in it."""
        self.publish(owned)
        if owned.bytes_in:
            block = self._block
            block[MESSAGES_IN] += owned.messages_in
            block[BYTES_IN] += owned.bytes_in
            self._table.count_appended(owned.slot, owned.messages_in, owned.bytes_in)
            owned.messages_in = owned.bytes_in = 0

    def publish_truncation(self, owned: OwnedPartition) -> None:
        """Publish the end of the truncated log, before the truncation. Responses of earlier generations end there."""
        assert owned.generation is not None, "a log is truncated"
        self._table.mark_truncation(owned.slot, owned.generation)
        self.publish(owned)


class Watchers:
    """The network processes that watch high watermarks, last stable offsets and log ends."""

    def __init__(self, by_slot: dict[int, OwnedPartition], networks: Sequence[ProcessKey], sender: Sender) -> None:
        self._by_slot = by_slot
        self._networks = networks
        self._sender = sender
        self._moved: dict[int, list[int]] = {}
        """The keys of passed watches by network process."""

    def watch(self, peer: ProcessKey, frame: bytes) -> None:
        """A network process watches these partitions. It is notified at once of offsets that are passed already.

        A new watch of a process replaces its earlier one.
        """
        passed: list[int] = []
        for key, short_id, offset in unpack_watches(frame):
            slot, isolation = watched_slot(key)
            owned = self._by_slot.get(slot)
            if owned is None or owned.short_id != short_id:
                passed.append(key)
                continue
            owned.forget_watch(peer.index, isolation)
            is_unaware = peer.index in owned.unnotified
            if is_unaware:
                owned.unnotified -= {peer.index}
            if owned.is_recovering or (_waits(owned, offset, isolation) and not is_unaware):
                owned.watchers.append((peer.index, offset, isolation))
            else:
                passed.append(key)
        if passed:
            self._sender.send(peer, pack_moved(passed))

    def release(self, owned: OwnedPartition) -> None:
        """The partition left: notify all its watchers."""
        watchers, owned.watchers = owned.watchers, []
        for network, _offset, isolation in watchers:
            key = watch_key(owned.slot, isolation)
            self._sender.send(self._networks[network], pack_moved([key]))

    def published(self, owned: OwnedPartition) -> None:
        """The slot is published: find the watches that it has passed."""
        start = owned.published_start if owned.log is None else owned.log.log_start_offset
        start_moved = start != owned.published_start and self._publish_start(owned, start)
        if not owned.watchers:
            return
        remaining: list[tuple[int, int, int]] = []
        for watcher in owned.watchers:
            network, offset, isolation = watcher
            if _waits(owned, offset, isolation) and not start_moved:
                remaining.append(watcher)
            else:
                self._moved.setdefault(network, []).append(watch_key(owned.slot, isolation))
        owned.watchers = remaining

    def _publish_start(self, owned: OwnedPartition, start: int) -> bool:
        """Whether readers may have an older log start offset."""
        before, owned.published_start = owned.published_start, start
        if before < 0:
            return False
        # A watch that is still in the ring was sent before the change.
        notified = [network for network, _, _ in owned.watchers]
        owned.unnotified = frozenset(each.index for each in self._networks).difference(notified)
        return True

    def notify(self) -> None:
        """All slots of the pass are published: notify the network processes of passed watches."""
        moved, self._moved = self._moved, {}
        for network, keys in moved.items():
            self._sender.send(self._networks[network], pack_moved(keys))


def _waits(owned: OwnedPartition, offset: int, isolation: int) -> bool:
    """Whether a fetch of this isolation cannot read past `offset` yet."""
    if not owned.is_online or owned.log is None:
        return False
    if isolation == LOG_END:
        return owned.log.log_end_offset <= offset
    bound = owned.log.last_stable_offset if isolation == TXN_COMMITTED else owned.log.high_watermark.offset
    return bound <= offset
