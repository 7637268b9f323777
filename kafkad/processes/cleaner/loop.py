"""The cleaner process: periodic rounds over all logs, in small chunks for each worker, and compaction."""

from collections.abc import Callable, Mapping
from uuid import UUID

from kafkad.adapters.links.messaging import PeerChange, PeerGone, PeerReplaced
from kafkad.adapters.operating_system.clocks import monotonic_ms, wall_clock_ms
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import BrokerConfig
from kafkad.core.controller.deltas import MetadataDelta, Snapshot, TopicConfigChanged, TopicDeleted
from kafkad.core.controller.image import MetadataImage
from kafkad.core.metrics.catalogue import BYTES_TO_EXPORT, LAST_CLEANER_RUN
from kafkad.processes.cleaner.compactor import Compactor
from kafkad.processes.cleaner.described_logs import DescribedLogs
from kafkad.processes.cleaner.early_checks import EarlyChecks
from kafkad.processes.cleaner.planning import Planner
from kafkad.processes.cleaner.rounds import Rounds
from kafkad.processes.cleaner.segment_transfers import SegmentTransfers
from kafkad.processes.cleaner.unfinished_work import UnfinishedWork
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.child_process import ChildProcess
from kafkad.wire.processes.cleaning_messages import (
    CleaningGranted,
    Compactions,
    CompactionsRequest,
    Swapped,
)
from kafkad.wire.processes.coordinator_messages import (
    COORDINATION,
    ExportOffsets,
    ExportOffsetsRequest,
    pack_coordination,
    unpack_coordination,
)
from kafkad.wire.processes.descriptors import DiskNearlyFull, SegmentsDescribed, pack_control, unpack_control

_LEAST_BACKOFF_MS = 10


def main(context: ChildContext) -> None:
    CleanerProcess(context).run()


class CleanerProcess(ChildProcess):
    """One incarnation of one cleaner; each cleaner has the slots of its index."""

    def __init__(self, context: ChildContext) -> None:
        super().__init__(context)
        assert context.plugins is not None, "the supervisor loads the plugins before it forks"
        self._next_round_ms = monotonic_ms() + context.config.log_dirs.log_initial_task_delay_ms
        self._log_defaults = context.config.log
        """The defaults of topics at the last check for changes."""
        self._early_checks = EarlyChecks()
        cleaners = len(context.registry.role("cleaner"))
        self._planner = Planner(
            context.plugins.cleanup_policies,
            context.table,
            cleaners=cleaners,
            index=context.key.index,
            topic_configs=context.plugins.topic_configs,
            early_checks=self._early_checks,
        )
        self.open_links()
        self._rounds = Rounds(self.peers)
        self._unfinished = UnfinishedWork(context.block)
        self._compactor = Compactor(
            context.config, cleaners, self.peers, context.block, self._unfinished, self._early_checks
        )
        self._next_compaction_ms: int | None = None
        """When to check for logs to compact: at the start with the first metadata, as Apache Kafka does; None while no
        topic is compacted.
        """
        self.loop.watch(self._compactor.doorbell, self._compactor.rung)
        self._transfers = SegmentTransfers(context.config.log_dirs.log_dirs, context.table, self.peers)
        self.loop.watch(self._transfers.doorbell, self._transfers.rung)
        self._described = DescribedLogs(self._planner, self._compactor, self._transfers, self._unfinished, self.peers)

    # The work of each pass.

    def tick(self, now_ms: int) -> None:
        self._compactor.tick(now_ms)
        if self._described:
            self._plan()
        if now_ms >= self._next_round_ms:
            self._next_round_ms = now_ms + self.config.log_dirs.log_retention_check_interval_ms
            self._early_checks.take(now_ms)
            partitions = self._planner.begin_round(self.config)
            self._request_export_offsets()
            self._rounds.begin(partitions)
        elif now_ms >= self._next_check_ms():
            self._request_export_offsets()
            self._rounds.add(self._planner.begin_check(self.config, *self._early_checks.take(now_ms)))
        self._check_dirty_logs(now_ms)

    def next_deadline_ms(self) -> int | None:
        if self._described:
            return 0
        deadlines = [self._next_check_ms(), self._compaction_due_ms(), self._compactor.next_step_ms]
        return min(deadline for deadline in deadlines if deadline is not None)

    def _next_check_ms(self) -> int:
        early_ms = self._early_checks.due_ms
        return self._next_round_ms if early_ms is None else min(early_ms, self._next_round_ms)

    def finish(self) -> bool:
        self._compactor.close()
        self._transfers.close()
        return True

    def _request_export_offsets(self) -> None:
        """Until the responses arrive, the earlier offsets apply: they are smaller, so that less is deleted."""
        self.context.block[BYTES_TO_EXPORT] = self._planner.bytes_to_export
        if self._planner.waits_for_exports(self.config):
            frame = pack_coordination(ExportOffsetsRequest())
            for worker in self.registry.role("worker"):
                self.peers.send(worker, frame)

    def _check_dirty_logs(self, now_ms: int) -> None:
        """Every log.cleaner.backoff.ms, and at once after a log was compacted (as in Apache Kafka)."""
        due_ms = self._compaction_due_ms()
        if due_ms is None or now_ms < due_ms:
            return
        self._compactor.has_finished = False
        self.context.block[LAST_CLEANER_RUN] = now_ms
        states, wall_ms = self._compactor.states, wall_clock_ms()
        partitions = self._planner.begin_compaction_check(
            self.config, lambda key: states.needs_check(key, now_ms, wall_ms)
        )
        backoff_ms = max(self.config.log_cleaner.log_cleaner_backoff_ms, _LEAST_BACKOFF_MS)
        self._next_compaction_ms = now_ms + backoff_ms if self._planner.has_compacted else None
        self._rounds.add(partitions)

    def _compaction_due_ms(self) -> int | None:
        if not self._rounds.is_over or self._described or not self._compactor.is_idle:
            return None
        return 0 if self._compactor.has_finished else self._next_compaction_ms

    def _plan(self) -> None:
        """Plan for some of the described logs; for the others in later passes."""
        self._described.tick(self.config)
        if self._rounds.is_over and not self._described:
            self._forget_uncompacted()
            self.context.block[BYTES_TO_EXPORT] = self._planner.bytes_to_export

    def _forget_uncompacted(self) -> None:
        """Forget topics that are not compacted any more."""
        self._compactor.states.keep(lambda topic_id: self._planner.is_compacted(topic_id, self.config))

    # Messages.

    def configure(self, config: BrokerConfig) -> None:
        super().configure(config)
        self._compactor.config = config

    def reload(self, static: Mapping[str, str]) -> None:
        super().reload(static)
        self._planner.reconfigured()
        self._all_changed()
        interval_ms = self.config.log_dirs.log_retention_check_interval_ms
        self._next_round_ms = min(self._next_round_ms, monotonic_ms() + interval_ms)

    def metadata_changed(self, before: MetadataImage, delta: MetadataDelta) -> None:
        self._planner.apply(self.image, delta)
        self._early_checks.topics_changed(before, self.image, delta)
        self._compactor.topics_changed(_changed_in(before, delta))
        if self._next_compaction_ms is None:
            self._next_compaction_ms = monotonic_ms()
        if before.version and self.config.log != self._log_defaults:
            self._all_changed()
        self._log_defaults = self.config.log

    def _all_changed(self) -> None:
        """The defaults of the broker have changed, which all topics inherit."""
        self._log_defaults = self.config.log
        self._early_checks.all_changed(self.image)
        self._compactor.topics_changed(lambda _: True)

    def peer_changed(self, change: PeerChange) -> None:
        if change.peer.role == "worker" and isinstance(change, PeerGone | PeerReplaced):
            self._rounds.worker_ended(change.peer.index)
            self._planner.exported.worker_ended(change.peer.index)
            self._compactor.worker_ended(change.peer.index)

    def handle(self, peer: ProcessKey, frame: bytes) -> None:
        message = unpack_coordination(frame) if frame[0] == COORDINATION else unpack_control(frame)
        match message:
            case ExportOffsets():
                self._take_export_offsets(peer.index, message)
            case CleaningGranted() | Swapped():
                self._compactor.handle(peer, message)
            case DiskNearlyFull(log_dir):
                self._early_checks.space_short(log_dir)
            case CompactionsRequest(number):
                self._forget_uncompacted()
                rows = self._compactor.rows(self._planner.failed_policies)
                self.peers.send(peer, pack_control(Compactions(number, rows)))
            case SegmentsDescribed():
                if self._rounds.described(peer.index, message.part_id):
                    self._described.add(peer, message.partitions)
            case _:
                raise AssertionError(f"{peer} does not send {type(message).__name__} to a cleaner")

    def _take_export_offsets(self, worker: int, message: ExportOffsets) -> None:
        """With the offsets of all groups, logs that waited for them are checked soon."""
        were_complete = self._planner.has_all_exports
        self._planner.exported.update(worker, message.shards, message.rows)
        if self._planner.has_all_exports and not were_complete:
            self._early_checks.all_changed(self.image)


def _changed_in(image: MetadataImage, delta: MetadataDelta) -> Callable[[UUID], bool]:
    """Selects the topics that are deleted, or have another configuration than in `image`."""
    if any(isinstance(change, Snapshot) for change in delta.changes):
        return lambda _: True
    changed = {image.topics[each.name].id for each in delta.changes if isinstance(each, TopicConfigChanged)}
    changed |= {each.id for each in delta.changes if isinstance(each, TopicDeleted)}
    return lambda topic_id: topic_id in changed
