"""Requests for the configuration of this broker by its id: this broker handles them, as in Apache Kafka.

Clients send these requests to the named broker. A change is written with a check of the controller's node, and reaches
this broker by a notification, like all changes. The elected controller handles all other configurations.
"""

import random
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.adapters.stores.zookeeper_store import ZookeeperStore
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.configs import ResourceType
from kafkad.core.controller.controller import Controller
from kafkad.core.controller.image import MetadataImage
from kafkad.core.controller.producer_ids import ProducerIdControlManager
from kafkad.core.controller.settings import RandomSource
from kafkad.core.controller.startup.term import Term
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.placement import Placement, SlotTable
from kafkad.core.coordination_store import Check, CoordinationError
from kafkad.handlers.controller.requests.controller_view import ControllerView, ResponseAfter
from kafkad.handlers.controller.requests.responses import response_to
from kafkad.plugin_loading import chosen
from kafkad.processes.controller.cluster.membership import Membership
from kafkad.processes.controller.cluster.ports import Host
from kafkad.processes.controller.cluster.tree_reader import broker_configs
from kafkad.processes.controller.events import Send
from kafkad.processes.controller.startup import new_id, settings_of
from kafkad.processes.controller.tables import LiveTables
from kafkad.processes.runtime.child import ChildContext
from kafkad.wire import api_table
from kafkad.wire.kio_codec import codec
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.controller_messages import AdminReply, AdminRequest, pack_message

_APIS = {
    api_table.DESCRIBE_CONFIGS: "describe_configs",
    api_table.ALTER_CONFIGS: "alter_configs",
    api_table.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
}
_OF_ONE_BROKER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


def _names_a_broker(request: AdminRequest) -> bool:
    """Raises MalformedRequest."""
    name = _APIS.get(request.context.api_key)
    if name is None:
        return False
    resources = codec(name, request.context.version).decode(memoryview(request.body)).resources
    return any(each.resource_type in _OF_ONE_BROKER and each.resource_name for each in resources)


class OwnConfigs:
    def __init__(self, context: ChildContext, host: Host, membership: Membership, send: Send) -> None:
        assert context.plugins is not None, "the supervisor loads the plugins before it forks"
        self._context = context
        self._plugins = context.plugins
        self._host = host
        self._membership = membership
        self._send = send
        self._log_rate_limit = LogRateLimit()

    def try_handle(self, peer: ProcessKey, request: AdminRequest) -> bool:
        """Handle the request if it is for this broker's configuration; returns whether it is."""
        try:
            if not _names_a_broker(request):
                return False
        except MalformedRequest as error:
            self._send(peer, pack_message(AdminReply(request.token, None, str(error))))
            return True
        image = self._host.image
        self._membership.handle(
            peer,
            request.token,
            lambda store: self._respond(store, request, image),
            partial(self._on_response, peer, request.token),
        )
        return True

    def _on_response(self, peer: ProcessKey, token: int, future: "Future[bytes]") -> None:
        error = future.exception()
        if error is None:
            self._send(peer, pack_message(AdminReply(token, future.result())))
        elif isinstance(error, CoordinationError | MalformedRequest):
            # The client retries on another connection.
            self._send(peer, pack_message(AdminReply(token, None, str(error))))
        else:
            raise error

    def _respond(self, store: ZookeeperStore, request: AdminRequest, image: MetadataImage) -> bytes:
        """In the store's thread. Raises MalformedRequest, and the errors of the store."""
        config = self._context.config
        # The latest changes may not have reached this broker yet.
        image = replace(image, broker_configs=broker_configs(store))
        tables = LiveTables(config, frozenset(self._plugins.cleanup_policies), self._plugins.topic_configs)
        tables.overlay(image)
        view = ControllerView(
            controller=self._writer(store, image),
            configs=tables,
            random_source=RandomSource(lambda limit: random.randrange(limit), new_id),
            producer_ids=ProducerIdControlManager(store, config.node_id),
            log_dirs=config.log_dirs.log_dirs,
            log_rate_limit=self._log_rate_limit,
        )
        response = response_to(memoryview(request.body), request.context, view)
        return response.body if isinstance(response, ResponseAfter) else response

    def _writer(self, store: ZookeeperStore, image: MetadataImage) -> Controller:
        """A controller whose writes require that the elected controller does not change."""
        holder = store.exists(nodes.CONTROLLER)
        guard = Check(nodes.CONTROLLER, 0 if holder is None else holder.version)
        strategies = self._plugins.leader_election_strategies
        name = self._context.config.plugins.leader_election_strategy
        return Controller(
            settings=settings_of(self._context.config, workers=1),
            tree=MetadataTree(store, Term(0, guard)),
            election=chosen(strategies, name, "kafkad.leader.election.strategy"),
            image=image,
            placement=Placement(SlotTable(), 1, (0,)),
            deletions={},
        )
