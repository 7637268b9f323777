"""The fetcher process: wait, take answers of leaders to the owners of logs, take their answers, ask leaders again.

It writes no log and decides no truncation. All that it knows comes from the metadata and the owners, so its next
incarnation goes on from there.
"""

import logging
from dataclasses import replace

from kafkad.adapters.links.messaging import PeerChange, PeerGone
from kafkad.adapters.links.supervision_channel import ChannelClosed, ProcessesChanged, Ready, Reload, Stop, Stopped
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.descriptor_ring import LARGEST_MESSAGE
from kafkad.adapters.shared_memory.process_registry import CONTROLLER, ProcessKey
from kafkad.config import BrokerConfig
from kafkad.config.dynamic import apply_dynamic, with_static
from kafkad.core.controller.deltas import BrokerConfigChanged, BrokersChanged, MetadataGap, Snapshot, apply, decode
from kafkad.core.controller.image import DEFAULT_BROKER, MetadataImage
from kafkad.core.metrics.catalogue import FAILED_PARTITIONS, FETCHER_LEADERS, THROTTLED_FOLLOWER_BYTES
from kafkad.core.quotas.replication_quota import ReplicationSide
from kafkad.core.replication.following.requests import FollowKind, FollowOrder, PartitionId
from kafkad.core.settings.values import integer
from kafkad.processes.fetcher.followed import Followed, FollowedPartitions
from kafkad.processes.fetcher.leader import Leader
from kafkad.processes.fetcher.lent_records import LentRecords
from kafkad.processes.runtime.broker_connections import BrokerConnections, inter_broker_destination
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.connection_timeouts import ConnectionTimeouts, timeouts_of
from kafkad.processes.runtime.event_loop import IDLE, EventLoop
from kafkad.processes.runtime.peers import Peers
from kafkad.processes.runtime.replication_quota import replication_quota
from kafkad.processes.runtime.rings import Rings
from kafkad.wire.messages.follower_fetch import FetchLimits
from kafkad.wire.processes.controller_messages import DELTA, SnapshotRequest, pack_message
from kafkad.wire.processes.descriptors import frames_of
from kafkad.wire.processes.follow_descriptors import FOLLOW, FOLLOWED, pack_order, unpack_results

log = logging.getLogger(__name__)

_FOLLOW = bytes((FOLLOW,))
ARENA_CHECK_MS = 10
"""How often a new incarnation looks whether all workers have left the arena of the one before."""


class FetcherProcess:
    """One incarnation of one fetcher process."""

    def __init__(self, context: ChildContext) -> None:
        config = context.config
        self._context = context
        self._config = config
        self._registry = context.registry
        self._workers = context.registry.role("worker")
        self._limits = fetch_limits(config)
        self._backoff_ms = integer(config.values, "replica.fetch.backoff.ms")
        self._image = MetadataImage()
        fetchers = len(context.registry.role("fetcher"))
        assert context.plugins is not None, "the supervisor loads the plugins before it forks"
        self._quota = replication_quota(
            context.plugins, config, ReplicationSide.FOLLOWER, fetchers, self._count_throttled
        )
        self._table = context.shared.table
        self._followed = FollowedPartitions(config.node_id, context.key.index, fetchers)
        self._arena = context.shared.fetcher_arenas[context.key.index]
        self._lent = LentRecords(self._arena, len(self._workers))
        self._leaders: dict[int, Leader] = {}
        self._leader_of: dict[PartitionId, int] = {}
        self._by_slot: dict[int, Leader] = {}
        self._changed: dict[Leader, None] = {}
        """The leaders that may be asked something now."""
        self._outgoing: list[list[bytes]] = [[] for _ in self._workers]
        self._may_use_arena = False
        self._is_done = False
        self.loop = EventLoop(block=context.block)
        rings = Rings(context.key, context.shared.rings, context.shared.doorbells, self._on_frames)
        self.peers = Peers(self.loop, context.registry, context.runtime_dir, context.key, self._on_frames, rings)
        client_id = f"broker-{config.node_id}-fetcher-{context.key.index}"
        self.connections = BrokerConnections(self.loop, client_id, leader_timeouts(config))
        self.loop.watch(context.channel.fd, self._on_channel)

    def run(self) -> None:
        """Until the broker stops."""
        self._follow_registry()
        self._context.channel.send(Ready())
        while not self._is_done:
            self.turn(self._timeout_ms())
        self.connections.close()
        self.peers.close()
        try:
            self._context.channel.send(Stopped())
        except ChannelClosed:
            log.warning("ends: the supervisor has died")

    def turn(self, timeout_ms: float) -> None:
        """One pass. What owners and leaders are to be asked leaves at its end."""
        self.loop.run_once(timeout_ms)
        self._finish_pass()

    # What comes in.

    def _on_frames(self, peer: ProcessKey, frames: list[bytes]) -> None:
        for frame in frames:
            if frame[0] == FOLLOWED:
                self._on_results(peer.index, frame)
            elif frame[0] == DELTA:
                self._on_delta(frame)

    def _on_results(self, worker: int, frame: bytes) -> None:
        now_ms = monotonic_ms()
        for result in unpack_results(frame):
            if result.kind == FollowKind.APPEND:
                self._lent.freed(worker)
            leader = self._by_slot.get(result.slot)
            if leader is not None:
                leader.fetcher.order_completed(result, now_ms)
                self._table.set_lag(result.slot, leader.fetcher.lag(result.slot))
                leader.complain(now_ms)
                self._changed[leader] = None

    def _on_delta(self, frame: bytes) -> None:
        delta = decode(memoryview(frame)[1:])
        try:
            image = apply(self._image, delta)
        except MetadataGap:
            self.peers.send(CONTROLLER, pack_message(SnapshotRequest(self._image.version)))
            return
        if image is self._image:
            return
        self._image = image
        for followed in self._followed.changes(image, delta):
            self._follow(followed)
        if any(isinstance(change, BrokerConfigChanged | Snapshot) for change in delta.changes):
            configs = image.broker_configs
            own = configs.get(str(self._config.node_id), {})
            self._config = apply_dynamic(self._config, configs.get(DEFAULT_BROKER, {}), own)
            self._quota.configure(self._config)
        if any(isinstance(change, BrokersChanged | Snapshot) for change in delta.changes):
            for broker_id, leader in self._leaders.items():
                self._find(broker_id, leader)
        self._registry.set_applied_version(self._context.key, image.version)

    def _count_throttled(self, size: int) -> None:
        self._context.block[THROTTLED_FOLLOWER_BYTES] += size

    def _follow(self, followed: Followed) -> None:
        before = self._leader_of.get(followed.id)
        if before is not None and before != followed.leader:
            self._leave(followed.id, before)
        if followed.partition is None:
            return
        leader = self._leaders.get(followed.leader)
        if leader is None:
            leader = self._leaders[followed.leader] = self._new_leader()
            self._find(followed.leader, leader)
        self._leader_of[followed.id] = followed.leader
        self._by_slot[followed.partition.slot] = leader
        self._table.set_lag(followed.partition.slot, 0)
        leader.fetcher.follow(followed.partition)
        self._changed[leader] = None

    def _leave(self, id: PartitionId, broker_id: int) -> None:
        leader = self._leaders[broker_id]
        leader.fetcher.unfollow(id)
        del self._leader_of[id]
        if len(leader.fetcher):
            self._changed[leader] = None
        else:
            leader.move_to(None)
            del self._leaders[broker_id]
            self._changed.pop(leader, None)

    def _new_leader(self) -> Leader:
        cluster = self._context.config.cluster
        assert cluster is not None, "there are fetchers in a cluster only"
        return Leader(
            self.connections,
            self._arena,
            self._limits,
            broker_id=self._context.config.node_id,
            backoff_ms=self._backoff_ms,
            quota=self._quota,
            versions=cluster.versions,
            block=self._context.block,
            deliver=self._deliver,
            changed=self._has_changed,
        )

    def _find(self, broker_id: int, leader: Leader) -> None:
        """Its address on the listener between brokers; none while it does not live."""
        own = self._image.brokers.get(self._context.config.node_id)
        leader.broker_epoch = -1 if own is None else own.epoch
        cluster = self._context.config.cluster
        assert cluster is not None, "there are fetchers in a cluster only"
        leader.move_to(inter_broker_destination(self._image.brokers, broker_id, cluster.inter_broker_listener))
        self._changed[leader] = None

    def _has_changed(self, leader: Leader) -> None:
        """It has its answer, so others that waited for room may have it now."""
        for known in self._leaders.values():
            if known is leader or known.is_starved:
                self._changed[known] = None

    def _deliver(self, owner: int, order: FollowOrder, extent: int) -> None:
        """An order for an owner, sent at the end of the pass."""
        if order.kind == FollowKind.APPEND:
            self._lent.lend(owner, extent)
        self._outgoing[owner].append(pack_order(order))

    def _on_channel(self, _events: int) -> None:
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
                    self._config = with_static(self._config, static)
                    self._quota.configure(self._config)
                case _:
                    continue

    def _follow_registry(self) -> None:
        changes = self.peers.follow()
        for change in changes:
            self._peer_changed(change)
        self.peers.settle(changes)

    def _peer_changed(self, change: PeerChange) -> None:
        if change.peer.role == "worker":
            index = change.peer.index
            self._outgoing[index].clear()
            self._lent.worker_lost(index)
            for leader in self._leaders.values():
                leader.fetcher.owner_lost(index)
                self._changed[leader] = None
        elif change.peer == CONTROLLER and not isinstance(change, PeerGone):
            self.peers.send(CONTROLLER, pack_message(SnapshotRequest(self._image.version)))

    # The end of each pass.

    def _finish_pass(self) -> None:
        self.connections.turn()
        now_ms = monotonic_ms()
        if not self._may_use_arena:
            self._may_use_arena = self._registry.is_seen_by_all(self._context.key, "worker")
        if self._may_use_arena:
            for leader in self._leaders.values():
                due_ms = leader.fetcher.next_ms()
                if leader in self._changed or leader.is_starved or (due_ms is not None and due_ms <= now_ms):
                    leader.tick(now_ms)
            self._changed.clear()
        self._context.block[FETCHER_LEADERS] = len(self._leaders)
        self._context.block[FAILED_PARTITIONS] = sum(
            len(each.fetcher.failed_partitions) for each in self._leaders.values()
        )
        self._send_outgoing()

    def _send_outgoing(self) -> None:
        for worker, orders in enumerate(self._outgoing):
            if not orders:
                continue
            for frame in frames_of(_FOLLOW, orders, LARGEST_MESSAGE):
                if not self.peers.send(self._workers[worker], frame):
                    # Its next incarnation is asked anew.
                    self._lent.worker_lost(worker)
                    break
            orders.clear()

    def _timeout_ms(self) -> float:
        if not self._may_use_arena:
            return ARENA_CHECK_MS
        if self._changed:
            return 0
        # One that waits for room, or for an address, is woken by what brings it.
        able = (each for each in self._leaders.values() if each.destination is not None and not each.is_starved)
        deadlines = [leader.fetcher.next_ms() for leader in able]
        deadlines.append(self.connections.next_deadline_ms)
        known = [deadline for deadline in deadlines if deadline is not None]
        return max(0, min(known) - monotonic_ms()) if known else IDLE


def leader_timeouts(config: BrokerConfig) -> ConnectionTimeouts:
    """Kafka's buffer of 64 KB would be small for a fast line, so only one that somebody has set counts."""
    patience, option = timeouts_of(config.values, "replica.socket.timeout.ms"), "replica.socket.receive.buffer.bytes"
    size = integer(config.values, option) if option in config.texts.written else -1
    return replace(patience, receive_buffer_bytes=size if size > 0 else None)


def fetch_limits(config: BrokerConfig) -> FetchLimits:
    """What a follower asks for in one Fetch."""
    return FetchLimits(
        max_wait_ms=integer(config.values, "replica.fetch.wait.max.ms"),
        min_bytes=integer(config.values, "replica.fetch.min.bytes"),
        max_bytes=integer(config.values, "replica.fetch.response.max.bytes"),
        partition_max_bytes=integer(config.values, "replica.fetch.max.bytes"),
    )
