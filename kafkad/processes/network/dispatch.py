"""The request handler of each API."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from msgspec.structs import replace

from kafkad.core.controller.features import GROUP_VERSION
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers import api_versions
from kafkad.handlers.coordinators import find_coordinator
from kafkad.handlers.coordinators.requests.apis_of_coordinators import COORDINATED
from kafkad.handlers.coordinators.requests.routing import peek
from kafkad.handlers.metadata import response as metadata_response
from kafkad.handlers.metadata import unknown_topics
from kafkad.handlers.requests.apis_of_network import LOCAL, OWNER_REQUESTS
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.processes.network.connections.connection import Connection
from kafkad.processes.network.connections.frames import Frame
from kafkad.processes.network.connections.throttle import Throttle
from kafkad.processes.network.controller_requests import ControllerRequests
from kafkad.processes.network.coordinator_requests import CoordinatorRequests
from kafkad.processes.network.fetch_requests import FetchRequests
from kafkad.processes.network.owner_requests import OwnerRequests
from kafkad.processes.network.produce_requests import ProduceRequests
from kafkad.processes.network.responses import Responses, Steps
from kafkad.wire import api_table
from kafkad.wire.api_table import APIS, Runs
from kafkad.wire.messages.find_coordinator import read_request as read_find_coordinator_request
from kafkad.wire.messages.metadata import read_request as read_metadata_request

CONSUMER_PROTOCOL = "consumer"
CONSUMER_PROTOCOL_SINCE = 1
"""The level of group.version."""

Start = Callable[[Connection, Frame, RequestContext], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHandlers:
    """The request handlers of this process and their view."""

    view: BrokerView
    responses: Responses
    produce: ProduceRequests
    fetch: FetchRequests
    controller: ControllerRequests
    owners: OwnerRequests
    coordinators: CoordinatorRequests
    throttle: Throttle


class RequestDispatcher:
    """Passes a request to its request handler. Every method raises MalformedRequest."""

    def __init__(self, handlers: RequestHandlers, *, auto_create: bool, group_protocols: Collection[str]) -> None:
        self._view = handlers.view
        self._responses = handlers.responses
        self._controller = handlers.controller
        self._owners = handlers.owners
        self._coordinators = handlers.coordinators
        self.auto_create = auto_create
        """Whether topics are auto-created (auto.create.topics.enable)."""
        self._group_protocols = group_protocols
        self._starts: dict[int, Start] = {key: self._start_of(key) for key in APIS}
        self._starts[api_table.PRODUCE] = handlers.produce.start
        self._starts[api_table.FETCH] = handlers.fetch.start
        self._starts[api_table.API_VERSIONS] = self._api_versions
        self._starts[api_table.METADATA] = self._metadata
        self._starts[api_table.FIND_COORDINATOR] = self._find_coordinator
        self._starts[api_table.INIT_PRODUCER_ID] = self._init_producer_id
        self._starts[api_table.CONSUMER_GROUP_HEARTBEAT] = self._consumer_protocol
        self._starts[api_table.CONSUMER_GROUP_DESCRIBE] = self._consumer_protocol

    def start(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        self._starts[context.api_key](connection, frame, context)

    def _start_of(self, key: int) -> Start:
        if APIS[key].runs is Runs.CONTROLLER:
            return self._controller.forward
        if APIS[key].runs is Runs.COORDINATOR:
            return self._coordinators.start
        if key in OWNER_REQUESTS:
            return self._send_to_owners
        return self._respond_locally

    def _respond_locally(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        self._responses.respond_locally(LOCAL[context.api_key], connection, frame, context)

    def _send_to_owners(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        pending_request = OWNER_REQUESTS[context.api_key](frame.body, context, self._view)
        self._owners.start(connection, frame, context, pending_request)

    def _api_versions(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        body = frame.body
        information = api_versions.client_information(body, context.version)
        if information not in (None, connection.context.information):
            connection.context = replace(connection.context, information=information)
        reply = self._responses.open(connection, frame, context)
        self._responses.send(reply, api_versions.handle(body, context, self._view))

    def _metadata(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """Handled in this process, after unknown topics are auto-created."""
        body, view = frame.body, self._view
        reply = self._responses.open(connection, frame, context)

        def steps() -> Steps:
            request = yield from read_metadata_request(body, context.version)
            unknown = unknown_topics(request, context, view) if self.auto_create else frozenset()
            if not unknown:
                return (yield from metadata_response(request, context, view))

            def created(errors: dict[str, int]) -> None:
                if not connection.closed:
                    self._responses.resume(metadata_response(request, context, view, errors), reply, len(body))

            self._controller.create_topics(connection, unknown, created, context.received_ms)
            return None

        self._responses.run(steps(), reply, len(body))

    def _find_coordinator(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """Handled in this process; the first request waits until the internal topic is created."""
        body, view = frame.body, self._view
        reply = self._responses.open(connection, frame, context)

        def steps() -> Steps:
            request = yield from read_find_coordinator_request(body, context.version)
            required = find_coordinator.required_topics(request, view)
            if not required:
                return (yield from find_coordinator.response(request, context, view))

            def created(_errors: dict[str, int]) -> None:
                if not connection.closed:
                    self._responses.resume(find_coordinator.response(request, context, view), reply, len(body))

            self._controller.create_topics(connection, required, created, context.received_ms)
            return None

        self._responses.run(steps(), reply, len(body))

    def _consumer_protocol(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """KIP-848 groups may be disabled, by an option or by the finalized level of group.version."""
        is_offered = CONSUMER_PROTOCOL in self._group_protocols
        if is_offered and self._view.image.features.get(GROUP_VERSION, 0) >= CONSUMER_PROTOCOL_SINCE:
            self._coordinators.start(connection, frame, context)
        else:
            self._coordinators.reject(connection, frame, context, ErrorCode.UNSUPPORTED_VERSION)

    def _init_producer_id(self, connection: Connection, frame: Frame, context: RequestContext) -> None:
        """Producers without a transactional id get their id from the controller, others from their coordinator."""
        is_flexible = context.version >= APIS[api_table.INIT_PRODUCER_ID].flexible_from
        has_coordinator = api_table.INIT_PRODUCER_ID in COORDINATED
        if has_coordinator and peek(frame.body, is_flexible) is not None:
            self._coordinators.start(connection, frame, context)
        else:
            self._controller.forward(connection, frame, context)
