"""The worker process: appends records, publishes slots, sends results, notifies watchers; in between it loads logs.

The worker is the only writer of its partitions and reads no client socket. Requests of a dead network process reach no
log, because its link ends with its incarnation.
"""

import logging
from collections.abc import Mapping
from functools import partial

from kafkad.adapters.links.messaging import PeerChange, PeerGone
from kafkad.adapters.links.supervision_channel import Ready
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.process_registry import CONTROLLER, ProcessKey
from kafkad.config import BrokerConfig
from kafkad.core.controller.deltas import MetadataDelta
from kafkad.core.controller.image import MetadataImage
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.metrics.catalogue import BYTES_IN
from kafkad.core.partition_slot import STATE_DELETING
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.child_process import ChildProcess
from kafkad.processes.runtime.turns import STEP_S
from kafkad.processes.worker.assembly import Assembly
from kafkad.processes.worker.closing import close_logs
from kafkad.processes.worker.outbox import FAILURES, FailedDirectory
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.partitions import PartitionChanges
from kafkad.processes.worker.replication.roles import Roles
from kafkad.wire.processes.cleaning_messages import CleaningEnded, CleaningRequest, SwapRequest
from kafkad.wire.processes.controller_messages import (
    Applied,
    ControllerMessage,
    FullLogDirs,
    IsrChangeDone,
    LogDirFailed,
    LogsMoved,
    ProducerIdsGranted,
    unpack_message,
)
from kafkad.wire.processes.coordinator_messages import COORDINATION, unpack_coordination
from kafkad.wire.processes.descriptors import APPEND, WATCH, DiskNearlyFull, FilesRemoved, pack_control, unpack_control
from kafkad.wire.processes.follower_progress import FOLLOWER_FETCHED

log = logging.getLogger(__name__)

MOVED_NOTICE_MS = 5_000
"""The minimum interval of LogsMoved messages to the controller (checkpoints are due)."""
_NEVER_MS = 2**62


class WorkerProcess(ChildProcess):
    """One incarnation of one worker."""

    def __init__(self, context: ChildContext) -> None:
        super().__init__(context)
        self._block = context.block
        self._index = context.key.index
        self._now_ms = monotonic_ms()
        self._applied = 0
        self._is_ready = False
        self.has_work = True
        """Whether any part may have work: more than appends and watches was received since the last wait."""
        self._due_ms = 0
        """The next deadline of all parts."""
        self._failed_dirs: set[int] = set()
        self._next_notice_ms = 0
        self._postponed: list[tuple[ProcessKey, bytes]] = []
        """Requests of network processes that wait for the first metadata."""
        self.open_links(with_rings=True)
        assembly = Assembly(self.loop, self.peers, context, self._now_ms)
        self.outbox, self.slots, self.watchers = assembly.outbox, assembly.slots, assembly.watchers
        self.partitions, self.loader = assembly.partitions, assembly.loader
        self.appender, self.leading = assembly.appender, assembly.leading
        self.following, self.upkeep = assembly.following, assembly.upkeep
        self._replication_log = assembly.replication_log
        self.partition_requests = assembly.partition_requests
        self.cleanings = assembly.cleanings
        self.moves = assembly.moves
        self.periodic = assembly.periodic
        self.coordinator_shards = assembly.coordinator_shards
        self.marker_writer = assembly.marker_writer
        self.coordinator_messages = assembly.coordinator_messages
        self._other_brokers = assembly.other_brokers
        self._roles = Roles(assembly)
        self.disk_space = assembly.disk_space
        self.disk_space.written(self._now_ms, 0)
        self.loop.watch(self.upkeep.doorbell, self._on_upkeep)
        self.loop.watch(self.moves.doorbell, self._on_moves)

    def begin(self) -> None:
        """Ready is sent when all logs are loaded."""
        self.follow_registry()

    def run_pass(self, timeout_ms: float) -> None:
        self.loop.run_once(timeout_ms)
        self._now_ms = monotonic_ms()
        self.tick(self._now_ms)

    # Messages.

    def handle(self, peer: ProcessKey, frame: bytes) -> None:
        if peer == CONTROLLER:
            self._handle_controller_message(unpack_message(frame))
        elif peer.role == "network" and frame[0] == APPEND:
            if self.appender.append(peer.index, frame):
                self.has_work = True
        elif peer.role == "fetcher":
            self.has_work = True
            self.following.handle(peer, frame)
        elif not self.image.cluster_id:
            self._postponed.append((peer, frame))
        elif frame[0] == FOLLOWER_FETCHED:
            self.has_work = True
            self.leading.handle(frame)
        elif frame[0] == WATCH:
            self.watchers.watch(peer, frame)
        else:
            self._handle_request(peer, frame)

    def _handle_request(self, peer: ProcessKey, frame: bytes) -> None:
        self.has_work = True
        if frame[0] == COORDINATION:
            self.coordinator_messages.handle(peer, unpack_coordination(frame))
        elif isinstance(message := unpack_control(frame), CleaningRequest | SwapRequest | CleaningEnded):
            self.cleanings.handle(peer, message)
        else:
            self.partition_requests.handle(peer, message)

    def _handle_controller_message(self, message: ControllerMessage) -> None:
        self.has_work = True
        if isinstance(message, IsrChangeDone):
            self.leading.isr_change_completed(message)
        else:
            assert isinstance(message, ProducerIdsGranted), f"{type(message).__name__} is not for a worker"
            self.coordinator_messages.granted(message)

    def metadata_changed(self, before: MetadataImage, delta: MetadataDelta) -> None:
        self.has_work = True
        self._partitions_changed(self.partitions.apply(self.image, delta))
        self._roles.metadata_changed(delta.changes)
        postponed, self._postponed = self._postponed, []
        for peer, frame in postponed:
            self.handle(peer, frame)

    def _partitions_changed(self, changes: PartitionChanges) -> None:
        for owned in changes.role_changed:
            if owned.state != STATE_DELETING:
                self._roles.changed(owned)
                self.outbox.touched(owned)
        for owned in changes.state_changed:
            self.leading.update(owned)
        for owned in changes.withdrawn:
            self._roles.withdrawn(owned)

    def metadata_applied(self) -> None:
        """The version is applied when all logs are loaded: see `_note_applied`."""
        self.has_work = True

    def configure(self, config: BrokerConfig) -> None:
        super().configure(config)
        self.partitions.configure(config)
        self.moves.configure(config)
        self.disk_space.configure(config)

    def reload(self, static: Mapping[str, str]) -> None:
        self.has_work = True
        super().reload(static)
        self.coordinator_shards.configure()

    def _on_upkeep(self, events: int) -> None:
        self.has_work = True
        self.upkeep.rung(events)

    def _on_moves(self, events: int) -> None:
        self.has_work = True
        self.moves.rung(events)

    def peer_changed(self, change: PeerChange) -> None:
        self.has_work = True
        if change.peer.role == "worker":
            self.coordinator_messages.worker_changed(change.peer)
        elif change.peer.role == "network":
            self.coordinator_shards.network_lost(change.peer)
            self.appender.network_lost(change.peer.index)
            self.partition_requests.pending_deletes.network_lost(change.peer)
            self._postponed = [row for row in self._postponed if row[0] != change.peer]
            for owned in self.partitions.by_slot.values():
                owned.forget_network(change.peer.index)
        elif change.peer.role == "fetcher":
            self.following.fetcher_lost(change.peer)
        elif change.peer.role == "cleaner":
            self.cleanings.cleaner_lost(change.peer)
        elif change.peer == CONTROLLER and not isinstance(change, PeerGone):
            self.coordinator_messages.controller_linked()
            self.leading.repeat_requests()
            self._report_full_directories()

    # The work of each pass: publish, then notify watchers, then respond.

    def tick(self, now_ms: int) -> None:
        """A pass that only appends skips the other parts until another message or a deadline."""
        if now_ms >= self._due_ms or (self._other_brokers is not None and self._other_brokers.has_responses):
            self.has_work = True
        if self.has_work:
            self._tick_before_publishing(now_ms)
        self._perform_effects()
        self._publish_dirty()
        self.appender.send_responses()
        if self.has_work:
            self._tick_after_results(now_ms)
            self._note_applied()

    def _tick_before_publishing(self, now_ms: int) -> None:
        """The parts that may change logs."""
        self.loader.retry(now_ms)
        if not self.loader.is_idle:
            for owned in self.loader.load(STEP_S):
                self._loaded(owned)
            self.registry.set_progress(self.context.key, *self.loader.progress)
        self.appender.tick()
        self.leading.tick(now_ms)
        self.following.tick(now_ms)
        self.partition_requests.tick()
        self.cleanings.tick(now_ms)
        self.moves.tick(now_ms)
        if self.coordinator_messages.has_queued:
            self.coordinator_messages.handle_queued()
        if self.marker_writer.is_busy:
            self.marker_writer.write_queued(STEP_S)
        self.coordinator_shards.write_batches()

    def _tick_after_results(self, now_ms: int) -> None:
        """The work that follows the published slots, and expired deadlines."""
        self.following.send_results()
        self.marker_writer.respond_to_written()
        self.appender.expire(now_ms)
        self.partition_requests.pending_deletes.expire(now_ms)
        self.coordinator_shards.tick(STEP_S, now_ms)
        self.coordinator_messages.tick(now_ms)
        removal_due_ms = self.partitions.removal_due_ms
        if removal_due_ms is not None and removal_due_ms <= now_ms:
            self.partitions.remove_deleted(now_ms)
        self.upkeep.remove_due(now_ms)
        self.disk_space.check_again(now_ms)
        self._replication_log.tick(now_ms)
        self.periodic.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        appends = self.outbox.dirty or self.appender.is_busy or self.appender.has_waiting
        if self.has_work or appends or self.outbox.has_effects:
            self.has_work = False
            self._due_ms = 0 if self._is_busy() else self._next_due_ms()
        return self._due_ms if self._due_ms < _NEVER_MS else None

    def _is_busy(self) -> bool:
        coordinates = self.coordinator_shards.is_busy or self.coordinator_messages.is_busy
        appends = self.appender.is_busy or self.marker_writer.is_busy
        handles = self.following.is_busy or self.partition_requests.is_busy or self.cleanings.is_busy
        has_effects = bool(self.outbox.dirty) or self.outbox.has_effects
        return has_effects or appends or coordinates or handles or not self.loader.is_idle

    def _next_due_ms(self) -> int:
        deadlines = (
            self.appender.next_deadline_ms,
            self.leading.next_deadline_ms,
            self.following.next_deadline_ms,
            self._replication_log.next_deadline_ms,
            self.partition_requests.pending_deletes.next_deadline_ms,
            self.periodic.next_deadline_ms,
            self.loader.retry_due_ms,
            self.coordinator_shards.next_deadline_ms,
            self.coordinator_messages.next_deadline_ms,
            self.partitions.removal_due_ms,
            self.upkeep.next_deadline_ms,
            self.cleanings.next_deadline_ms,
            self.moves.next_deadline_ms,
            self.disk_space.next_check_ms,
        )
        return min((deadline for deadline in deadlines if deadline is not None), default=_NEVER_MS)

    def _publish_dirty(self) -> None:
        """Publish the slots of changed partitions, notify watchers, then check the requests that wait for a change."""
        dirty = self.outbox.take_dirty()
        if not dirty:
            return
        for owned in dirty:
            owned.is_dirty = False
            if owned.log is not None:
                self._advance(owned, owned.log)
            self.slots.publish_appended(owned)
            self.watchers.published(owned)
        self.watchers.notify()
        for owned in dirty:
            if self.appender.has_waiting:
                self.appender.advanced(owned.slot)
            self.partition_requests.pending_deletes.progressed(owned.slot)
            self.coordinator_shards.advanced(owned)
        self.disk_space.written(self._now_ms, self._block[BYTES_IN])
        if self._now_ms >= self._next_notice_ms:
            self._next_notice_ms = self._now_ms + MOVED_NOTICE_MS
            self.notify_controller(LogsMoved())

    def _advance(self, owned: OwnedPartition, partition_log: PartitionLog) -> None:
        """With one replica, an append is committed at once, or after its sync if one is required. With several, the
        followers decide; a follower gets the high watermark from its leader.
        """
        try:
            if owned.led is not None:
                if self.leading.advance(owned):
                    self.has_work = True
            elif owned.in_sync == 1 and owned.leads:
                partition_log.advance_high_watermark(partition_log.completed_end)
        except FAILURES as failure:
            self.outbox.failed(owned, failure)
            return
        self.upkeep.collect(owned)
        if self.periodic.partition_changed(owned):
            self.has_work = True

    def _loaded(self, owned: OwnedPartition) -> None:
        self.outbox.touched(owned)
        self._roles.loaded(owned)
        self.partition_requests.remove_below_start(owned)
        self.coordinator_shards.online(owned)

    def _note_applied(self) -> None:
        """A version is applied when its new partitions are loaded and the directories of deleted ones are renamed, or
        the controller has got the error of the rename.
        """
        version = self.image.version
        if not self.loader.is_idle or self.partitions.unattempted or self.outbox.has_effects:
            return
        if not self._is_ready and self.image.cluster_id:
            self._is_ready = True
            self.context.channel.send(Ready())
        if version != self._applied:
            self._applied = version
            self.registry.set_applied_version(self.context.key, version)
            self.notify_controller(Applied(version))

    # The effects that parts have requested.

    def _perform_effects(self) -> None:
        while self.outbox.has_effects:
            self.has_work = True
            effects = self.outbox.take()
            for failed in effects.failed_dirs:
                self._log_dir_failed(failed)
            for owned in effects.offline:
                self._roles.withdrawn(owned)
            for owned, removal in effects.removals:
                self.upkeep.remove_later(owned, removal)
            if effects.removed:
                self._files_removed(effects.removed)
            for owned in effects.readable:
                self.partition_requests.respond_to_waiting(owned)
            if effects.has_flush_ended:
                self.appender.flush_ended()
            for log_dir in effects.short_dirs:
                self._free_up_space(log_dir)
            if effects.has_full_dirs_changed:
                self._report_full_directories()
            for message in effects.to_controller:
                self.notify_controller(message)

    def _log_dir_failed(self, failed: FailedDirectory) -> None:
        """Its partitions are offline: complete the requests that wait for them."""
        log_dir, cause, lost = failed
        self.disk_space.forget(log_dir, monotonic_ms())
        if not lost and log_dir in self._failed_dirs:
            return
        self._failed_dirs.add(log_dir)
        path = self.context.config.log_dirs.log_dirs[log_dir]
        log.error("log directory %s is offline with %d partitions of this worker: %s", path, len(lost), cause)
        self.appender.flush_ended()
        for owned in lost:
            self.moves.failed(owned)
            self.outbox.touched(owned)
            self.coordinator_shards.left(owned)
        self.notify_controller(LogDirFailed(log_dir, cause))

    def _files_removed(self, slots: list[int]) -> None:
        frame = pack_control(FilesRemoved(slots))
        for network in self.registry.role("network"):
            self.peers.send(network, frame)
        self.disk_space.files_removed(monotonic_ms())

    def _free_up_space(self, log_dir: int) -> None:
        self.upkeep.skip_delays(log_dir)
        self.partitions.skip_delays(log_dir)
        for cleaner in self.registry.role("cleaner"):
            self.peers.send(cleaner, pack_control(DiskNearlyFull(log_dir)))

    def _report_full_directories(self) -> None:
        """In a cluster, other brokers are to lead the partitions of full log directories."""
        if self.context.config.cluster is not None:
            self.notify_controller(FullLogDirs(sorted(self.disk_space.without_space)))

    def finish(self) -> bool:
        """Sync and publish all appends."""
        self.upkeep.close()
        self.moves.close()
        self.coordinator_messages.close()
        self.partitions.close()
        self.appender.finish()
        self._perform_effects()
        self._publish_dirty()
        self.appender.send_responses()
        self._replication_log.write()
        closed = partial(self.registry.set_progress, self.context.key)
        return close_logs(self.partitions.by_slot.values(), self.slots, closed) and self.loader.is_idle
