"""Requests for the configuration of this broker by its id: this broker handles them, as in Apache Kafka.

Clients send these requests to the named broker. A change is written with a check of the controller's node, and reaches
this broker by a notification, like all changes. The elected controller handles all other configurations.
"""

from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import BrokerConfig
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.configs import ResourceType
from kafkad.core.controller.elected.announcements import Announcer
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.image import MetadataImage
from kafkad.core.controller.producer_ids import ProducerIdControlManager
from kafkad.core.controller.startup.term import Term
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.coordination_store import Check, CoordinationError, CoordinationStore
from kafkad.handlers.controller.requests.controller_view import ControllerView, ResponseAfter
from kafkad.handlers.controller.requests.responses import response_to
from kafkad.plugin_loading import chosen
from kafkad.processes.controller.membership import Membership
from kafkad.processes.controller.ports import Host, Send
from kafkad.processes.controller.startup import random_source, settings_of
from kafkad.processes.controller.tables import LiveTables
from kafkad.processes.controller.tree_reader import broker_configs
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
CHANGES_CONFIGS = frozenset((api_table.ALTER_CONFIGS, api_table.INCREMENTAL_ALTER_CONFIGS))
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
        image, config = self._host.image, self._host.config
        self._membership.handle(
            peer,
            request.token,
            lambda store: self._respond(store, request, image, config),
            partial(self._on_response, peer, request),
        )
        return True

    def _on_response(self, peer: ProcessKey, request: AdminRequest, future: "Future[bytes]") -> None:
        error = future.exception()
        if error is None:
            reply = partial(self._send, peer, pack_message(AdminReply(request.token, future.result())))
            if request.context.api_key in CHANGES_CONFIGS:
                self._membership.read_changes(partial(self._host.when_applied, peer, reply))
            else:
                reply()
        elif isinstance(error, CoordinationError | MalformedRequest):
            # The client retries on another connection.
            self._send(peer, pack_message(AdminReply(request.token, None, str(error))))
        else:
            raise error

    def _respond(
        self, store: CoordinationStore, request: AdminRequest, image: MetadataImage, config: BrokerConfig
    ) -> bytes:
        """In the store's thread. Raises MalformedRequest, and the errors of the store."""
        # The latest changes may not have reached this broker yet.
        image = replace(image, broker_configs=broker_configs(store))
        tables = LiveTables(config, frozenset(self._plugins.cleanup_policies), self._plugins.topic_configs)
        tables.overlay(image)
        view = ControllerView(
            controller=self._writer(store, image, config),
            configs=tables,
            random_source=random_source(),
            producer_ids=ProducerIdControlManager(store, config.node_id),
            log_rate_limit=self._log_rate_limit,
        )
        response = response_to(memoryview(request.body), request.context, view)
        return response.body if isinstance(response, ResponseAfter) else response

    def _writer(self, store: CoordinationStore, image: MetadataImage, config: BrokerConfig) -> ElectedController:
        """A controller whose writes require that the elected controller does not change."""
        holder = store.exists(nodes.CONTROLLER)
        guard = Check(nodes.CONTROLLER, 0 if holder is None else holder.version)
        strategies = self._plugins.leader_election_strategies
        name = config.plugins.leader_election_strategy
        return ElectedController(
            settings=settings_of(config),
            tree=MetadataTree(store, Term(0, guard)),
            election=chosen(strategies, name, "kafkad.leader.election.strategy"),
            image=image,
            announcer=Announcer(
                controller_id=config.node_id, controller_epoch=0, listener=config.inter_broker_listener
            ),
        )
