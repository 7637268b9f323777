"""The end of each loop pass of a worker: the slots of changed logs are written, then watchers are told.

The place of an offset in a slot may have to be looked up in files, which may fail.

A watcher hears of records that readers can see, and of a log that begins elsewhere: followers delete what was deleted.
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

    `lead` moves the high watermark of those with followers; `advanced` is called with each of them when it is right,
    `published` when the slot says so, `failed` with one whose files can't be read.
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
        self._tell(moved)
        for owned in dirty:
            self._published(owned)
        return True

    def _advance(self, owned: OwnedPartition) -> None:
        """With one replica, an append is committed at once, or after its sync where it needs one. With several, `lead`
        knows; a follower hears from its leader what is committed.
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
        """Write the slot, before any answer that depends on it."""
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
        """A network process watches these partitions; if an offset was passed already, it is told at once.

        A new watch of the process replaces its earlier one.
        """
        past: list[int] = []
        for key, short_id, offset in unpack_watches(frame):
            slot, isolation = watched_slot(key)
            owned = self._by_slot.get(slot)
            if owned is None or owned.short_id != short_id:
                past.append(key)
                continue
            owned.forget_watch(peer.index, isolation)
            is_unaware = peer.index in owned.unaware
            if is_unaware:
                owned.unaware -= {peer.index}
            if owned.is_recovering or (_waits(owned, offset, isolation) and not is_unaware):
                owned.watchers.append((peer.index, offset, isolation))
            else:
                past.append(key)
        if past:
            self._send(peer, pack_moved(past))

    def release_watchers(self, owned: OwnedPartition) -> None:
        """The partition left: tell all its watchers."""
        watchers, owned.watchers = owned.watchers, []
        for network, _offset, isolation in watchers:
            key = watch_key(owned.slot, isolation)
            self._send(self._networks[network], pack_moved([key]))

    def _collect_watchers(self, owned: OwnedPartition, moved: dict[int, list[int]]) -> None:
        start = owned.shown_start if owned.log is None else owned.log.log_start_offset
        begins_elsewhere = start != owned.shown_start and self._show_start(owned, start)
        if not owned.watchers:
            return
        staying: list[tuple[int, int, int]] = []
        for watcher in owned.watchers:
            network, offset, isolation = watcher
            if _waits(owned, offset, isolation) and not begins_elsewhere:
                staying.append(watcher)
            else:
                moved.setdefault(network, []).append(watch_key(owned.slot, isolation))
        owned.watchers = staying

    def _show_start(self, owned: OwnedPartition, start: int) -> bool:
        """Whether there may be readers who know another start."""
        before, owned.shown_start = owned.shown_start, start
        if before < 0:
            return False
        # A watch that is on its way is of somebody who has looked before.
        told = [network for network, _, _ in owned.watchers]
        owned.unaware = frozenset(each.index for each in self._networks).difference(told)
        return True

    def _tell(self, moved: dict[int, list[int]]) -> None:
        for network, slots in moved.items():
            self._send(self._networks[network], pack_moved(slots))


def _waits(owned: OwnedPartition, offset: int, isolation: int) -> bool:
    """Whether a watcher must still wait for the end of what a fetch of this isolation may read."""
    if not owned.is_online or owned.log is None:
        return False
    if isolation == LOG_END:
        return owned.log.log_end_offset <= offset
    bound = owned.log.last_stable_offset if isolation == TXN_COMMITTED else owned.log.high_watermark.offset
    return bound <= offset
