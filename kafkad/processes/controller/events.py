"""How the controller process handles messages: requests of the elected controller are applied and published, reports of
other processes are stored, and all other messages go to the controller role.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.process_registry import FIRST_INCARNATION, ProcessKey
from kafkad.config import BrokerConfig
from kafkad.config.dynamic import apply_dynamic, with_static
from kafkad.core.cluster.request_parts import ControlRequest
from kafkad.core.controller.deltas import BrokerConfigChanged, created_partitions
from kafkad.core.controller.image import DEFAULT_BROKER, MetadataImage
from kafkad.core.controller.topics.topics import NewTopic
from kafkad.core.coordination_store import Event, SessionChanged, SessionState
from kafkad.core.metrics.catalogue import ACTIVE_CONTROLLER
from kafkad.handlers.controller.requests.controller_view import LONGEST_WAIT_MS
from kafkad.processes.controller.checkpoints import checkpoints_of
from kafkad.processes.controller.control_api import (
    MESSAGES,
    read_control_request,
    unauthorized,
    write_control_response,
)
from kafkad.processes.controller.control_request_queue import ControlRequestQueue
from kafkad.processes.controller.directory_moves import DirectoryMoves
from kafkad.processes.controller.gauges import PartitionGauges, count_offline
from kafkad.processes.controller.internal_topics import internal_topics
from kafkad.processes.controller.membership import Membership
from kafkad.processes.controller.metadata_publisher import MetadataPublisher
from kafkad.processes.controller.opening import OpenedHost
from kafkad.processes.controller.ports import Elected, OnResponse, Send
from kafkad.processes.controller.quota_counts import forward
from kafkad.processes.controller.replica_removals import ReplicaRemovals
from kafkad.processes.controller.replies import Replies, WaitingReply
from kafkad.processes.controller.requests.log_dir_events import LogDirEvents
from kafkad.processes.controller.store.store_copies import StoreCopies
from kafkad.processes.controller.tables import ignored_options
from kafkad.processes.controller.tree_reader import Configs, configs_of_new, topic_names
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.cordoned_dirs import cordoned_dirs
from kafkad.wire.api_table import CLUSTER_APIS
from kafkad.wire.processes.controller_messages import (
    AdminReply,
    AdminRequest,
    Applied,
    ControllerMessage,
    DirectoriesRemoved,
    FullLogDirs,
    LogDirFailed,
    LogsMoved,
    PartitionMoved,
    QuotaCounts,
    RemovalFailed,
    SnapshotRequest,
    pack_message,
)

log = logging.getLogger(__name__)


class EveryDirectoryFailed(Exception):
    """The last log directory has failed; the message has its path and the cause."""


class HostEvents:
    """One incarnation of the controller process, after its session was opened."""

    def __init__(
        self,
        context: ChildContext,
        handover: ControllerHandover,
        opened: OpenedHost,
        send: Send,
        membership: Membership,
        now_ms: int,
    ) -> None:
        self._context = context
        self._handover = handover
        self._hosting = opened.hosting
        self._send = send
        self._now_ms = now_ms
        self._offline = opened.offline
        self._config: BrokerConfig = context.config
        cluster = context.config.cluster
        self._for_brokers = cluster.broker_listeners if cluster is not None else frozenset()
        self._first_version = opened.hosting.image.version
        self._membership = membership
        self._published = opened.hosting.image
        self._elected: Elected | None = None
        self._metadata_publisher = MetadataPublisher(context.registry, send)
        directories = context.log_directories
        self._removals = ReplicaRemovals(context.table, directories, self._hosting.unremoved, opened.unreferenced_slots)
        self._requests = ControlRequestQueue(
            *(opened.hosting, self._read_configs, self._read_topics, self._publish, self._removals),
            lambda: membership.is_connected,
        )
        self._removals.offline = opened.offline
        if context.incarnation == FIRST_INCARNATION:
            self._removals.remove_leftovers(opened.leftovers)
        self._log_dir_events = LogDirEvents(context.config.node_id, membership.read)
        if context.incarnation != FIRST_INCARNATION:
            # The previous incarnation may have died before it notified the controller.
            opened.hosting.replicas_inherited()
            self._log_dir_events.send()
        self._checkpoints = checkpoints_of(context, opened.offline, now_ms, self._directory_failed)
        self._checkpoints.remove_entries(opened.missing)
        self._replies = Replies()
        self._moves = DirectoryMoves(opened.hosting, self._checkpoints, directories, self._publish, self._replies, send)
        self._store_copies = StoreCopies(membership, directories[0].path) if cluster is None else None
        self._gauges = PartitionGauges(context.block, context.config.node_id)
        self._without_space: dict[ProcessKey, frozenset[int]] = {}
        """The log directories without free space, by worker."""
        self._is_to_count = True
        self._reconfigure()

    def begin(self) -> None:
        """Send the first version of the metadata; the broker registers when it is applied."""
        self._keep()
        self._name_ignored()
        self._metadata_publisher.announce(self._first_version)

    def _name_ignored(self) -> None:
        ignored = ", ".join(ignored_options(self._hosting.image.broker_configs, self._config.node_id))
        if ignored:
            log.warning(
                "ignoring stored dynamic values of %s: these options are static in this version, set them in the file;"
                " kafka-configs --delete-config, or the next change of the broker's configuration, removes them",
                ignored,
            )

    # The `Host` of the elected controller.

    @property
    def image(self) -> MetadataImage:
        return self._hosting.image

    @property
    def controller_epoch(self) -> int:
        return self._hosting.controller_epoch

    @property
    def config(self) -> BrokerConfig:
        return self._config

    @property
    def broker_id(self) -> int:
        return self._config.node_id

    @property
    def inter_broker_listener(self) -> str:
        return self._config.inter_broker_listener

    @property
    def internal_topics(self) -> Mapping[str, NewTopic]:
        return internal_topics(self._config)

    def transfer(self, request: ControlRequest, on_response: OnResponse) -> None:
        self._requests.add(request, on_response, self._now_ms)

    def when_applied(self, peer: ProcessKey, then: Callable[[], object]) -> None:
        version, deadline_ms = self._hosting.image.version, self._now_ms + LONGEST_WAIT_MS
        self._replies.add(WaitingReply(peer, then, version, deadline_ms))

    def attach(self, elected: Elected) -> None:
        self._elected = elected

    # Incoming messages.

    def peer_linked(self, peer: ProcessKey) -> None:
        self._keep()
        if peer.role == "worker":
            self._removals.worker_linked(peer.index)
        self._metadata_publisher.linked(peer, self._hosting.image)

    def peer_ended(self, peer: ProcessKey) -> None:
        self._metadata_publisher.unlinked(peer)
        self._replies.forget(peer)
        if self._elected is not None:
            self._elected.peer_ended(peer)
        if peer.role == "worker":
            self._removals.worker_ended(peer.index)

    def reload(self, static: Mapping[str, str]) -> None:
        self._config = with_static(self._config, static)
        self._reconfigure()
        if self._elected is not None:
            self._elected.reload(static)

    def _reconfigure(self) -> None:
        configs = self._hosting.image.broker_configs
        own = configs.get(str(self._config.node_id), {})
        self._config = apply_dynamic(self._config, configs.get(DEFAULT_BROKER, {}), own)
        self._hosting.cordon(cordoned_dirs(self._config))

    def handle(self, peer: ProcessKey, message: ControllerMessage, now_ms: int) -> None:
        self._now_ms = now_ms
        match message:
            case AdminRequest() if message.context.api_key in MESSAGES:  # Repeated until it is answered: no mark.
                self._handle_control_request(peer, message)
            case AdminRequest():
                with self._membership.mark.handling(peer, message.token):
                    self._handle_request(peer, message)
            case SnapshotRequest(have_version):
                self._metadata_publisher.snapshot_requested(peer, have_version, self._hosting.image)
            case Applied():
                return  # It only wakes the process: the end of the pass reads the process registry.
            case LogsMoved(lowered):
                self._checkpoints.moved(now_ms, lowered=lowered)
            case DirectoriesRemoved(_, slots):
                self._removals.removed(slots)
            case RemovalFailed(slot, cause, is_full):
                self._removals.failed(slot, cause, is_full=is_full)
            case QuotaCounts():
                forward(self._context.registry, self._send, peer, message)
            case LogDirFailed(log_dir, cause):
                self._directory_failed(log_dir, cause)
            case FullLogDirs(log_dirs):
                self._without_space[peer] = frozenset(log_dirs)
                self._hosting.log_dirs_without_space(frozenset().union(*self._without_space.values()))
            case PartitionMoved():
                self._moves.completed(message)
            case _:
                if self._elected is None or not self._elected.handle(peer, message, now_ms):
                    log.debug("unhandled message %s from %s", type(message).__name__, peer)

    def _handle_request(self, peer: ProcessKey, message: AdminRequest) -> None:
        context = message.context
        if self._moves.try_handle(peer, message, self._offline, self._now_ms):
            return
        if context.api_key in CLUSTER_APIS and context.connection.listener not in self._for_brokers:
            self._reply(peer, AdminReply(message.token, None, "this request is for brokers, not for clients"))
        elif self._elected is not None:
            self._elected.handle_request(peer, message, self._now_ms)
        else:
            self._reply(peer, AdminReply(message.token, None, "this broker does not support this request in a cluster"))

    def _handle_control_request(self, peer: ProcessKey, message: AdminRequest) -> None:
        context = message.context
        if context.connection.listener not in self._for_brokers:
            self._reply(peer, AdminReply(message.token, unauthorized(context.api_key, context.version)))
            return
        reply = partial(self._reply, peer)
        self._requests.add_in_steps(
            read_control_request(message, reply), partial(write_control_response, message, reply), self._now_ms
        )

    def _reply(self, peer: ProcessKey, reply: AdminReply) -> None:
        self._send(peer, pack_message(reply))

    # The store.

    def _read_configs(self, names: set[str], read: Callable[["Future[Configs]"], None]) -> None:
        self._membership.read(lambda store: configs_of_new(store, names), read)

    def _read_topics(self, read: Callable[["Future[frozenset[str]]"], None]) -> None:
        self._membership.read(topic_names, read)

    def configs_changed(self, topics: Configs, brokers: Configs, groups: Configs) -> None:
        """Configurations were changed."""
        for name, configs in topics.items():
            self._hosting.topic_config_changed(name, configs)
        for broker, configs in brokers.items():
            self._hosting.broker_config_changed(broker, configs)
        for group_id, configs in groups.items():
            self._hosting.group_config_changed(group_id, configs)
        self._publish()
        if self._elected is not None:
            self._elected.configs_changed(topics, brokers)

    def features_changed(self, levels: Mapping[str, int], epoch: int) -> None:
        self._hosting.features_changed(levels, epoch)
        self._publish()

    def registered(self) -> None:
        """The broker has a new registration; requests to earlier ones are rejected."""
        broker = self._membership.broker
        assert broker is not None, "called after the registration"
        self._hosting.registered(broker.epoch, broker.listeners, broker.rack)
        self._publish()
        if self._elected is not None:
            self._elected.registered(broker, self._now_ms)

    def session_lost(self) -> None:
        self._requests.abandon()
        self._hosting.session_lost()
        self._publish()

    def store_event(self, event: Event) -> None:
        if event == SessionChanged(SessionState.CONNECTED):
            self._requests.connected()
        if self._elected is not None:
            self._elected.store_event(event, self._now_ms)

    def begin_controlled_shutdown(self, done: Callable[[], None]) -> None:
        """`done` is called when other brokers lead instead, as far as possible."""
        if self._elected is None:
            done()
            return
        values = self._config.values
        tries, pause_ms = values["controlled.shutdown.max.retries"], values["controlled.shutdown.retry.backoff.ms"]
        assert isinstance(tries, int) and isinstance(pause_ms, int), "they are integer options"
        self._elected.begin_controlled_shutdown(tries, pause_ms, done)

    # Log directories.

    def _directory_failed(self, log_dir: int, cause: str) -> None:
        if log_dir in self._offline:
            return
        path = self._context.log_directories[log_dir].path
        log.error("log directory %s has failed, its partitions are offline: %s", path, cause)
        self._offline |= {log_dir}
        self._removals.offline = self._offline
        self._checkpoints.forget(log_dir)
        self._keep()
        if len(self._offline) == len(self._context.log_directories):
            raise EveryDirectoryFailed(f"every log directory has failed, the last one {path}: {cause}")
        self._hosting.directory_failed(log_dir)
        self._publish()
        self._log_dir_events.send()

    def _report_log_dir_space(self) -> None:
        event = self._hosting.take_space_event()
        if event is None:
            return
        if event.resigned:
            log.warning("log directory full: requesting other leaders for %d partition(s)", len(event.resigned))
        if event.regained:
            log.info("log directory has free space: this broker can lead %d partition(s) again", len(event.regained))
        self._log_dir_events.send()

    # Outgoing messages.

    def _publish(self) -> None:
        changes = self._hosting.take_deltas()
        if not changes:
            return
        before, self._published = self._published, self._hosting.image
        self._keep()
        self._removals.began(before, changes)
        made = [each for each in created_partitions(changes) if self._hosting.has_replica(each)]
        self._checkpoints.remove_entries(made)
        self._metadata_publisher.publish(changes)
        if any(isinstance(change, BrokerConfigChanged) for delta in changes for change in delta.changes):
            self._reconfigure()
        self._checkpoints.moved(self._now_ms)
        self._gauges.changed(changes)
        self._is_to_count = True

    def _keep(self) -> None:
        """Record slots for the next controller process of this broker, before they are published."""
        self._handover.keep(self._hosting.slots_ever_used, self._offline)

    def _count(self) -> None:
        """Count after all steps of a request."""
        if self._is_to_count and not self._requests.is_under_way:
            self._is_to_count = False
            count_offline(self._context.block, self._offline)
            self._gauges.count(self._hosting.image)

    def tick(self, now_ms: int) -> None:
        self._now_ms = now_ms
        if self._membership.fatal_error is not None:
            raise self._membership.fatal_error
        for log_dir, cause in self._removals.take_failed().items():
            self._directory_failed(log_dir, cause)
        applied = self._metadata_publisher.applied()
        if applied >= self._first_version:
            # Apache Kafka also registers after the logs are loaded.
            self._membership.begin_to_register()
        self._hosting.acknowledged(self._removals.reusable(applied))
        self._requests.tick(now_ms)
        self._requests.send_ready(applied, now_ms)
        self._replies.send_ready(applied, now_ms)
        self._report_log_dir_space()
        self._log_dir_events.tick(now_ms, is_registered=self._membership.broker is not None)
        if self._elected is not None:
            self._elected.tick(now_ms)
            self._is_to_count |= self._context.block[ACTIVE_CONTROLLER] != self._elected.is_elected
            self._context.block[ACTIVE_CONTROLLER] = self._elected.is_elected
        self._count()
        self._checkpoints.write_due(self._hosting.image, now_ms)
        if self._store_copies is not None:
            self._store_copies.tick(now_ms)
            if self._store_copies.failure is not None:
                self._directory_failed(0, self._store_copies.failure)

    @property
    def next_deadline_ms(self) -> int | None:
        sources = (
            *(self._requests, self._checkpoints, self._replies, self._log_dir_events),
            *(self._elected, self._store_copies),
        )
        deadlines = (each.next_deadline_ms for each in sources if each is not None)
        return min((each for each in deadlines if each is not None), default=None)

    def finish(self) -> bool:
        """Write the last checkpoints and end the session; returns whether everything is on disk."""
        failed_before = self._offline
        if self._elected is not None:
            self._elected.end()
        self._removals.close()
        self._checkpoints.write_last(self._hosting.image)
        self._membership.end()
        return self._offline == failed_before
