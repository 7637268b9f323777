"""The cleaner process's loop: a round from time to time, in chunks that keep no worker busy for long."""

import logging
from collections.abc import Callable
from uuid import UUID

from kafkad.adapters.links.messaging import PeerGone, PeerReplaced
from kafkad.adapters.links.supervision_channel import ChannelClosed, ProcessesChanged, Ready, Reload, Stop, Stopped
from kafkad.adapters.operating_system.clocks import monotonic_ms, wall_clock_ms
from kafkad.adapters.shared_memory.process_registry import CONTROLLER, ProcessKey
from kafkad.config.dynamic import apply_dynamic, with_static
from kafkad.core.controller.deltas import (
    BrokerConfigChanged,
    MetadataDelta,
    MetadataGap,
    Snapshot,
    TopicConfigChanged,
    TopicDeleted,
    apply,
    decode,
)
from kafkad.core.controller.image import DEFAULT_BROKER, MetadataImage
from kafkad.core.metrics.catalogue import BYTES_TO_EXPORT, LAST_CLEANER_RUN
from kafkad.processes.cleaner.compactor import Compactor
from kafkad.processes.cleaner.described_logs import DescribedLogs
from kafkad.processes.cleaner.early_checks import EarlyChecks
from kafkad.processes.cleaner.planning import Planner
from kafkad.processes.cleaner.rounds import Rounds
from kafkad.processes.cleaner.segment_transfers import SegmentTransfers
from kafkad.processes.cleaner.unfinished_work import UnfinishedWork
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.processes.runtime.peers import Peers
from kafkad.wire.processes.cleaning_messages import (
    CleaningGranted,
    Compactions,
    CompactionsRequest,
    Swapped,
)
from kafkad.wire.processes.controller_messages import DELTA, SnapshotRequest, pack_message
from kafkad.wire.processes.coordinator_messages import (
    COORDINATION,
    CoordinationMessage,
    ExportOffsets,
    ExportOffsetsRequest,
    pack_coordination,
    unpack_coordination,
)
from kafkad.wire.processes.descriptors import (
    ControlMessage,
    DiskNearlyFull,
    SegmentsDescribed,
    pack_control,
    unpack_control,
)

log = logging.getLogger(__name__)

_LEAST_BACKOFF_MS = 10


def main(context: ChildContext) -> None:
    CleanerProcess(context).run()


class CleanerProcess:
    """One incarnation of one cleaner; with several, each has the slots of its index."""

    def __init__(self, context: ChildContext) -> None:
        assert context.plugins is not None, "the supervisor loads the plugins before it forks"
        self._context = context
        self._config = context.config
        self._image = MetadataImage()
        self._is_stopping = False
        self._next_round_ms = monotonic_ms() + context.config.log_dirs.log_initial_task_delay_ms
        self._looks = EarlyChecks()
        cleaners, index = len(context.registry.role("cleaner")), context.key.index
        self._planner = Planner(
            context.plugins.cleanup_policies,
            context.table.read,
            lambda slot: slot % cleaners == index,
            context.plugins.topic_configs,
            self._looks.failed,
        )
        self.loop = EventLoop(block=context.block)
        self.loop.watch(context.channel.fd, self._on_channel)
        self._peers = Peers(self.loop, context.registry, context.runtime_dir, context.key, self._on_frames)
        self._rounds = Rounds(self._peers.send)
        self._unfinished = UnfinishedWork(context.block)
        self._compactor = Compactor(
            lambda: self._config,
            cleaners,
            self._peers.send,
            context.block,
            self._unfinished,
            self._looks.failed,
        )
        self._next_compaction_ms: int | None = None
        """When to look for something to compact: at the start as soon as the topics are known, as Apache Kafka does;
        never while no topic is compacted.
        """
        self.loop.watch(self._compactor.doorbell, self._compactor.rung)
        self._transfers = SegmentTransfers(context.config.log_dirs.log_dirs, context.table.read, self._peers.send)
        self.loop.watch(self._transfers.doorbell, self._transfers.rung)
        self._described = DescribedLogs(
            self._planner, self._compactor, self._transfers, self._unfinished, self._peers.send
        )

    def run(self) -> None:
        self._follow_registry()
        self._context.channel.send(Ready())
        while not self._is_stopping:
            self.loop.run_once(self._timeout_ms())
            now_ms = monotonic_ms()
            self._compactor.work(now_ms)
            if self._described:
                self._plan()
            if now_ms >= self._next_round_ms:
                self._next_round_ms = now_ms + self._config.log_dirs.log_retention_check_interval_ms
                self._looks.take(now_ms)
                wanted = self._planner.begin_round(self._config)
                self._ask_for_exports()
                self._rounds.begin(wanted)
            elif now_ms >= self._due_ms():
                self._ask_for_exports()
                self._rounds.add(self._planner.begin_check(self._config, *self._looks.take(now_ms)))
            self._look_for_dirty_logs(now_ms)
        self._compactor.close()
        self._transfers.close()
        self._peers.close()
        try:
            self._context.channel.send(Stopped())
        except ChannelClosed:
            log.warning("ends: the supervisor has died")

    def _ask_for_exports(self) -> None:
        """What is known is used until the answers come: an older offset is a smaller one, which lets less go."""
        self._context.block[BYTES_TO_EXPORT] = self._planner.bytes_to_export
        if self._planner.waits_for_exports(self._config):
            frame = pack_coordination(ExportOffsetsRequest())
            for worker in self._context.registry.role("worker"):
                self._peers.send(worker, frame)

    def _on_exports(self, worker: int, message: CoordinationMessage) -> None:
        """Once all groups are known, what waited for them is looked at soon."""
        assert isinstance(message, ExportOffsets), f"a worker does not say {type(message).__name__} to a cleaner"
        knew = self._planner.knows_exports
        self._planner.exported.update(worker, message.shards, message.rows)
        if self._planner.knows_exports and not knew:
            self._looks.all_changed(self._image)

    def _look_for_dirty_logs(self, now_ms: int) -> None:
        """Every log.cleaner.backoff.ms, and at once after a log was compacted (as in Apache Kafka)."""
        due_ms = self._compaction_due_ms()
        if due_ms is None or now_ms < due_ms:
            return
        self._compactor.has_finished = False
        self._context.block[LAST_CLEANER_RUN] = now_ms
        states, wall_ms = self._compactor.states, wall_clock_ms()
        wanted = self._planner.begin_compaction_check(
            self._config, lambda key: states.needs_check(key, now_ms, wall_ms)
        )
        backoff_ms = max(self._config.log_cleaner.log_cleaner_backoff_ms, _LEAST_BACKOFF_MS)
        self._next_compaction_ms = now_ms + backoff_ms if self._planner.has_compacted else None
        self._rounds.add(wanted)

    def _compaction_due_ms(self) -> int | None:
        if not self._rounds.is_over or self._described or not self._compactor.is_idle:
            return None
        return 0 if self._compactor.has_finished else self._next_compaction_ms

    def _timeout_ms(self) -> int:
        if self._described:
            return 0
        now_ms = monotonic_ms()
        looks = [self._due_ms(), self._compaction_due_ms(), self._compactor.next_step_ms]
        return max(0, min(due_ms for due_ms in looks if due_ms is not None) - now_ms)

    def _due_ms(self) -> int:
        check_interval_ms = self._looks.due_ms
        return self._next_round_ms if check_interval_ms is None else min(check_interval_ms, self._next_round_ms)

    def _on_channel(self, _events: int) -> None:
        try:
            messages = self._context.channel.receive()
        except ChannelClosed:
            self._is_stopping = True
            return
        for message in messages:
            match message:
                case ProcessesChanged():
                    self._follow_registry()
                case Stop():
                    self._is_stopping = True
                case Reload(static):
                    self._config = with_static(self._config, static)
                    self._planner.reconfigured()
                    self._looks.all_changed(self._image)
                    self._compactor.topics_changed(lambda _: True)
                    interval_ms = self._config.log_dirs.log_retention_check_interval_ms
                    self._next_round_ms = min(self._next_round_ms, monotonic_ms() + interval_ms)
                case _:
                    continue

    def _follow_registry(self) -> None:
        changes = self._peers.follow()
        for change in changes:
            if change.peer.role == "worker" and isinstance(change, PeerGone | PeerReplaced):
                self._rounds.worker_ended(change.peer.index)
                self._planner.exported.worker_ended(change.peer.index)
                self._compactor.worker_ended(change.peer.index)
            if change.peer == CONTROLLER and not isinstance(change, PeerGone):
                self._peers.send(CONTROLLER, pack_message(SnapshotRequest(self._image.version)))
        self._peers.settle(changes)

    def _on_frames(self, peer: ProcessKey, frames: list[bytes]) -> None:
        for frame in frames:
            if peer == CONTROLLER:
                self._on_delta(frame)
            elif frame[0] == COORDINATION:
                self._on_exports(peer.index, unpack_coordination(frame))
            else:
                self._on_control(peer, unpack_control(frame))

    def _on_delta(self, frame: bytes) -> None:
        assert frame[0] == DELTA, f"a controller does not send frames of kind {frame[0]} to a cleaner"
        delta = decode(memoryview(frame)[1:])
        try:
            image = apply(self._image, delta)
        except MetadataGap:
            self._peers.send(CONTROLLER, pack_message(SnapshotRequest(self._image.version)))
            return
        if image is self._image:
            return
        before, self._image = self._image, image
        self._planner.apply(image, delta)
        self._looks.topics_changed(before, image, delta)
        self._compactor.topics_changed(_changed_in(before, delta))
        if self._next_compaction_ms is None:
            self._next_compaction_ms = monotonic_ms()
        defaults = self._config.log
        self._overlay(delta)
        if before.version and self._config.log != defaults:
            self._looks.all_changed(image)
            self._compactor.topics_changed(lambda _: True)
        self._context.registry.set_applied_version(self._context.key, image.version)

    def _overlay(self, delta: MetadataDelta) -> None:
        """Stored changes of the broker's configuration override the file's."""
        if any(isinstance(change, BrokerConfigChanged | Snapshot) for change in delta.changes):
            configs = self._image.broker_configs
            own = configs.get(str(self._config.node_id), {})
            self._config = apply_dynamic(self._config, configs.get(DEFAULT_BROKER, {}), own)

    def _on_control(self, peer: ProcessKey, message: ControlMessage) -> None:
        if isinstance(message, CleaningGranted | Swapped):
            self._compactor.hear(peer, message)
            return
        if isinstance(message, DiskNearlyFull):
            self._looks.needs_space(message.log_dir)
            return
        if isinstance(message, CompactionsRequest):
            self._forget_others()
            rows = self._compactor.rows(self._planner.failed_policies)
            self._peers.send(peer, pack_control(Compactions(message.number, rows)))
            return
        assert isinstance(message, SegmentsDescribed), f"{peer} does not say {type(message).__name__} to a cleaner"
        if not self._rounds.answered(peer.index, message.part_id):
            return
        self._described.add(peer, message.partitions)

    def _plan(self) -> None:
        """Also in later passes, if it takes its time."""
        self._described.work(self._config)
        if self._rounds.is_over and not self._described:
            self._forget_others()
            self._context.block[BYTES_TO_EXPORT] = self._planner.bytes_to_export

    def _forget_others(self) -> None:
        """Topics that are not compacted any more."""
        self._compactor.states.keep(lambda topic_id: self._planner.is_compacted(topic_id, self._config))


def _changed_in(image: MetadataImage, delta: MetadataDelta) -> Callable[[UUID], bool]:
    """Which topics are deleted, or have another configuration than in `image`."""
    if any(isinstance(change, Snapshot) for change in delta.changes):
        return lambda _: True
    changed = {image.topics[each.name].id for each in delta.changes if isinstance(each, TopicConfigChanged)}
    changed |= {each.id for each in delta.changes if isinstance(each, TopicDeleted)}
    return lambda topic_id: topic_id in changed
