"""The elected controller with its store. All methods wait for ZooKeeper, so they run in the store's thread.

Each method returns an `Outcome`: the requests to send to brokers, and the addresses of the brokers.
"""

import logging
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.adapters.stores.zookeeper_store import ZookeeperStore
from kafkad.core.cluster.control_requests import (
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kafkad.core.cluster.request_parts import ControlResponse
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.admin import auto_create_topics
from kafkad.core.controller.elected.announcements import Announcer, Request
from kafkad.core.controller.elected.controller_failover import controller_failover
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.elected.node_orders import NodeOrders, stored_states, take_isr_changes, take_log_dir_events
from kafkad.core.controller.elected.registrations import live_brokers, remove_unsupported
from kafkad.core.controller.image import Broker, MetadataImage
from kafkad.core.controller.producer_ids import ProducerIdControlManager
from kafkad.core.controller.settings import RandomSource
from kafkad.core.controller.startup.term import UnreadableEpoch, claim, ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.store.unreadable_nodes import UnreadableNodes
from kafkad.core.controller.topics.topics import TopicResult, TopicResults
from kafkad.core.coordination_store import BadVersion, NodeExists, NodeStat, NoNode
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.hosting.shutdown_tries import names_of
from kafkad.core.metrics.catalogue import UNCLEAN_ELECTIONS
from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH
from kafkad.handlers.controller.requests.controller_view import ControllerView, ResponseAfter
from kafkad.handlers.controller.requests.pieces import joined, pieces_of, pieces_of_names
from kafkad.handlers.controller.requests.responses import response_to
from kafkad.plugin_loading import chosen
from kafkad.processes.controller.cluster.requests.broker_channels import (
    Outcome,
    encoded,
    handle_broker_response,
    retry_deletions,
)
from kafkad.processes.controller.cluster.tree_reader import Configs, controller_id, finalized_features, may_replace
from kafkad.processes.controller.startup import elected_settings, new_id
from kafkad.processes.controller.tables import LiveTables
from kafkad.processes.runtime.child import ChildContext
from kafkad.wire import api_table
from kafkad.wire.cluster.alter_partition import ALTER_PARTITION
from kafkad.wire.cluster.broker_requests import ALLOCATE_PRODUCER_IDS, CONTROLLED_SHUTDOWN
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.controller_messages import AdminRequest

log = logging.getLogger(__name__)

Work = Callable[[ZookeeperStore], "Outcome"]


@dataclass(frozen=True, slots=True)
class Handled:
    """A handled piece of a request. With the last piece, `body` is the response; None: this broker is no controller."""

    outcome: Outcome
    body: bytes | None = None
    is_last: bool = True


@dataclass(frozen=True, slots=True)
class Created:
    """The results so far of a topic creation; None: this broker is not the controller."""

    outcome: Outcome
    results: TopicResults | None = None
    is_last: bool = True


class ElectableController:
    """One for each controller process; `_controller` is None while this broker is not elected."""

    def __init__(self, context: ChildContext) -> None:
        assert context.config.cluster is not None, "only a broker in a cluster is elected"
        assert context.plugins is not None, "the supervisor loads the plugins before it forks"
        self._context, self._plugins = context, context.plugins
        self._broker_id = context.config.node_id
        self._listener = context.config.cluster.inter_broker_listener
        self._control_plane = context.config.cluster.control_plane_listener
        self._versions = context.config.cluster.versions
        self._election = chosen(
            context.plugins.leader_election_strategies,
            context.config.plugins.leader_election_strategy,
            "kafkad.leader.election.strategy",
        )
        self._random = RandomSource(lambda limit: random.randrange(limit), new_id)
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

    def run(self, store: ZookeeperStore, cluster_id: str, instead_of: int | None = None) -> Outcome:
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
        cause = "" if instead_of is None else f", in place of broker {instead_of}, whose host refuses connections"
        log.info("broker %d is elected controller with epoch %d%s", self._broker_id, term.epoch, cause)
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
            settings=elected_settings(self._tables.broker),
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
        )
        # All brokers get LeaderAndIsr, and report their failed log directories in the responses.
        take_log_dir_events(tree)
        self._log_once(_left_out(left_out.reasons))
        self._view = self._new_view(store, self._controller, self._tables)
        self._orders = NodeOrders(self._controller, store, term, self._log_once)
        self._orders.carry_out()
        return self._outcome()

    def run_unless_elected(self, store: ZookeeperStore, cluster_id: str) -> Outcome:
        """/controller has changed, maybe by this broker's own election."""
        holder = store.exists(nodes.CONTROLLER, watch=True)
        if self._controller is not None and holder is not None and holder.ephemeral_owner == store.session_id:
            if not holder.version or controller_id(store) == self._broker_id:
                return self._outcome()
            log.warning("%s names another broker: resigning, as if the node were deleted", nodes.CONTROLLER)
            store.delete(nodes.CONTROLLER, holder.version)
        return self.run(store, cluster_id)

    def run_instead_of(self, store: ZookeeperStore, cluster_id: str, refusing: int) -> Outcome:
        """The controller's host refuses connections: run for controller before its session expires."""
        if self._controller is not None:
            return self._outcome()
        epoch = store.exists(f"{nodes.BROKER_IDS}/{refusing}")
        self._refusing_brokers = set() if epoch is None else {(refusing, epoch.created_id)}
        return self.run(store, cluster_id, refusing)

    def connections_refused(self, store: ZookeeperStore, broker: int, epoch: int) -> Outcome:
        """Treat the broker as failed, as if its session had expired. If it is alive, epochs fence it."""
        if self._controller is None or (broker, epoch) in self._refusing_brokers:
            return self._outcome()
        log.warning("broker %d is treated as failed until it responds: its host refuses connections", broker)
        self._refusing_brokers.add((broker, epoch))
        return self.brokers_changed(store)

    def connections_accepted(self, store: ZookeeperStore, broker: int, epoch: int) -> Outcome:
        if self._controller is None or (broker, epoch) not in self._refusing_brokers:
            return self._outcome()
        log.info("broker %d is back: its host accepts connections again", broker)
        self._refusing_brokers.discard((broker, epoch))
        return self.brokers_changed(store)

    def _new_tables(self, broker_configs: Mapping[str, Mapping[str, str]]) -> LiveTables:
        plugins = self._plugins
        tables = LiveTables(self._context.config, frozenset(plugins.cleanup_policies), plugins.topic_configs)
        tables.overlay(MetadataImage(broker_configs=broker_configs))
        return tables

    def _new_view(self, store: ZookeeperStore, controller: ElectedController, tables: LiveTables) -> ControllerView:
        return ControllerView(
            controller=controller,
            configs=tables,
            random_source=self._random,
            log_rate_limit=self._log_rate_limit,
            producer_ids=ProducerIdControlManager(store, self._broker_id),
            log_dirs=self._context.config.log_dirs.log_dirs,
            offline_dirs=frozenset,
        )

    def _brokers(self, store: ZookeeperStore) -> tuple[dict[int, Broker], frozenset[int]]:
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

    def brokers_changed(self, store: ZookeeperStore) -> Outcome:
        if self._controller is None:
            return Outcome()
        self._shutting_down.clear()
        self._controller.brokers_changed(*self._brokers(store))
        return self._outcome()

    def directories_failed(self, store: ZookeeperStore) -> Outcome:
        if self._controller is None or self._tree is None:
            return Outcome()
        self._controller.directories_failed(take_log_dir_events(self._tree))
        return self._outcome()

    def isr_changed(self, store: ZookeeperStore) -> Outcome:
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

    def tree_changed(self, path: str, cluster_id: str, store: ZookeeperStore) -> Outcome:
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
        self._controller.configs_changed(topics, brokers, elected_settings(self._tables.broker))
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
        response = self._controller.controlled_shutdown(request)
        left = names_of(response.remaining_partitions) or "none"
        if response.error_code == ErrorCode.NONE and self._shutting_down.get(request.broker_id) != left:
            # The broker may repeat the request.
            self._shutting_down[request.broker_id] = left
            log.info("broker %d is shutting down; partitions that it still leads: %s", request.broker_id, left)
        return self._outcome(), response

    def handle_request(self, request: AdminRequest) -> Iterator[Handled]:
        """Handle a request of a client or another broker, one piece in each step. Raises MalformedRequest."""
        context = request.context
        if context.api_key in DISPATCH:
            yield from self._handle_in_pieces(request)
        elif context.api_key == api_table.ALTER_PARTITION:
            alter_request = ALTER_PARTITION.decode_request(memoryview(request.body), context.version)
            outcome, response = self.alter_partitions(alter_request)
            yield Handled(outcome, ALTER_PARTITION.encode_response(response, context.version))
        elif context.api_key == api_table.CONTROLLED_SHUTDOWN:
            shutdown_request = CONTROLLED_SHUTDOWN.decode_request(memoryview(request.body), context.version)
            outcome, result = self.controlled_shutdown(shutdown_request)
            yield Handled(outcome, CONTROLLED_SHUTDOWN.encode_response(result, context.version))
        elif context.api_key == api_table.ALLOCATE_PRODUCER_IDS and self._view and self._controller:
            allocate_request = ALLOCATE_PRODUCER_IDS.decode_request(memoryview(request.body), context.version)
            code = self._controller.check_sender(allocate_request.broker_id, allocate_request.broker_epoch)
            code, ids = self._view.producer_ids.block_response(code)
            allocated = AllocateProducerIdsResponse(
                error_code=code, producer_id_start=ids.start, producer_id_len=len(ids)
            )
            yield Handled(self._outcome(), ALLOCATE_PRODUCER_IDS.encode_response(allocated, context.version))
        else:
            raise MalformedRequest("the controller does not support this request yet")

    def _handle_in_pieces(self, request: AdminRequest) -> Iterator[Handled]:
        """Another broker may be elected between two pieces."""
        if self._controller is None:
            yield Handled(Outcome())
            return
        context = request.context
        bodies = pieces_of(context.api_key, context.version, memoryview(request.body), self._controller).bodies
        responses: list[bytes] = []
        for body in bodies:
            if self._view is None:
                yield Handled(Outcome())
                return
            response = response_to(memoryview(body()), context, self._view)
            responses.append(response.body if isinstance(response, ResponseAfter) else response)
            if len(responses) < len(bodies):
                yield Handled(self._outcome(), is_last=False)
        yield Handled(self._outcome(), joined(context.api_key, context.version, responses))

    def auto_create(self, names: list[str]) -> Iterator[Created]:
        """Auto-create topics, in pieces."""
        if self._controller is None:
            yield Created(Outcome())
            return
        pieces = pieces_of_names(names, self._controller)
        results: dict[str, TopicResult] = {}
        for at, some in enumerate(pieces, 1):
            if self._view is None or self._controller is None:
                yield Created(Outcome())
                return
            results |= auto_create_topics(self._controller, some, self._view.configs, self._random)
            yield Created(self._outcome(), results, is_last=at == len(pieces))

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
