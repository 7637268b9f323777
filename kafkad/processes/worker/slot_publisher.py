"""The end of each loop pass of a worker: publish the slots of changed logs, then notify watchers.

To publish an offset, its file position may have to be read from index files, which may fail.

Watchers are notified of records that readers can see, and of a new log start offset, so that followers delete records.
"""

from collections.abc import Callable, Sequence

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.metrics.catalogue import BYTES_IN, MESSAGES_IN
from kafkad.core.types import LOG_END, TXN_COMMITTED
from kafkad.processes.worker.failed_partitions import FAILURES, Failure
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.descriptors import pack_moved, unpack_watches, watch_key, watched_slot


class SlotPublisher:
    """The partitions that changed in this pass, and their watchers.

    `lead` advances the high watermark of a partition with followers. `advanced` is called with each partition after
    that, `published` after its slot is written, `failed` if its files cannot be read.
    """

    def __init__(
        self,
        by_slot: dict[int, OwnedPartition],
        table: PartitionTable,
        block: CounterBlock,
        networks: Sequence[ProcessKey],
        *,
        send: Callable[[ProcessKey, bytes], object],
        lead: Callable[[OwnedPartition], None],
        advanced: Callable[[OwnedPartition], None],
        published: Callable[[OwnedPartition], None],
        failed: Callable[[OwnedPartition, Failure], None],
    ) -> None:
        self._by_slot = by_slot
        self._table = table
        self._block = block
        self._networks = networks
        self._send = send
        self._lead = lead
        self._advanced = advanced
        self._published = published
        self._failed = failed
        self._dirty: list[OwnedPartition] = []

    @property
    def has_dirty(self) -> bool:
        return bool(self._dirty)

    def touched(self, owned: OwnedPartition) -> None:
        owned.is_dirty = True
        self._dirty.append(owned)

    def publish_dirty(self) -> bool:
        """Publish the changed partitions; False if there are none."""
        if not self._dirty:
            return False
        dirty, self._dirty = self._dirty, []
        moved: dict[int, list[int]] = {}
        for owned in dirty:
            owned.is_dirty = False
            if owned.log is not None:
                self._advance(owned)
            self.publish(owned)
            if owned.bytes_in:
                self._count_appended(owned)
            self._collect_watchers(owned, moved)
        self._notify(moved)
        for owned in dirty:
            self._published(owned)
        return True

    def _advance(self, owned: OwnedPartition) -> None:
        """With one replica, an append is committed at once, or after its sync if one is required. With several, `lead`
        decides; a follower gets the high watermark from its leader.
        """
        partition_log = owned.log
        assert partition_log is not None
        try:
            if owned.led is not None:
                self._lead(owned)
            elif owned.in_sync == 1 and owned.leads:
                partition_log.advance_high_watermark(partition_log.completed_end)
        except FAILURES as failure:
            self._failed(owned, failure)
        else:
            self._advanced(owned)

    def publish(self, owned: OwnedPartition) -> None:
        """Write the slot, before any response that depends on it."""
        if owned.log is not None:
            try:
                content = owned.published_log(owned.log)
            except FAILURES as failure:
                self._failed(owned, failure)
            else:
                self._table.publish(owned.slot, content)
                return
        self._table.publish(owned.slot, owned.published(self._table.read(owned.slot)))

    def _count_appended(self, owned: OwnedPartition) -> None:
        block = self._block
        block[MESSAGES_IN] += owned.messages_in
        block[BYTES_IN] += owned.bytes_in
        self._table.count_appended(owned.slot, owned.messages_in, owned.bytes_in)
        owned.messages_in = owned.bytes_in = 0

    # Watchers of high watermarks.

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
            self._send(peer, pack_moved(passed))

    def release_watchers(self, owned: OwnedPartition) -> None:
        """The partition left: notify all its watchers."""
        watchers, owned.watchers = owned.watchers, []
        for network, _offset, isolation in watchers:
            key = watch_key(owned.slot, isolation)
            self._send(self._networks[network], pack_moved([key]))

    def _collect_watchers(self, owned: OwnedPartition, moved: dict[int, list[int]]) -> None:
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
                moved.setdefault(network, []).append(watch_key(owned.slot, isolation))
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

    def _notify(self, moved: dict[int, list[int]]) -> None:
        for network, slots in moved.items():
            self._send(self._networks[network], pack_moved(slots))


def _waits(owned: OwnedPartition, offset: int, isolation: int) -> bool:
    """Whether a fetch of this isolation cannot read past `offset` yet."""
    if not owned.is_online or owned.log is None:
        return False
    if isolation == LOG_END:
        return owned.log.log_end_offset <= offset
    bound = owned.log.last_stable_offset if isolation == TXN_COMMITTED else owned.log.high_watermark.offset
    return bound <= offset
