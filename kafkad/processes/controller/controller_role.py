"""The controller role in the loop of the controller process: events go to the controller, its requests to the brokers.

The controller runs in the store's thread, one call after the other; nothing here waits for it. A broker that is not
elected forwards requests to the controller.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import BrokerConfig
from kafkad.core.cluster.control_requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    UpdateMetadataRequest,
)
from kafkad.core.cluster.protocol_versions import LATEST
from kafkad.core.cluster.request_parts import ControlResponse
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.elected.announcements import Request
from kafkad.core.controller.image import Broker
from kafkad.core.controller.producer_ids import ProducerIdControlManager, UnreadableBlock
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationError, Event, SessionChanged, SessionState, WatchFired
from kafkad.core.errors import ErrorCode
from kafkad.core.ports import NoSpaceLeft
from kafkad.processes.controller.electable_controller import ElectableController, Work
from kafkad.processes.controller.membership import Membership
from kafkad.processes.controller.ports import Host, Send
from kafkad.processes.controller.refused_connections import RefusedConnections, Watched, watched_brokers
from kafkad.processes.controller.requests.broker_channels import (
    BrokerChannels,
    Outcome,
    ReadResponse,
    Registered,
)
from kafkad.processes.controller.requests.client_requests import (
    CreationInPieces,
    PiecewiseRequest,
    RequestInPieces,
)
from kafkad.processes.controller.requests.controlled_shutdown import ControlledShutdown
from kafkad.processes.controller.requests.forwarding import Forwarded, RequestForwarding
from kafkad.processes.controller.requests.isr_changes import IsrChanges
from kafkad.processes.controller.requests.own_configs import CHANGES_CONFIGS, OwnConfigs
from kafkad.processes.controller.timers import DeletionRetries, LeaderBalance, NextTerm
from kafkad.processes.controller.tree_reader import Configs
from kafkad.processes.runtime.broker_connections import Destination
from kafkad.processes.runtime.connection_timeouts import timeouts_of
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.wire import api_table
from kafkad.wire.cluster.broker_requests import CONTROLLED_SHUTDOWN
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage
from kafkad.wire.processes.controller_messages import (
    AdminReply,
    AdminRequest,
    AutoCreated,
    AutoCreateRequest,
    ControllerMessage,
    IsrChangeRequest,
    ProducerIdsGranted,
    ProducerIdsRequest,
    pack_message,
)

log = logging.getLogger(__name__)
SHUTDOWN_VERSION = 3
Result = TypeVar("Result")

_ORDERS = frozenset((nodes.DELETIONS, nodes.REASSIGNMENT, nodes.PREFERRED_ELECTION))


class ControllerRole:
    def __init__(
        self,
        host: Host,
        membership: Membership,
        controller: ElectableController,
        own_configs: OwnConfigs,
        config: BrokerConfig,
        loop: EventLoop,
        send: Send,
    ) -> None:
        self._host = host
        self._membership = membership
        self._controller = controller
        self._own_configs = own_configs
        self._send = send
        self._broker: Broker | None = None
        self._registered: Registered | None = None
        """None: not elected."""
        cluster, client_id = config.cluster, str(host.broker_id)
        versions = LATEST if cluster is None else cluster.versions
        timeouts = timeouts_of(config.values, "controller.socket.timeout.ms")
        log_rate_limit = self._log_rate_limit = LogRateLimit()
        self._broker_channels = BrokerChannels(
            loop, client_id, timeouts, log_rate_limit, versions, self._handle_response
        )
        self._forwarding = RequestForwarding(loop, host, timeouts, log_rate_limit, send)
        self._isr_changes = IsrChanges(host, send, self._forwarding, self._alter_locally, versions)
        self._controlled_shutdown: ControlledShutdown | None = None
        self._shutdown_done: Callable[[], None] = lambda: None
        self._refused_connections = RefusedConnections(
            loop, client_id, timeouts, log_rate_limit, 0 if cluster is None else cluster.suspect_refused_ms
        )
        self._leader_balance = LeaderBalance(config)
        self._deletion_retries = DeletionRetries()
        self._next_term = NextTerm()
        self._has_deletions_to_retry = False
        self._in_pieces: list[PiecewiseRequest] = []

    @property
    def is_elected(self) -> bool:
        return self._registered is not None

    def registered(self, broker: Broker, now_ms: int) -> None:
        self._broker = broker
        self._isr_changes.registered(broker)
        self._run()

    def store_event(self, event: Event, now_ms: int) -> None:
        match event:
            case SessionChanged(SessionState.LOST):
                self._broker = None
                self._send_outcome(Outcome())
                # This broker applies no more changes of the term.
                for work in list(self._in_pieces):
                    self._resigned(work)
            case SessionChanged(SessionState.CONNECTED) if self._broker is not None:
                # A reconnect loses all watches: read everything again.
                self._run()
            case WatchFired(path=nodes.CONTROLLER | nodes.CONTROLLER_EPOCH) if self._broker is not None:
                self._run_unless_elected()
            case WatchFired(path=path) if f"{path}/".startswith(f"{nodes.BROKER_IDS}/"):
                self._do(self._controller.brokers_changed)
            case WatchFired(path=nodes.LOG_DIR_EVENTS):
                self._do(self._controller.directories_failed)
            case WatchFired(path=nodes.ISR_CHANGES):
                self._do(self._controller.isr_changed)
            case WatchFired(path=path) if path in _ORDERS or f"{path}/".startswith(f"{nodes.TOPICS}/"):
                self._do(partial(self._controller.tree_changed, path, self._host.image.cluster_id))

    def configs_changed(self, topics: Configs, brokers: Configs) -> None:
        if self.is_elected and (topics or brokers):
            self._do(lambda _store: self._controller.configs_changed(topics, brokers))

    def peer_ended(self, peer: ProcessKey) -> None:
        for work in self._in_pieces:
            work.is_replied |= work.peer == peer
        self._forwarding.forget(peer)

    def reload(self, static: Mapping[str, str]) -> None:
        self._do(lambda _store: self._controller.reload(static))

    def _run(self) -> None:
        cluster_id = self._host.image.cluster_id
        self._do(lambda store: self._controller.run(store, cluster_id))

    def _run_unless_elected(self) -> None:
        cluster_id = self._host.image.cluster_id
        self._do(lambda store: self._controller.run_unless_elected(store, cluster_id))

    def _do(self, work: Work) -> None:
        self._membership.read(work, self._done)

    def _done(self, future: "Future[Outcome]") -> None:
        outcome = self._result(future)
        if outcome is not None:
            self._send_outcome(outcome)

    def _result(self, future: "Future[Result]") -> Result | None:
        """The result; None after an error of the store: then the broker resigns and runs for the next term."""
        error = future.exception()
        if error is None:
            return future.result()
        if not isinstance(error, CoordinationError):
            raise error
        log.warning("controller resigned: %s", error)
        self._send_outcome(Outcome())
        self._next_term.ended(error, monotonic_ms())
        return None

    def _send_outcome(self, outcome: Outcome, applied: Callable[[], object] | None = None) -> None:
        """Send the requests; `applied` is called when this broker has applied its own ones."""
        if self._broker is None:
            # The session was lost meanwhile.
            outcome = Outcome()
        self._registered, self._has_deletions_to_retry = outcome.registered, outcome.has_deletions_to_retry
        destinations = {broker: Destination(broker, *at) for broker, (_, at) in (outcome.registered or {}).items()}
        self._broker_channels.set_destinations(destinations)
        own_id = self._broker.id if self._broker is not None else None
        last_local = max((at for at, outgoing in enumerate(outcome.requests) if outgoing.broker == own_id), default=-1)
        for at, outgoing in enumerate(outcome.requests):
            then = applied if at == last_local else None
            if outgoing.broker == own_id:
                self._host.transfer(
                    outgoing.request, partial(self._handle_local_response, outgoing.broker, outgoing.request, then)
                )
            else:
                self._broker_channels.send(outgoing)
        if applied is not None and last_local < 0:
            applied()

    def _handle_local_response(
        self, broker: int, request: Request, then: Callable[[], object] | None, response: ControlResponse
    ) -> None:
        self._handle_response(broker, request, lambda: response)
        if then is not None:
            then()

    def _handle_response(self, broker: int, request: Request, read: ReadResponse) -> None:
        if isinstance(request, UpdateMetadataRequest):
            # The response has only an error code, and no error is retried before the next term.
            read()
        else:
            self._do(lambda _store: self._controller.handle_response(broker, request, read()))

    # Requests of clients and of other local processes.

    def handle_request(self, peer: ProcessKey, request: AdminRequest, now_ms: int) -> None:
        if self._own_configs.try_handle(peer, request):
            return
        if self.is_elected:
            self._begin(RequestInPieces(peer, request, now_ms))
        else:
            self._forwarding.forward(peer, request)

    def _create(self, peer: ProcessKey, message: AutoCreateRequest, now_ms: int) -> None:
        if self.is_elected:
            self._begin(CreationInPieces(peer, message, now_ms))
        else:
            self._forwarding.forward(peer, message)

    def _handle_held(self, now_ms: int, peer: ProcessKey, message: Forwarded) -> None:
        if isinstance(message, AutoCreateRequest):
            self._create(peer, message, now_ms)
        else:
            self.handle_request(peer, message, now_ms)

    def _begin(self, work: PiecewiseRequest) -> None:
        self._in_pieces.append(work)
        self._handle_next(work)

    def _handle_next(self, work: PiecewiseRequest) -> None:
        """Handle the next piece; the following one waits until this broker has applied the changes."""
        if work not in self._in_pieces:
            return
        self._membership.handle(
            work.peer,
            work.token,
            lambda _store: self._controller.handle_next(work),
            partial(self._piece_handled, work),
        )

    def _piece_handled(self, work: PiecewiseRequest, future: "Future[Outcome | None]") -> None:
        if isinstance(future.exception(), MalformedRequest | UnencodableMessage):
            self._end(work, AdminReply(work.token, None, str(future.exception())))
            return
        outcome = self._result(future)
        if outcome is None:
            self._resigned(work)
        elif work.is_handled:
            self._send_outcome(outcome, partial(self._applied, work))
        else:
            self._send_outcome(outcome, partial(self._handle_next, work))

    def _resigned(self, work: PiecewiseRequest) -> None:
        """Another broker is elected, or will be."""
        if work in self._in_pieces:
            self._in_pieces.remove(work)
        if isinstance(work, RequestInPieces):
            if not work.is_replied:
                work.is_replied = True
                self._forwarding.forward(work.peer, work.request)
        else:
            codes = dict.fromkeys(work.names, int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            self._send_once(work, AutoCreated(work.token, codes))

    def _applied(self, work: PiecewiseRequest) -> None:
        """This broker has the last changes, but those that it reads from the store."""
        api_key = work.request.context.api_key if isinstance(work, RequestInPieces) else None
        reply = partial(self._reply, work)
        if api_key == api_table.UPDATE_FEATURES:
            # Other brokers read the new levels by their watches.
            self._membership.read_features(partial(self._host.when_applied, work.peer, reply))
        elif api_key in CHANGES_CONFIGS:
            self._membership.read_changes(partial(self._host.when_applied, work.peer, reply))
        else:
            reply()

    def _reply(self, work: PiecewiseRequest) -> None:
        """The work is done."""
        self._end(work, self._reply_of(work))

    def _reply_of(self, work: PiecewiseRequest) -> AdminReply | AutoCreated:
        if isinstance(work, CreationInPieces):
            return AutoCreated(work.token, self._forwarding.codes_of(work.results()))
        try:
            return work.reply()
        except (MalformedRequest, UnencodableMessage) as error:
            return AdminReply(work.token, None, str(error))

    def _end(self, work: PiecewiseRequest, reply: AdminReply | AutoCreated) -> None:
        if work in self._in_pieces:
            self._in_pieces.remove(work)
        self._send_once(work, reply)

    def _send_once(self, work: PiecewiseRequest, reply: AdminReply | AutoCreated) -> None:
        if not work.is_replied:
            work.is_replied = True
            self._send(work.peer, pack_message(reply))

    def _time_out(self, now_ms: int) -> None:
        for work in self._in_pieces:
            if work.timeout_at_ms <= now_ms and not work.is_replied:
                self._send_once(work, self._reply_of(work))

    def handle(self, peer: ProcessKey, message: ControllerMessage, now_ms: int) -> bool:
        match message:
            case IsrChangeRequest():
                self._isr_changes.request_change(peer, message)
            case ProducerIdsRequest():
                broker_id = self._host.broker_id
                self._membership.read(
                    lambda store: ProducerIdControlManager(store, broker_id).allocate_block(),
                    partial(self._grant_producer_ids, peer, now_ms),
                )
            case AutoCreateRequest():
                self._create(peer, message, now_ms)
            case _:
                return False
        return True

    def _grant_producer_ids(self, peer: ProcessKey, now_ms: int, future: "Future[range]") -> None:
        error = future.exception()
        if isinstance(error, UnreadableBlock | NoSpaceLeft) and self._log_rate_limit.is_due("no producer ids", now_ms):
            log.error("no producer ids can be allocated: %s", error)
        block = future.result() if error is None else range(0)
        self._send(peer, pack_message(ProducerIdsGranted(block.start, len(block))))

    def _alter_locally(
        self, request: AlterPartitionRequest, on_response: Callable[[AlterPartitionResponse | None], None]
    ) -> bool:
        if not self.is_elected:
            return False

        def done(future: "Future[tuple[Outcome, AlterPartitionResponse]]") -> None:
            result = self._result(future)
            if result is not None:
                self._send_outcome(result[0])
            on_response(None if result is None else result[1])

        self._membership.read(lambda _store: self._controller.alter_partitions(request), done)
        return True

    def begin_controlled_shutdown(self, tries: int, pause_ms: int, done: Callable[[], None]) -> None:
        """`done` is called when other brokers lead instead, or after the last retry."""
        self._controlled_shutdown = ControlledShutdown(self._host, tries, pause_ms)
        self._shutdown_done = done

    def _continue_shutdown(self, shutdown: ControlledShutdown, now_ms: int) -> None:
        was_over = shutdown.is_over
        shutdown.tick(self._broker, now_ms, has_store=self._membership.is_connected)
        request = shutdown.take_request(self._broker, now_ms)
        if shutdown.is_over and not was_over:
            self._shutdown_done()
        elif request is not None and self.is_elected:
            self._shut_down_locally(request, shutdown)
        elif request is not None:
            self._forwarding.send_request(
                *(api_table.CONTROLLED_SHUTDOWN, SHUTDOWN_VERSION, CONTROLLED_SHUTDOWN, request),
                shutdown.response_received,
            )

    def _shut_down_locally(self, request: ControlledShutdownRequest, shutdown: ControlledShutdown) -> None:
        def done(future: "Future[tuple[Outcome, ControlledShutdownResponse]]") -> None:
            result = self._result(future)
            if result is None:
                shutdown.response_received(None)
            else:
                self._send_outcome(result[0], partial(shutdown.response_received, result[1]))

        self._membership.read(lambda _store: self._controller.controlled_shutdown(request), done)

    # Brokers that refuse connections although their sessions are alive.

    def _watched(self) -> list[Watched]:
        """The controller watches all other brokers, and they watch the controller."""
        if self._broker is None:
            return []
        if self._registered is not None:
            return watched_brokers(self._registered, self._broker.id)
        to = self._forwarding.destination()
        return [] if to is None else [Watched(to, self._host.controller_epoch)]

    def _refused(self, watched: Watched) -> None:
        broker = watched.destination.broker_id
        if self.is_elected:
            self._do(lambda store: self._controller.connections_refused(store, broker, watched.epoch))
        else:
            cluster_id = self._host.image.cluster_id
            self._do(lambda store: self._controller.run_instead_of(store, cluster_id, broker))

    def _recovered(self, watched: Watched) -> None:
        if self.is_elected:
            broker = watched.destination.broker_id
            self._do(lambda store: self._controller.connections_accepted(store, broker, watched.epoch))

    def tick(self, now_ms: int) -> None:
        controller = self._controller
        if self._next_term.is_due(now_ms) and self._broker is not None and self._membership.is_connected:
            self._run()
        self._refused_connections.watch(self._watched())
        self._refused_connections.tick()
        for watched in self._refused_connections.take_suspects():
            self._refused(watched)
        for watched in self._refused_connections.take_recovered():
            self._recovered(watched)
        if self._controlled_shutdown is not None:
            self._continue_shutdown(self._controlled_shutdown, now_ms)
        if self._leader_balance.is_due(self.is_elected, now_ms):
            self._do(lambda _store: controller.balance_leaders(self._leader_balance.percentage))
        if self._deletion_retries.is_due(self._has_deletions_to_retry, now_ms):
            self._do(lambda _store: controller.retry_deletions())
        self._broker_channels.tick()
        self._forwarding.tick(partial(self._handle_held, now_ms) if self.is_elected else None)
        self._time_out(now_ms)
        self._isr_changes.tick(now_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        timers = self._next_term, self._leader_balance, self._deletion_retries, self._controlled_shutdown
        requesters = self._broker_channels, self._forwarding, self._isr_changes, self._refused_connections
        deadlines = [each.next_deadline_ms for each in (*timers, *requesters) if each is not None]
        deadlines += [work.timeout_at_ms for work in self._in_pieces if not work.is_replied]
        return min((each for each in deadlines if each is not None), default=None)

    def end(self) -> None:
        self._broker_channels.close()
        self._forwarding.close()
        self._refused_connections.close()
