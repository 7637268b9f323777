"""The elected controller with its store. All methods wait for ZooKeeper, so they run in the store's thread.

Each method returns an `Outcome`: the requests to send to brokers, and the addresses of the brokers.
"""

import logging
from collections.abc import Callable, Mapping

from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.core.cluster.control_requests import (
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kafkad.core.cluster.protocol_versions import LATEST
from kafkad.core.cluster.request_parts import ControlResponse
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.elected.announcements import Announcer, Request
from kafkad.core.controller.elected.controller_failover import controller_failover
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.elected.node_orders import NodeOrders, stored_states, take_isr_changes, take_log_dir_events
from kafkad.core.controller.elected.registrations import live_brokers, remove_unsupported
from kafkad.core.controller.image import Broker, MetadataImage
from kafkad.core.controller.producer_ids import ProducerIdControlManager
from kafkad.core.controller.settings import LocalSpace
from kafkad.core.controller.startup.term import Term, UnreadableEpoch, claim, ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.store.unreadable_nodes import UnreadableNodes
from kafkad.core.coordination_store import BadVersion, CoordinationStore, NodeExists, NodeStat, NoNode
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.hosting.shutdown_tries import names_of
from kafkad.core.metrics.catalogue import UNCLEAN_ELECTIONS
from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH
from kafkad.handlers.controller.requests.controller_view import ControllerView
from kafkad.plugin_loading import chosen
from kafkad.processes.controller.requests.broker_channels import (
    Outcome,
    encoded,
    handle_broker_response,
    retry_deletions,
)
from kafkad.processes.controller.requests.client_requests import CreationInPieces, PiecewiseRequest
from kafkad.processes.controller.startup import new_id, random_source, settings_of
from kafkad.processes.controller.tables import LiveTables
from kafkad.processes.controller.tree_reader import Configs, controller_id, finalized_features, may_replace
from kafkad.processes.runtime.child import ChildContext
from kafkad.wire import api_table
from kafkad.wire.cluster.alter_partition import ALTER_PARTITION
from kafkad.wire.cluster.broker_requests import ALLOCATE_PRODUCER_IDS, CONTROLLED_SHUTDOWN
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.controller_messages import AdminRequest

log = logging.getLogger(__name__)

Work = Callable[[CoordinationStore], "Outcome"]


class ElectableController:
    """One for each controller process; `_controller` is None while this broker is not elected."""

    def __init__(self, context: ChildContext, space: LocalSpace | None) -> None:
        """`space` is that of the only broker."""
        assert context.plugins is not None, "the supervisor loads the plugins before it forks"
        self._context, self._plugins = context, context.plugins
        self._broker_id = context.config.node_id
        cluster = context.config.cluster
        self._listener = context.config.inter_broker_listener
        self._control_plane = self._listener if cluster is None else cluster.control_plane_listener
        self._versions = LATEST if cluster is None else cluster.versions
        self._space = space
        self._static: Mapping[str, str] | None = None
        """The configuration file, if it was read again."""
        self._election = chosen(
            context.plugins.leader_election_strategies,
            context.config.plugins.leader_election_strategy,
            "kafkad.leader.election.strategy",
        )
        self._random = random_source()
        self._logged: dict[str, str] = {}
        """The logged problem of a node, by path."""
        self._controller: ElectedController | None = None
        self._tree: MetadataTree | None = None
        self._orders: NodeOrders | None = None
        self._tables: LiveTables | None = None
        self._view: ControllerView | None = None
        self._registered: Mapping[int, Broker] = {}
        self._log_rate_limit = LogRateLimit()
        self._shutting_down: dict[int, str] = {}
        """The logged remaining partitions of a controlled shutdown, by broker id."""
        self._refusing_brokers: set[tuple[int, int]] = set()
        """Ids and epochs of registered brokers whose hosts refuse connections."""

    def resign(self) -> None:
        """Drop the controller state: another broker is elected, or may be."""
        self._controller = self._tree = self._tables = self._view = self._orders = None

    def run(self, store: CoordinationStore, cluster_id: str, instead_of: int | None = None) -> Outcome:
        """Run for controller if there is none, or only the broker `instead_of`; watch the controller's node."""
        self.resign()
        try:
            holder = store.exists(nodes.CONTROLLER, watch=True)
            if holder is not None and not may_replace(store, holder, instead_of):
                self._check_holder(holder)
                return Outcome()
            term = claim(store, self._broker_id, wall_clock_ms(), None if instead_of is None else holder)
        except UnreadableEpoch as error:
            self._log_once({nodes.CONTROLLER_EPOCH: f"no broker can be elected controller: {error}"})
            store.exists(nodes.CONTROLLER_EPOCH, watch=True)
            return Outcome()
        except (KafkaError, NodeExists, BadVersion, NoNode):
            store.exists(nodes.CONTROLLER, watch=True)
            return Outcome()
        store.exists(nodes.CONTROLLER, watch=True)
        self._log_election(term, instead_of)
        brokers, refusing = self._brokers(store)
        ensure_paths(store)  # Some may have been removed.
        for path in (nodes.TOPICS, nodes.DELETIONS):
            store.children(path, watch=True)
        tree = self._tree = MetadataTree(store, term)
        take_isr_changes(tree)  # Before all states are read.
        self._tables = self._new_tables(tree.load_broker_configs())
        left_out = UnreadableNodes()
        self._controller = controller_failover(
            store,
            tree,
            settings=settings_of(self._tables.broker),
            election=self._election,
            announcer=Announcer(
                controller_id=self._broker_id,
                controller_epoch=term.epoch,
                listener=self._listener,
                brokers=brokers,
                unreachable=refusing,
            ),
            cluster_id=cluster_id,
            new_topic_id=new_id,
            left_out=left_out,
            space=self._space,
        )
        # All brokers get LeaderAndIsr, and report their failed log directories in the responses.
        take_log_dir_events(tree)
        self._log_once(_left_out(left_out.reasons))
        self._view = self._new_view(store, self._controller, self._tables)
        self._orders = NodeOrders(self._controller, store, term, self._log_once)
        self._orders.carry_out()
        return self._outcome()

    def _log_election(self, term: Term, instead_of: int | None) -> None:
        cause = "" if instead_of is None else f", in place of broker {instead_of}, whose host refuses connections"
        log.info("broker %d is elected controller with epoch %d%s", self._broker_id, term.epoch, cause)

    def run_unless_elected(self, store: CoordinationStore, cluster_id: str) -> Outcome:
        """/controller has changed, maybe by this broker's own election."""
        holder = store.exists(nodes.CONTROLLER, watch=True)
        if self._controller is not None and holder is not None and holder.ephemeral_owner == store.session_id:
            if not holder.version or controller_id(store) == self._broker_id:
                return self._outcome()
            log.warning("%s names another broker: resigning, as if the node were deleted", nodes.CONTROLLER)
            store.delete(nodes.CONTROLLER, holder.version)
        return self.run(store, cluster_id)

    def run_instead_of(self, store: CoordinationStore, cluster_id: str, refusing: int) -> Outcome:
        """The controller's host refuses connections: run for controller before its session expires."""
        if self._controller is not None:
            return self._outcome()
        epoch = store.exists(f"{nodes.BROKER_IDS}/{refusing}")
        self._refusing_brokers = set() if epoch is None else {(refusing, epoch.created_id)}
        return self.run(store, cluster_id, refusing)

    def connections_refused(self, store: CoordinationStore, broker: int, epoch: int) -> Outcome:
        """Treat the broker as failed, as if its session had expired. If it is alive, epochs fence it."""
        if self._controller is None or (broker, epoch) in self._refusing_brokers:
            return self._outcome()
        log.warning("broker %d is treated as failed until it responds: its host refuses connections", broker)
        self._refusing_brokers.add((broker, epoch))
        return self.brokers_changed(store)

    def connections_accepted(self, store: CoordinationStore, broker: int, epoch: int) -> Outcome:
        if self._controller is None or (broker, epoch) not in self._refusing_brokers:
            return self._outcome()
        log.info("broker %d is back: its host accepts connections again", broker)
        self._refusing_brokers.discard((broker, epoch))
        return self.brokers_changed(store)

    def _new_tables(self, broker_configs: Mapping[str, Mapping[str, str]]) -> LiveTables:
        plugins = self._plugins
        tables = LiveTables(self._context.config, frozenset(plugins.cleanup_policies), plugins.topic_configs)
        if self._static is not None:
            tables.reread(self._static)
        tables.overlay(MetadataImage(broker_configs=broker_configs))
        return tables

    def _new_view(self, store: CoordinationStore, controller: ElectedController, tables: LiveTables) -> ControllerView:
        return ControllerView(
            controller=controller,
            configs=tables,
            random_source=self._random,
            log_rate_limit=self._log_rate_limit,
            producer_ids=ProducerIdControlManager(store, self._broker_id),
        )

    def _brokers(self, store: CoordinationStore) -> tuple[dict[int, Broker], frozenset[int]]:
        """The registered brokers, and the ids of those that refuse connections."""
        brokers, invalid = live_brokers(store, self._listener, watch=True)
        invalid |= remove_unsupported(brokers, finalized_features(store)[0])
        self._log_once(_left_out({f"{nodes.BROKER_IDS}/{name}": reason for name, reason in invalid.items()}))
        self._refusing_brokers &= {(each.id, each.epoch) for each in brokers.values()}
        self._registered = brokers
        return brokers, frozenset(broker for broker, _ in self._refusing_brokers)

    def _check_holder(self, holder: NodeStat) -> None:
        """Log a controller node without a session: it would stay for ever."""
        if not holder.ephemeral_owner:
            what = f"{nodes.CONTROLLER} in ZooKeeper is not ephemeral: no controller is elected until it is deleted"
            self._log_once({nodes.CONTROLLER: what})

    def _log_once(self, lines: Mapping[str, str]) -> None:
        """Log each line once."""
        for path, line in lines.items():
            if self._logged.get(path) != line:
                log.error("%s", line)
            self._logged[path] = line

    def brokers_changed(self, store: CoordinationStore) -> Outcome:
        if self._controller is None:
            return Outcome()
        self._shutting_down.clear()
        self._controller.brokers_changed(*self._brokers(store))
        return self._outcome()

    def directories_failed(self, store: CoordinationStore) -> Outcome:
        if self._controller is None or self._tree is None:
            return Outcome()
        self._controller.directories_failed(take_log_dir_events(self._tree))
        return self._outcome()

    def isr_changed(self, store: CoordinationStore) -> Outcome:
        if self._controller is None or self._tree is None:
            return Outcome()
        self._controller.isr_changed(stored_states(store, take_isr_changes(self._tree)))
        return self._outcome()

    def handle_response(self, broker: int, request: Request, response: ControlResponse | None) -> Outcome:
        """Handle a broker's response; None if it can't be read."""
        if self._controller is None:
            return Outcome()
        handle_broker_response(self._controller, broker, request, response)
        return self._outcome()

    def tree_changed(self, path: str, cluster_id: str, store: CoordinationStore) -> Outcome:
        """A foreign topic or deletion starts a new term, which reads everything. Or a tool wrote an order."""
        controller, orders = self._controller, self._orders
        if controller is None or orders is None:
            return Outcome()
        if path.startswith(f"{nodes.TOPICS}/"):
            return self.run(store, cluster_id) if orders.topics.have_grown(path) else self._outcome()
        topics, deletions = (set(store.children(each, watch=True)) for each in (nodes.TOPICS, nodes.DELETIONS))
        being_deleted = controller.deletions.keys() | controller.unreadable_topics
        are_known = topics <= controller.image.topics.keys() | being_deleted and deletions <= being_deleted
        if orders.topics.have_grown(path) or not are_known:
            return self.run(store, cluster_id)
        orders.carry_out()
        return self._outcome()

    def configs_changed(self, topics: Configs, brokers: Configs) -> Outcome:
        """These configurations were changed."""
        if self._controller is None or self._tables is None:
            return Outcome()
        if brokers:
            self._tables.overlay(MetadataImage(broker_configs={**self._controller.image.broker_configs, **brokers}))
        self._controller.configs_changed(topics, brokers, settings_of(self._tables.broker))
        return self._outcome()

    def reload(self, static: Mapping[str, str]) -> Outcome:
        """The configuration file was read again."""
        self._static = static
        if self._controller is None or self._tables is None:
            return Outcome()
        self._tables.reread(static)
        self._controller.configs_changed({}, {}, settings_of(self._tables.broker))
        return self._outcome()

    def balance_leaders(self, percentage: int) -> Outcome:
        if self._controller is None:
            return Outcome()
        if moved := self._controller.balance_leaders(percentage):
            log.info("%d partition(s) are led by their preferred replica again", moved)
        return self._outcome()

    def retry_deletions(self) -> Outcome:
        if self._controller is None:
            return Outcome()
        retry_deletions(self._controller)
        return self._outcome()

    def alter_partitions(self, request: AlterPartitionRequest) -> tuple[Outcome, AlterPartitionResponse]:
        if self._controller is None:
            return Outcome(), AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
        response = self._controller.alter_partitions(request)
        return self._outcome(), response

    def controlled_shutdown(self, request: ControlledShutdownRequest) -> tuple[Outcome, ControlledShutdownResponse]:
        if self._controller is None:
            return Outcome(), ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER)
        response = self._shut_down(self._controller, request)
        return self._outcome(), response

    def _shut_down(
        self, controller: ElectedController, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        response = controller.controlled_shutdown(request)
        left = names_of(response.remaining_partitions) or "none"
        if response.error_code == ErrorCode.NONE and self._shutting_down.get(request.broker_id) != left:
            # The broker may repeat the request.
            self._shutting_down[request.broker_id] = left
            log.info("broker %d is shutting down; partitions that it still leads: %s", request.broker_id, left)
        return response

    def handle_next(self, work: PiecewiseRequest) -> Outcome | None:
        """Handle the next piece of a request; None: this broker is not the controller, maybe since the last piece.

        Raises MalformedRequest.
        """
        if self._controller is None or self._view is None:
            return None
        if isinstance(work, CreationInPieces) or work.request.context.api_key in DISPATCH:
            work.handle_next(self._controller, self._view)
        else:
            work.respond(self._respond_to_broker(self._controller, self._view, work.request))
        return self._outcome()

    def _respond_to_broker(self, controller: ElectedController, view: ControllerView, request: AdminRequest) -> bytes:
        api_key, version, body = request.context.api_key, request.context.version, memoryview(request.body)
        if api_key == api_table.ALTER_PARTITION:
            altered = controller.alter_partitions(ALTER_PARTITION.decode_request(body, version))
            return ALTER_PARTITION.encode_response(altered, version)
        if api_key == api_table.CONTROLLED_SHUTDOWN:
            result = self._shut_down(controller, CONTROLLED_SHUTDOWN.decode_request(body, version))
            return CONTROLLED_SHUTDOWN.encode_response(result, version)
        if api_key == api_table.ALLOCATE_PRODUCER_IDS:
            allocate = ALLOCATE_PRODUCER_IDS.decode_request(body, version)
            code = controller.check_sender(allocate.broker_id, allocate.broker_epoch)
            code, ids = view.producer_ids.block_response(code)
            allocated = AllocateProducerIdsResponse(
                error_code=code, producer_id_start=ids.start, producer_id_len=len(ids)
            )
            return ALLOCATE_PRODUCER_IDS.encode_response(allocated, version)
        raise MalformedRequest("the controller does not support this request yet")

    def _outcome(self) -> Outcome:
        if self._controller is None or self._orders is None:
            return Outcome()
        self._orders.drop()
        self._context.block[UNCLEAN_ELECTIONS] += self._controller.take_unclean_elections()
        for level, line in self._controller.take_lines():
            log.log(level, "%s", line)
        brokers = self._registered.values()
        addresses = {each.id: (each.epoch, at) for each in brokers if (at := self._address(each)) is not None}
        requests = encoded(self._controller.take_requests(), self._broker_id, self._versions)
        return Outcome(requests, addresses, has_deletions_to_retry=self._controller.has_deletions_to_retry)

    def _address(self, broker: Broker) -> tuple[str, int] | None:
        at = {each.name: (each.host, each.port) for each in broker.listeners}
        return at.get(self._control_plane, at.get(self._listener))


def _left_out(reasons: Mapping[str, str]) -> dict[str, str]:
    return {path: f"{path} in ZooKeeper is left out: {reason}" for path, reason in reasons.items()}
