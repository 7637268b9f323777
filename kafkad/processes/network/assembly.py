"""The composition of a network process: its request handlers, their views, and the functions that send to peers."""

import logging
import os
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.links.host_addresses import address_of
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.connection_counts import ConnectionCounts
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.partition_table import FIRST_BYTES_OUT, PartitionTable
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry
from kafkad.config.entities.broker import BrokerConfig
from kafkad.core.controller.image import MetadataImage
from kafkad.core.quotas.manager import QuotaManager
from kafkad.core.quotas.replication_quota import ReplicationSide
from kafkad.core.sessions.session_cache import MAX_PARTITIONS, SessionCache
from kafkad.handlers.fetch import FetchEvaluator
from kafkad.handlers.partitions.leader_throttle import LeaderThrottle
from kafkad.handlers.partitions.replica_selection import ReplicaSelection
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.plugin_loading import chosen
from kafkad.processes.network.connections.acceptor import Acceptor, ConnectionLimits
from kafkad.processes.network.connections.admission import Admission
from kafkad.processes.network.connections.clients import Clients
from kafkad.processes.network.connections.frame_reader import FrameReader
from kafkad.processes.network.connections.loop_pass import ReadyConnections
from kafkad.processes.network.connections.request_memory import RequestMemory
from kafkad.processes.network.connections.throttle import Throttle
from kafkad.processes.network.connections.unread_replies import UnreadReplies
from kafkad.processes.network.controller_requests import ControllerRequests
from kafkad.processes.network.coordinator_requests import CoordinatorRequests
from kafkad.processes.network.dispatch import RequestDispatcher, RequestHandlers
from kafkad.processes.network.fetch_requests import FetchRequests
from kafkad.processes.network.fetch_watches import FetchWatches
from kafkad.processes.network.logs.page_cache_prefetch import PageCachePrefetch
from kafkad.processes.network.logs.readers import LogReaders
from kafkad.processes.network.logs.reading_threads import LogSearches, ReadingThreads
from kafkad.processes.network.metadata_copy import MetadataCopy
from kafkad.processes.network.owner_requests import OwnerRequests
from kafkad.processes.network.produce_requests import ProduceRequests
from kafkad.processes.network.responses import Responses
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.cordoned_dirs import cordoned_dirs
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.processes.runtime.peer_log import PeerLog, closed_connections_log
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.runtime.replication_quota import replication_quota
from kafkad.processes.runtime.turns import Turns

log = logging.getLogger(__name__)


class Assembly:
    """Builds the parts once, in the order of their dependencies."""

    def __init__(self, loop: EventLoop, sender: Sender, context: ChildContext, now_ms: int) -> None:
        config = context.config
        registry = context.registry
        self.loop = loop
        self._sender = sender
        self._workers = registry.role("worker")
        self.peer_log = closed_connections_log()
        self.acceptor = _acceptor(context, self.loop, self.peer_log)
        self.copy = MetadataCopy(config.node_id, config.log_dirs.log_dirs)
        self._block = context.block
        assert context.plugins is not None, "the supervisor loads the plugins before it forks"
        processes = len(registry.role("network"))
        self._leader_quota = replication_quota(
            context.plugins, config, ReplicationSide.LEADER, processes, context.block
        )
        files = FileCache(context.open_files.files_of_network, read_only=True)
        self.turns = Turns()
        self._files_of_search = context.open_files.files_of_search
        self._threads: list[ReadingThreads] = []
        self._cold_reads = self._reading_threads("cold-read")
        read_ahead = self._searches(self._cold_reads)
        self.logs = LogReaders(files, self.copy, context.table, sender, self._workers, read_ahead)
        self._ready = ReadyConnections()
        self.clients = self._clients(context)
        self.admission = Admission(context, self.acceptor, self.clients)
        self.request_handlers = self._request_handlers(context, now_ms)
        self._requests = RequestDispatcher(
            self.request_handlers,
            auto_create=config.topics.auto_create_topics_enable,
            group_protocols=_group_protocols(config),
        )
        self.clients.serve(self._requests.start)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply changed options of the broker. Options that require a restart keep their old values."""
        self.acceptor.limits = _limits(config)
        self.request_handlers.throttle.configure(config.texts.written)
        self.request_handlers.fetch.max_bytes = config.network.fetch_max_bytes
        self._requests.auto_create = config.topics.auto_create_topics_enable
        self.request_handlers.view.cleanup_policy = _cleanup_policy(config)
        self.request_handlers.view.cordoned_dirs = cordoned_dirs(config)
        self._leader_quota.configure(config)

    def _searches(self, threads: ReadingThreads) -> LogSearches:
        return LogSearches(threads, partial(FileCache, self._files_of_search, read_only=True))

    def _reading_threads(self, name: str) -> ReadingThreads:
        threads = ReadingThreads(name)
        self._threads.append(threads)
        self.loop.watch(threads.doorbell, threads.rung)
        return threads

    def close(self) -> None:
        """Wait for the reads in progress; queued ones are dropped."""
        for threads in self._threads:
            threads.close()

    def _clients(self, context: ChildContext) -> Clients:
        arena = context.arenas[context.key.index]
        space = RequestMemory(_private_bytes(context), self._held_elsewhere)
        unread = UnreadReplies()
        return Clients(
            self.loop.epoll,
            context.block,
            reader=FrameReader(arena, space, context.config.network.socket_request_max_bytes, unread),
            ready=self._ready,
            arena=arena,
            prefetch=PageCachePrefetch(self._ready.add, self._cold_reads, context.table.truncation_generation),
            peer_log=self.peer_log,
            turns=self.turns,
            unread=unread,
        )

    def _held_elsewhere(self) -> int:
        """The size of complete requests that are queued, handled in steps, or wait for the controller."""
        handlers = self.request_handlers
        in_steps = handlers.responses.held_bytes + handlers.fetch.held_bytes
        return in_steps + handlers.controller.held_bytes + self.clients.queued_bytes

    def _request_handlers(self, context: ChildContext, now_ms: int) -> RequestHandlers:
        config, clients = context.config, self.clients
        view = BrokerView(
            broker_id=config.node_id,
            log_dirs=config.log_dirs.log_dirs,
            slots=context.table,
            logs=self.logs,
            image=self.copy.image,
            routing=self.copy.routing,
            volume_space=volume_space,
            offline_dirs=partial(_offline_dirs, context.table),
            cordoned_dirs=cordoned_dirs(config),
            max_partitions_described=config.network.max_request_partition_size_limit,
            cleanup_policy=_cleanup_policy(config),
        )
        throttle = Throttle(_quota(context), context.block, has_others=len(context.registry.role("network")) > 1)
        responses = Responses(
            view,
            clients=clients,
            turns=self.turns,
            # Searches have threads of their own, so that cold reads for `sendfile` do not wait for a long search.
            searches=self._searches(self._reading_threads("search")),
        )
        produce = ProduceRequests(
            arena=context.arenas[context.key.index],
            routing=self.copy.routing,
            throttle=throttle,
            block=context.block,
            workers=len(self._workers),
            clients=clients,
            view=view,
        )
        owners = OwnerRequests(responses, self._sender, self._workers)
        clients.unread.is_describing = owners.is_describing
        return RequestHandlers(
            view=view,
            responses=responses,
            produce=produce,
            fetch=self._fetch(context, throttle, now_ms, view),
            controller=ControllerRequests(responses, clients, context.registry, context.key, context.incarnation),
            owners=owners,
            coordinators=CoordinatorRequests(responses, self.copy.routing, self._sender, self._workers, self.turns),
            throttle=throttle,
        )

    def _fetch(self, context: ChildContext, throttle: Throttle, now_ms: int, view: BrokerView) -> FetchRequests:
        config: BrokerConfig = context.config
        sessions = config.network.max_incremental_fetch_session_cache_slots
        processes = len(context.registry.role("network"))
        share, max_partitions = -(-sessions // processes), MAX_PARTITIONS // processes
        watches = FetchWatches(context.table, len(self._workers))
        copy = self.copy
        throttle_of_followers = LeaderThrottle(self._leader_quota, config.node_id, lambda: copy.image, monotonic_ms)
        return FetchRequests(
            watches=watches,
            evaluator=FetchEvaluator(
                copy.routing,
                context.table,
                self.logs,
                watches.bound,
                config.node_id,
                throttle_of_followers,
                _selection(context, lambda: copy.image),
                config.cluster.inter_broker_listener if config.cluster is not None else None,
            ),
            cache=SessionCache(share, partial(random.randrange, 1, 2**31), max_partitions=max_partitions),
            throttle=throttle,
            block=context.block,
            traffic=context.table,
            column=FIRST_BYTES_OUT + context.key.index,
            max_bytes=config.network.fetch_max_bytes,
            now_ms=now_ms,
            clients=self.clients,
            turns=self.turns,
            view=view,
        )


def _offline_dirs(table: PartitionTable) -> Collection[int]:
    """The last value from the controller."""
    return ControllerHandover(table).offline


def _selection(context: ChildContext, image: Callable[[], MetadataImage]) -> ReplicaSelection | None:
    """None: consumers read from the leader, unless they choose another replica themselves."""
    name = context.config.plugins.replica_selector
    if not name:
        return None
    assert context.plugins is not None
    selector = chosen(context.plugins.replica_selectors, name, "replica.selector.class")
    return ReplicaSelection(selector, context.config.node_id, image)


def _cleanup_policy(config: BrokerConfig) -> str:
    return ",".join(sorted(config.log.cleanup_policy))


def volume_space(path: str) -> tuple[int, int] | None:
    """(total, usable) bytes of the volume under `path`; None when they can't be read."""
    try:
        volume = os.statvfs(path)
    except OSError:
        return None
    return volume.f_frsize * volume.f_blocks, volume.f_frsize * volume.f_bavail


def _private_bytes(context: ChildContext) -> int:
    """This process's share of queued.max.request.bytes; if unset, a quarter of the arena."""
    queued = context.config.network.queued_max_request_bytes
    if queued <= 0:
        return context.arenas[context.key.index].size // 4
    return queued // len(context.registry.role("network"))


def _group_protocols(config: BrokerConfig) -> tuple[str, ...]:
    protocols = config.values["group.coordinator.rebalance.protocols"]
    assert isinstance(protocols, tuple), "this is a list option"
    return tuple(str(each) for each in protocols)


def _acceptor(context: ChildContext, loop: EventLoop, peer_log: PeerLog) -> Acceptor:
    network = context.config.network
    return Acceptor(
        list(context.listeners),
        loop.epoll,
        buffers=(network.socket_send_buffer_bytes, network.socket_receive_buffer_bytes),
        most_here=context.open_files.connections,
        counts=_connection_counts(context),
        limits=_limits(context.config),
        peer_log=peer_log,
        protected=context.config.protected_listeners,
    )


def _connection_counts(context: ChildContext) -> ConnectionCounts:
    registry = context.registry
    others = [key for key in registry.role("network") if key != context.key]
    return ConnectionCounts(context.shared.connections, context.key.index, partial(_live_indexes, registry, others))


def _live_indexes(registry: ProcessRegistry, keys: Sequence[ProcessKey]) -> list[int]:
    return [key.index for key in keys if registry.is_live(key)]


def _limits(config: BrokerConfig) -> ConnectionLimits:
    network = config.network
    return ConnectionLimits(
        all_together=network.max_connections,
        per_ip=network.max_connections_per_ip,
        per_ip_overrides=_by_address(network.max_connections_per_ip_overrides),
        per_second=network.max_connection_creation_rate,
    )


def _by_address(limits: Mapping[str, int]) -> dict[str, int]:
    """As in Apache Kafka, a host name is resolved once, when the broker reads the option."""
    found = {}
    for host, limit in limits.items():
        address = address_of(host)
        if address is None:
            log.error("max.connections.per.ip.overrides: ignoring %s, the host name has no address", host)
        else:
            found[address] = limit
    return found


def _quota(context: ChildContext) -> QuotaManager:
    config = context.config
    assert context.plugins is not None
    manager = chosen(context.plugins.quota_managers, config.plugins.quota_manager, "kafkad.quota.manager")
    manager.configure(config.texts.written)
    return manager
