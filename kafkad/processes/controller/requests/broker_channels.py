"""The connections of the elected controller to all brokers, and what the responses of brokers cause.

Each broker gets its requests in order. A request is sent again until its response arrives, or the broker has another
registration or none. Responses name offline, online and deleted replicas.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafkad.core.cluster.control_requests import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kafkad.core.cluster.protocol_versions import ProtocolVersions
from kafkad.core.cluster.request_parts import ControlResponse
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.elected.announcements import Request, deleted_topics, replicas_with
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.errors import ErrorCode
from kafkad.processes.controller.control_api import MESSAGES, key_of
from kafkad.processes.runtime.broker_connections import BrokerConnections, Destination
from kafkad.processes.runtime.broker_connections import Request as Sending
from kafkad.processes.runtime.connection_timeouts import ConnectionTimeouts
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.wire.api_table import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from kafkad.wire.cluster.schema import Message
from kafkad.wire.primitives import MalformedRequest

log = logging.getLogger(__name__)


ReadResponse = Callable[[], ControlResponse | None]
"""Decodes the response, which is slow with thousands of partitions; None: the response can't be read."""


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """A request with its encoded body, which is empty for this broker itself."""

    broker: int
    request: Request
    body: bytes


Registered = Mapping[int, tuple[int, tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`registered` are the epochs and addresses of all brokers; None: this broker is not the controller.

    `has_deletions_to_retry`: some broker could not delete its replicas of a topic.
    """

    requests: list[BrokerRequest] = field(default_factory=list)
    registered: Registered | None = None
    has_deletions_to_retry: bool = False


def encoded(requests: Sequence[tuple[int, Request]], own_id: int, versions: ProtocolVersions) -> list[BrokerRequest]:
    """Encode the requests, in the store's thread: it is slow with thousands of partitions."""
    numbers = _versions_of(versions)

    def body_of(request: Request) -> bytes:
        key = key_of(request)
        return MESSAGES[key].encode_request(request, numbers[key])

    return [
        BrokerRequest(broker, request, b"" if broker == own_id else body_of(request)) for broker, request in requests
    ]


def _versions_of(versions: ProtocolVersions) -> dict[int, int]:
    return {
        LEADER_AND_ISR: versions.leader_and_isr,
        UPDATE_METADATA: versions.update_metadata,
        STOP_REPLICA: versions.stop_replica,
    }


def _read(broker: int, message: Message[Any, Any], version: int, body: bytes) -> ControlResponse | None:
    try:
        response: ControlResponse = message.decode_response(memoryview(body), version)
    except MalformedRequest as error:
        log.warning("broker %d sent an unreadable %s response: %s", broker, message.name, error)
        return None
    return response


class BrokerChannels:
    def __init__(
        self,
        loop: EventLoop,
        client_id: str,
        timeouts: ConnectionTimeouts,
        log_rate_limit: LogRateLimit,
        versions: ProtocolVersions,
        on_response: Callable[[int, Request, ReadResponse], None],
    ) -> None:
        self._versions = _versions_of(versions)
        self._connections = BrokerConnections(loop, client_id, timeouts, log_rate_limit=log_rate_limit)
        self._destinations: dict[int, Destination] = {}
        self._on_response = on_response

    def set_destinations(self, destinations: Mapping[int, Destination]) -> None:
        for broker, destination in list(self._destinations.items()):
            if destinations.get(broker) != destination:
                del self._destinations[broker]
                self._connections.drop(destination)
        self._destinations.update(destinations)

    def send(self, outgoing: BrokerRequest) -> None:
        """Send a request; it is dropped if the broker has no destination."""
        broker, request = outgoing.broker, outgoing.request
        destination = self._destinations.get(broker)
        if destination is None:
            return
        key = key_of(request)
        message, version = MESSAGES[key], self._versions[key]

        def replied(body: memoryview) -> None:
            self._on_response(broker, request, partial(_read, broker, message, version, bytes(body)))

        self._connections.send(
            destination,
            Sending(
                api_key=key,
                version=version,
                is_flexible=message.is_flexible(version),
                body=outgoing.body,
                on_reply=replied,
                on_failure=lambda _reason: None,
                repeats=True,
            ),
        )

    def tick(self) -> None:
        self._connections.tick()

    @property
    def next_deadline_ms(self) -> int | None:
        return self._connections.next_deadline_ms

    def close(self) -> None:
        self._connections.close()


def handle_broker_response(
    controller: ElectedController, broker: int, request: Request, response: ControlResponse | None
) -> None:
    """`response` is None if it can't be read."""
    if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
        offline = replicas_with(ErrorCode.KAFKA_STORAGE_ERROR, request, response)
        if count := controller.replicas_offline(broker, request.broker_epoch, offline):
            log.warning("broker %d: the log directory of %d partition(s) has failed or is full", broker, count)
        online = replicas_with(ErrorCode.NONE, request, response)
        controller.replicas_online(broker, request.broker_epoch, online)
    elif isinstance(request, StopReplicaRequest):
        readable = response if isinstance(response, StopReplicaResponse) else None
        outcomes = deleted_topics(request, readable)
        for name in (name for name, is_deleted in outcomes.items() if not is_deleted):
            controller.deletion_failed(name, broker)
        controller.replicas_deleted([name for name, is_deleted in outcomes.items() if is_deleted], broker)


def retry_deletions(controller: ElectedController) -> None:
    for broker, names in controller.retry_deletions().items():
        log.warning("broker %d could not delete its replicas of %d topic(s), retrying", broker, len(names))
