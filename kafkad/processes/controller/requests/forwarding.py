"""Forwards requests for the elected controller: the body to the controller, the response to the client.

So clients do not have to find the controller. Requests of this broker itself use separate connections, one for each
API: the controller handles the requests of a connection one after the other, and many responses wait for other brokers.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.image import NO_CONTROLLER
from kafkad.core.controller.topics.topics import TopicResult, TopicResults
from kafkad.core.errors import ErrorCode
from kafkad.processes.controller.internal_topics import CreationFailures
from kafkad.processes.controller.ports import Host, Send
from kafkad.processes.runtime.broker_connections import (
    BrokerConnections,
    Destination,
    Request,
    inter_broker_destination,
)
from kafkad.processes.runtime.connection_timeouts import ConnectionTimeouts
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.wire.api_table import APIS, CREATE_TOPICS
from kafkad.wire.cluster.create_topics import CREATE_TOPICS_4, TopicError, TopicsToCreate, TopicToCreate
from kafkad.wire.cluster.schema import Message
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.controller_messages import (
    AdminReply,
    AdminRequest,
    AutoCreated,
    AutoCreateRequest,
    pack_message,
)

RequestMessage = TypeVar("RequestMessage")
ResponseMessage = TypeVar("ResponseMessage")
Forwarded = AdminRequest | AutoCreateRequest
HandleLocally = Callable[[ProcessKey, Forwarded], None]
NOT_ELECTED = "no controller is elected"
_TIMEOUT_MS = 60_000
HELD_MS = 10_000
"""How long a request waits for a controller: an election, or the first UpdateMetadata to a new broker."""
_CHECK_INTERVAL_MS = 50


class RequestForwarding:
    def __init__(
        self, loop: EventLoop, host: Host, timeouts: ConnectionTimeouts, log_rate_limit: LogRateLimit, send: Send
    ) -> None:
        self._host = host
        self._send = send
        self._connect = partial(BrokerConnections, loop, str(host.broker_id), timeouts, log_rate_limit=log_rate_limit)
        self._connections = self._connect()
        self._own_connections: dict[int, BrokerConnections] = {}
        """By API key."""
        self._held: deque[tuple[int, ProcessKey, Forwarded]] = deque()
        self._creation_failures = CreationFailures()

    def destination(self) -> Destination | None:
        """The controller by the latest metadata; None if it is this broker, or unknown."""
        image = self._host.image
        if image.controller_id in (NO_CONTROLLER, self._host.broker_id):
            return None
        return inter_broker_destination(image.brokers, image.controller_id, self._host.inter_broker_listener)

    def _to_controller(self, request: Request, connections: BrokerConnections) -> None:
        """Send to the controller; without one call `on_failure`."""
        to = self.destination()
        if to is None:
            request.on_failure(NOT_ELECTED)
        else:
            connections.send(to, request)

    def send_request(
        self,
        api_key: int,
        version: int,
        message: Message[RequestMessage, ResponseMessage],
        request: RequestMessage,
        on_response: Callable[[ResponseMessage | None], None],
    ) -> None:
        """Send a request of this broker itself. `on_response` gets None without a readable response."""

        def replied(body: memoryview) -> None:
            try:
                response = message.decode_response(body, version)
            except MalformedRequest:
                on_response(None)
            else:
                on_response(response)

        if api_key not in self._own_connections:
            self._own_connections[api_key] = self._connect()
        self._to_controller(
            Request(
                api_key=api_key,
                version=version,
                is_flexible=message.is_flexible(version),
                body=message.encode_request(request, version),
                on_reply=replied,
                on_failure=lambda _reason: on_response(None),
            ),
            self._own_connections[api_key],
        )

    def forward(self, peer: ProcessKey, message: Forwarded) -> None:
        """Forward to the controller, or hold the request until there is one."""
        to = self.destination()
        if to is None:
            self._held.append((monotonic_ms() + HELD_MS, peer, message))
        else:
            self._forward(to, peer, message)

    def _forward(self, to: Destination, peer: ProcessKey, message: Forwarded) -> None:
        if isinstance(message, AutoCreateRequest):
            self._create_topics(to, peer, message.token, message.names)
            return
        context = message.context
        request = Request(
            api_key=context.api_key,
            version=context.version,
            is_flexible=context.version >= APIS[context.api_key].flexible_from,
            body=message.body,
            on_reply=lambda body: self._reply(peer, message.token, body),
            on_failure=partial(self._reject, peer, message.token),
            timeout_ms=_TIMEOUT_MS,
        )
        self._connections.send(to, request)

    def _reply(self, peer: ProcessKey, token: int, body: memoryview) -> None:
        self._send(peer, pack_message(AdminReply(token, bytes(body))))

    def _reject(self, peer: ProcessKey, token: int, reason: str) -> None:
        """The client retries on another connection."""
        self._send(peer, pack_message(AdminReply(token, None, f"no response from the controller: {reason}")))

    def _create_topics(self, to: Destination, peer: ProcessKey, token: int, names: list[str]) -> None:
        """Request the auto-creation of topics, also of internal ones."""
        internal = self._host.internal_topics
        rows = []
        for name in names:
            internal_topic = internal.get(name)
            partitions, factor = (
                (internal_topic.partitions, internal_topic.replication_factor)
                if internal_topic is not None
                else (-1, -1)
            )
            configs = tuple(internal_topic.configs) if internal_topic is not None else ()
            rows.append(TopicToCreate(name=name, num_partitions=partitions, replication_factor=factor, configs=configs))

        def created(body: memoryview) -> None:
            try:
                responses = CREATE_TOPICS_4.decode_response(body, 4)
            except MalformedRequest:
                responses = {}
            results = {name: _result_of(name, responses) for name in names}
            self._send(peer, pack_message(AutoCreated(token, self.codes_of(results))))

        body = CREATE_TOPICS_4.encode_request(TopicsToCreate(topics=tuple(rows)), 4)
        self._connections.send(
            to,
            Request(
                api_key=CREATE_TOPICS,
                version=4,
                is_flexible=False,
                body=body,
                on_reply=created,
                on_failure=lambda _reason: self._fail_creation(peer, token, names),
            ),
        )

    def _fail_creation(self, peer: ProcessKey, token: int, names: list[str]) -> None:
        codes = dict.fromkeys(names, int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        self._send(peer, pack_message(AutoCreated(token, codes)))

    def codes_of(self, results: TopicResults) -> dict[str, int]:
        """The error codes by topic. Errors of internal topics are logged, as clients get no reason."""
        created_results = {name: as_created(result) for name, result in results.items()}
        self._creation_failures.report(created_results.values(), self._host.internal_topics)
        return {name: int(result.code) for name, result in created_results.items()}

    def forget(self, peer: ProcessKey) -> None:
        """The incarnation of this process has exited, and gets no more replies."""
        self._held = deque(each for each in self._held if each[1] != peer)

    def tick(self, handle_locally: HandleLocally | None) -> None:
        """`handle_locally` is set if this broker is elected: it handles the held requests itself."""
        held, self._held = self._held, deque()
        now_ms = monotonic_ms()
        to = self.destination() if held else None
        for until_ms, peer, message in held:
            if handle_locally is not None:
                handle_locally(peer, message)
            elif to is not None:
                self._forward(to, peer, message)
            elif until_ms <= now_ms and isinstance(message, AutoCreateRequest):
                self._fail_creation(peer, message.token, message.names)
            elif until_ms <= now_ms:
                self._reject(peer, message.token, NOT_ELECTED)
            else:
                self._held.append((until_ms, peer, message))
        for connections in self._all():
            connections.tick()

    @property
    def next_deadline_ms(self) -> int | None:
        check_interval_ms = monotonic_ms() + _CHECK_INTERVAL_MS if self._held else None
        deadlines = (check_interval_ms, *(each.next_deadline_ms for each in self._all()))
        return min((each for each in deadlines if each is not None), default=None)

    def _all(self) -> tuple[BrokerConnections, ...]:
        return self._connections, *self._own_connections.values()

    def close(self) -> None:
        for connections in self._all():
            connections.close()


def _result_of(name: str, responses: Mapping[str, TopicError]) -> TopicResult:
    code, reason = responses.get(name, (ErrorCode.UNKNOWN_SERVER_ERROR, None))
    return TopicResult(name=name, code=code, message=reason)


def as_created(result: TopicResult) -> TopicResult:
    """An existing topic counts as created: this broker's metadata does not have it yet."""
    return TopicResult(name=result.name) if result.code is ErrorCode.TOPIC_ALREADY_EXISTS else result
