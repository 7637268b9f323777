"""The worker process: wait, append what came, publish, answer, tell who waited; in between, load and tidy up.

It is the only writer of its partitions and reads no client socket. Requests of a dead network process reach no log,
as its link ends with its incarnation.
"""

import logging
from functools import partial

from kafkad.adapters.links.messaging import PeerChange, PeerGone
from kafkad.adapters.links.supervision_channel import ChannelClosed, ProcessesChanged, Ready, Reload, Stop, Stopped
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.process_registry import CONTROLLER, ProcessKey
from kafkad.core.controller.deltas import MetadataGap, apply, decode
from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.metrics.catalogue import BYTES_IN
from kafkad.core.partition_slot import STATE_OFFLINE, STATE_ONLINE
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.event_loop import IDLE, EventLoop
from kafkad.processes.runtime.peers import Peers
from kafkad.processes.runtime.rings import Rings
from kafkad.processes.worker.assembly import Assembly
from kafkad.processes.worker.closing import close_logs
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.pass_work import PassWork
from kafkad.processes.worker.replication.roles import Roles
from kafkad.wire.processes.cleaning_messages import CleaningEnded, CleaningRequest, SwapRequest
from kafkad.wire.processes.controller_messages import (
    DELTA,
    Applied,
    ControllerMessage,
    FullLogDirs,
    IsrChangeDone,
    LogDirFailed,
    LogsMoved,
    ProducerIdsGranted,
    SnapshotRequest,
    pack_message,
    unpack_message,
)
from kafkad.wire.processes.coordinator_messages import COORDINATION, unpack_coordination
from kafkad.wire.processes.descriptors import APPEND, WATCH, DiskNearlyFull, pack_control, unpack_control
from kafkad.wire.processes.follower_progress import FOLLOWER_FETCHED

log = logging.getLogger(__name__)

MOVED_NOTICE_MS = 5_000
"""The least time between two messages to the controller that checkpoints are due."""


class WorkerProcess:
    """One incarnation of one worker."""

    def __init__(self, context: ChildContext) -> None:
        self._context = context
        self._registry = context.registry
        self._block = context.block
        self._index = context.key.index
        self._now_ms = monotonic_ms()
        self._applied = 0
        self._is_ready = self._is_done = False
        self._failed_dirs: set[int] = set()
        self._next_notice_ms = 0
        self._early: list[tuple[ProcessKey, bytes]] = []
        """Questions from network processes that came before the first metadata; they wait for it."""
        self._networks = context.registry.role("network")
        self.loop = EventLoop(block=context.block)
        rings = Rings(context.key, context.shared.rings, context.shared.doorbells, self._on_frames)
        self.peers = Peers(self.loop, context.registry, context.runtime_dir, context.key, self._on_frames, rings)
        assembly = Assembly(self, context, self._now_ms)
        self.partitions, self.loader = assembly.partitions, assembly.loader
        self.appender, self.leading = assembly.appender, assembly.leading
        self.following, self.upkeep = assembly.following, assembly.upkeep
        self._replication_log = assembly.replication_log
        self.questions = assembly.questions
        self.cleanings = assembly.cleanings
        self.moves = assembly.moves
        self.periodic = assembly.periodic
        self.coordinator_shards = assembly.coordinator_shards
        self.marker_writer = assembly.marker_writer
        self.coordinator_messages = assembly.coordinator_messages
        self._slot_publisher = assembly.slot_publisher
        self._roles = Roles(assembly)
        progress = partial(self._registry.set_progress, context.key)
        self._work = PassWork(assembly, loaded=self.loaded, progress=progress)
        self.room = assembly.room
        self.room.written(self._now_ms, 0)
        self.loop.watch(context.channel.fd, self._on_channel)
        self.loop.watch(self.upkeep.doorbell, self._on_upkeep)
        self.loop.watch(self.moves.doorbell, self._on_moves)

    def run(self) -> None:
        """Until the broker stops."""
        self._follow_registry()
        while not self._is_done:
            self.turn(self._timeout_ms())
        self._leave()

    def turn(self, timeout_ms: float) -> None:
        """One pass: it appends, publishes and answers the messages that came in."""
        self.loop.run_once(timeout_ms)
        self._now_ms = monotonic_ms()
        self._finish_pass()

    # Incoming messages.

    def _on_frames(self, peer: ProcessKey, frames: list[bytes]) -> None:
        for frame in frames:
            if peer == CONTROLLER:
                self._on_controller(frame)
            elif peer.role == "network" and frame[0] == APPEND:
                if self.appender.append(peer.index, frame):
                    self._work.has_news = True
            elif peer.role == "fetcher":
                self._work.has_news = True
                self.following.hear(peer, frame)
            elif not self.partitions.image.cluster_id:
                self._early.append((peer, frame))
            elif frame[0] == FOLLOWER_FETCHED:
                self._work.has_news = True
                self.leading.hear(frame)
            elif frame[0] == WATCH:
                self._slot_publisher.watch(peer, frame)
            else:
                self._on_question(peer, frame)

    def _on_question(self, peer: ProcessKey, frame: bytes) -> None:
        self._work.has_news = True
        if frame[0] == COORDINATION:
            self.coordinator_messages.hear(peer, unpack_coordination(frame))
        elif isinstance(message := unpack_control(frame), CleaningRequest | SwapRequest | CleaningEnded):
            self.cleanings.hear(peer, message)
        else:
            self.questions.answer(peer, message)

    def _on_controller(self, frame: bytes) -> None:
        self._work.has_news = True
        if frame[0] != DELTA:
            message = unpack_message(frame)
            if isinstance(message, IsrChangeDone):
                self.leading.answered(message)
            else:
                assert isinstance(message, ProducerIdsGranted), f"{type(message).__name__} is not for a worker"
                self.coordinator_messages.given(message)
            return
        delta = decode(memoryview(frame)[1:])
        try:
            image = apply(self.partitions.image, delta)
        except MetadataGap:
            self.tell(SnapshotRequest(self.partitions.image.version))
            return
        if image is not self.partitions.image:
            self.partitions.apply(image, delta)
            self._roles.metadata_changed(delta.changes)
            early, self._early = self._early, []
            for peer, question in early:
                self._on_frames(peer, [question])

    def _on_channel(self, _events: int) -> None:
        self._work.has_news = True
        try:
            messages = self._context.channel.receive()
        except ChannelClosed:
            self._is_done = True
            return
        for message in messages:
            match message:
                case ProcessesChanged():
                    self._follow_registry()
                case Stop():
                    self._is_done = True
                case Reload(static):
                    self.partitions.reload(static)
                    self.coordinator_shards.configure()
                case _:
                    continue

    def _on_upkeep(self, events: int) -> None:
        self._work.has_news = True
        self.upkeep.rung(events)

    def _on_moves(self, events: int) -> None:
        self._work.has_news = True
        self.moves.rung(events)

    def _follow_registry(self) -> None:
        changes = self.peers.follow()
        for change in changes:
            self._peer_changed(change)
        self.peers.settle(changes)

    def _peer_changed(self, change: PeerChange) -> None:
        if change.peer.role == "worker":
            self.coordinator_messages.worker_changed(change.peer)
        elif change.peer.role == "network":
            self.coordinator_shards.network_lost(change.peer)
            self.appender.network_lost(change.peer.index)
            self.questions.pending_deletes.network_lost(change.peer)
            self._early = [row for row in self._early if row[0] != change.peer]
            for owned in self.partitions.by_slot.values():
                owned.forget_network(change.peer.index)
        elif change.peer.role == "fetcher":
            self.following.fetcher_lost(change.peer)
        elif change.peer.role == "cleaner":
            self.cleanings.cleaner_lost(change.peer)
        elif change.peer == CONTROLLER and not isinstance(change, PeerGone):
            self.coordinator_messages.controller_linked()
            self.leading.ask_again()
            self.tell_room()
            self.tell(SnapshotRequest(self.partitions.image.version))

    # The end of each pass: publish, then tell watchers, then answer.

    def _finish_pass(self) -> None:
        """Appends alone give the other parts no work: until something else comes or is due, nobody asks them."""
        work = self._work
        if work.is_due(self._now_ms):
            work.tick(self._now_ms)
        self._publish_dirty()
        self.appender.answer()
        if work.has_news:
            work.tidy_up(self._now_ms)
            self._note_applied()

    def touched(self, owned: OwnedPartition) -> None:
        """The log has changed: publish it when the pass ends."""
        self._slot_publisher.touched(owned)

    def _publish_dirty(self) -> None:
        if not self._slot_publisher.publish_dirty():
            return
        self.room.written(self._now_ms, self._block[BYTES_IN])
        if self._now_ms >= self._next_notice_ms:
            self._next_notice_ms = self._now_ms + MOVED_NOTICE_MS
            self.tell(LogsMoved())

    def advanced(self, owned: OwnedPartition) -> None:
        """The high watermark of a changed log is up to date."""
        self.upkeep.collect(owned)
        if self.periodic.note(owned):
            self._work.has_news = True

    def flushed(self, owned: OwnedPartition) -> None:
        """More of a log is on disk: publish and answer the appends that waited for that when the pass ends."""
        self._work.has_news = True
        self.appender.flush_ended()
        if not owned.is_dirty:
            self.touched(owned)

    def published(self, owned: OwnedPartition) -> None:
        """The slot is published, so readers can see the change: check the requests that wait for it."""
        if self.appender.has_waiting:
            self.appender.advanced(owned.slot)
        self.questions.pending_deletes.progressed(owned.slot)
        self.coordinator_shards.advanced(owned)

    def publish(self, owned: OwnedPartition) -> None:
        self._slot_publisher.publish(owned)

    def loaded(self, owned: OwnedPartition) -> None:
        self._work.has_news = True
        self.touched(owned)
        self._roles.loaded(owned)
        self.questions.shorten(owned)
        self.coordinator_shards.online(owned)

    def _note_applied(self) -> None:
        """A version counts as applied when all its new partitions are loaded, and deleted ones have lost their names,
        or the controller knows that they can't.
        """
        version = self.partitions.image.version
        if not self.loader.is_idle or self.partitions.untried:
            return
        if not self._is_ready and self.partitions.image.cluster_id:
            self._is_ready = True
            self._context.channel.send(Ready())
        if version != self._applied:
            self._applied = version
            self._registry.set_applied_version(self._context.key, version)
            self.tell(Applied(version))

    def tell(self, message: ControllerMessage) -> None:
        self.peers.send(CONTROLLER, pack_message(message))

    def send_to_network(self, network: int, frame: bytes) -> None:
        self.peers.send(self._networks[network], frame)

    def send_to(self, peer: ProcessKey, frame: bytes) -> None:
        self.peers.send(peer, frame)

    def reach(self, peer: ProcessKey, frame: bytes) -> bool:
        return self.peers.send(peer, frame)

    def remove_later(self, owned: OwnedPartition, effect: UnlinkFiles) -> None:
        self._work.has_news = True
        self.upkeep.remove_later(owned, effect)

    def withdrawn(self, owned: OwnedPartition) -> None:
        """The partition has left this worker: answer the requests that wait for it."""
        self._work.has_news = True
        owned.state = owned.state if owned.state != STATE_ONLINE else STATE_OFFLINE
        self._roles.withdrawn(owned)

    def role_changed(self, owned: OwnedPartition) -> None:
        self._work.has_news = True
        self._roles.changed(owned)
        if not owned.is_dirty:
            self.touched(owned)

    def log_dir_failed(self, log_dir: int, cause: str) -> None:
        """The directory has failed: nothing is written there any more, and its partitions go offline."""
        self._work.has_news = True
        self.room.forget(log_dir, monotonic_ms())
        lost = self.partitions.take_offline(log_dir)
        if not lost and log_dir in self._failed_dirs:
            return
        self._failed_dirs.add(log_dir)
        path = self._context.config.log_dirs.log_dirs[log_dir]
        log.error("log directory %s is offline with %d partitions of this worker: %s", path, len(lost), cause)
        self.appender.flush_ended()
        for owned in lost:
            self.touched(owned)
            self.coordinator_shards.left(owned)
        self.tell(LogDirFailed(log_dir, cause))

    def free_up_space(self, log_dir: int) -> None:
        """The directory is short of room: what was removed goes at once, and cleaners look for more."""
        self._work.has_news = True
        self.upkeep.hurry(log_dir)
        self.partitions.hurry(log_dir)
        for cleaner in self._registry.role("cleaner"):
            self.send_to(cleaner, pack_control(DiskNearlyFull(log_dir)))

    def tell_room(self) -> None:
        """In a cluster others lead the partitions of log directories without room."""
        self._work.has_news = True
        if self._context.config.cluster is not None:
            self.tell(FullLogDirs(sorted(self.room.without_room)))

    def _timeout_ms(self) -> float:
        due_ms = self._work.due_ms()
        return IDLE if due_ms is None else max(0, due_ms - monotonic_ms())

    def _leave(self) -> None:
        """A clean stop: sync and publish all appends, then close the links."""
        for part in (self.upkeep, self.moves, self.coordinator_messages):
            part.close()
        self.partitions.close()
        self.appender.finish()
        self._publish_dirty()
        self.appender.answer()
        self._replication_log.write()
        closed = partial(self._registry.set_progress, self._context.key)
        is_clean = close_logs(self.partitions.by_slot.values(), self.publish, closed) and self.loader.is_idle
        self.peers.close()
        try:
            self._context.channel.send(Stopped(is_clean=is_clean))
        except ChannelClosed:
            log.warning("ends: the supervisor has died")
