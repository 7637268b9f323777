"""The fetcher process: sends the records of leaders to the owners of the followed logs, and fetches again.

It writes no log and decides no truncation. Its state comes from the metadata and the owners, so the next incarnation
continues from there.
"""

from dataclasses import replace

from kafkad.adapters.links.messaging import PeerChange
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import BrokerConfig
from kafkad.core.controller.deltas import BrokersChanged, MetadataDelta, Snapshot
from kafkad.core.controller.image import MetadataImage
from kafkad.core.metrics.catalogue import FAILED_PARTITIONS, FETCHER_LEADERS
from kafkad.core.quotas.replication_quota import ReplicationSide
from kafkad.core.replication.following.requests import FollowKind, PartitionId
from kafkad.core.settings.values import integer
from kafkad.processes.fetcher.followed import Followed, FollowedPartitions
from kafkad.processes.fetcher.leader import FetchesOfAllLeaders, Leader
from kafkad.processes.fetcher.owner_orders import OwnerOrders
from kafkad.processes.runtime.broker_connections import BrokerConnections, inter_broker_destination
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.child_process import ChildProcess
from kafkad.processes.runtime.connection_timeouts import ConnectionTimeouts, timeouts_of
from kafkad.processes.runtime.replication_quota import replication_quota
from kafkad.wire.messages.follower_fetch import FetchLimits
from kafkad.wire.processes.follow_descriptors import FOLLOWED, unpack_results

ARENA_CHECK_MS = 10
"""How often a new incarnation checks whether all workers have left the arena of the previous one."""


class FetcherProcess(ChildProcess):
    """One incarnation of one fetcher process."""

    def __init__(self, context: ChildContext) -> None:
        super().__init__(context)
        config = context.config
        assert config.cluster is not None, "only a cluster has fetchers"
        assert context.plugins is not None, "the supervisor loads the plugins before it forks"
        fetchers = len(context.registry.role("fetcher"))
        self._quota = replication_quota(context.plugins, config, ReplicationSide.FOLLOWER, fetchers, context.block)
        self._table = context.shared.table
        self._followed = FollowedPartitions(config.node_id, context.key.index, fetchers)
        self._leaders: dict[int, Leader] = {}
        self._leader_of: dict[PartitionId, int] = {}
        self._by_slot: dict[int, Leader] = {}
        arena = context.shared.fetcher_arenas[context.key.index]
        self._may_use_arena = False
        self._orders = OwnerOrders(arena, len(context.registry.role("worker")))
        self.open_links(with_rings=True)
        client_id = f"broker-{config.node_id}-fetcher-{context.key.index}"
        self.connections = BrokerConnections(self.loop, client_id, leader_timeouts(config))
        self._fetches = FetchesOfAllLeaders(
            connections=self.connections,
            arena=arena,
            orders=self._orders,
            limits=fetch_limits(config),
            broker_id=config.node_id,
            backoff_ms=integer(config.values, "replica.fetch.backoff.ms"),
            quota=self._quota,
            versions=config.cluster.versions,
            block=context.block,
        )
        self._listener = config.cluster.inter_broker_listener

    # Messages.

    def handle(self, peer: ProcessKey, frame: bytes) -> None:
        assert frame[0] == FOLLOWED, f"{peer} does not send frames of kind {frame[0]} to a fetcher"
        now_ms = monotonic_ms()
        for result in unpack_results(frame):
            if result.kind == FollowKind.APPEND:
                self._orders.appended(peer.index)
            leader = self._by_slot.get(result.slot)
            if leader is not None:
                leader.fetcher.order_completed(result, now_ms)
                self._table.set_lag(result.slot, leader.fetcher.lag(result.slot))
                leader.log_problems(now_ms)
                leader.is_due = True

    def metadata_changed(self, before: MetadataImage, delta: MetadataDelta) -> None:
        for followed in self._followed.changes(self.image, delta):
            self._follow(followed)
        if any(isinstance(change, BrokersChanged | Snapshot) for change in delta.changes):
            for broker_id, leader in self._leaders.items():
                self._locate(broker_id, leader)

    def configure(self, config: BrokerConfig) -> None:
        super().configure(config)
        self._quota.configure(config)

    def peer_changed(self, change: PeerChange) -> None:
        if change.peer.role == "worker":
            self._orders.worker_lost(change.peer.index)
            for leader in self._leaders.values():
                leader.fetcher.owner_lost(change.peer.index)
                leader.is_due = True

    def _follow(self, followed: Followed) -> None:
        before = self._leader_of.get(followed.id)
        if before is not None and before != followed.leader:
            self._unfollow(followed.id, before)
        if followed.partition is None:
            return
        leader = self._leaders.get(followed.leader)
        if leader is None:
            leader = self._leaders[followed.leader] = Leader(self._fetches)
            self._locate(followed.leader, leader)
        self._leader_of[followed.id] = followed.leader
        self._by_slot[followed.partition.slot] = leader
        self._table.set_lag(followed.partition.slot, 0)
        leader.fetcher.follow(followed.partition)
        leader.is_due = True

    def _unfollow(self, id: PartitionId, broker_id: int) -> None:
        leader = self._leaders[broker_id]
        leader.fetcher.unfollow(id)
        del self._leader_of[id]
        if len(leader.fetcher):
            leader.is_due = True
        else:
            leader.move_to(None)
            del self._leaders[broker_id]

    def _locate(self, broker_id: int, leader: Leader) -> None:
        """Set its address on the inter-broker listener; none while it is not registered."""
        own = self.image.brokers.get(self.config.node_id)
        leader.broker_epoch = -1 if own is None else own.epoch
        leader.move_to(inter_broker_destination(self.image.brokers, broker_id, self._listener))
        leader.is_due = True

    # The work of each pass.

    def tick(self, now_ms: int) -> None:
        self.connections.tick()
        if not self._may_use_arena:
            self._may_use_arena = self.registry.is_seen_by_all(self.context.key, "worker")
        if self._may_use_arena:
            for leader in self._leaders.values():
                due_ms = leader.fetcher.next_ms()
                if leader.is_due or leader.is_starved or (due_ms is not None and due_ms <= now_ms):
                    leader.tick(now_ms)
        block = self.context.block
        block[FETCHER_LEADERS] = len(self._leaders)
        block[FAILED_PARTITIONS] = sum(len(each.fetcher.failed_partitions) for each in self._leaders.values())
        self._orders.send(self.peers)

    def next_deadline_ms(self) -> int | None:
        if not self._may_use_arena:
            return monotonic_ms() + ARENA_CHECK_MS
        leaders = self._leaders.values()
        if any(leader.is_due for leader in leaders):
            return 0
        # A leader that waits for arena space or an address is woken by the event that ends the wait.
        able = (each for each in leaders if each.destination is not None and not each.is_starved)
        deadlines = [leader.fetcher.next_ms() for leader in able]
        deadlines.append(self.connections.next_deadline_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def finish(self) -> bool:
        self.connections.close()
        return True


def leader_timeouts(config: BrokerConfig) -> ConnectionTimeouts:
    """The receive buffer is set only if it is configured: Kafka's default of 64 KB is small for a fast network."""
    timeouts, option = timeouts_of(config.values, "replica.socket.timeout.ms"), "replica.socket.receive.buffer.bytes"
    size = integer(config.values, option) if option in config.texts.written else -1
    return replace(timeouts, receive_buffer_bytes=size if size > 0 else None)


def fetch_limits(config: BrokerConfig) -> FetchLimits:
    """The limits of one Fetch of a follower."""
    return FetchLimits(
        max_wait_ms=integer(config.values, "replica.fetch.wait.max.ms"),
        min_bytes=integer(config.values, "replica.fetch.min.bytes"),
        max_bytes=integer(config.values, "replica.fetch.response.max.bytes"),
        partition_max_bytes=integer(config.values, "replica.fetch.max.bytes"),
    )
