"""The brokers that the elected controller tells something, over connections of its own: each gets all, in order.

A request is sent again until it is answered, or the broker has another registration or none.
"""

import logging
from collections.abc import Callable, Mapping

from kafkad.core.cluster.protocol_versions import ProtocolVersions
from kafkad.core.controller.elected.announcements import Request
from kafkad.processes.controller.cluster.control_api import MESSAGES, key_of
from kafkad.processes.controller.cluster.ports import ControlResponse
from kafkad.processes.runtime.broker_connections import BrokerConnections, Destination
from kafkad.processes.runtime.broker_connections import Request as Sending
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.wire.api_table import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from kafkad.wire.primitives import MalformedRequest

log = logging.getLogger(__name__)


class BrokersTold:
    def __init__(
        self,
        loop: EventLoop,
        client_id: str,
        versions: ProtocolVersions,
        answered: Callable[[int, Request, ControlResponse], None],
    ) -> None:
        self._versions = {
            LEADER_AND_ISR: versions.leader_and_isr,
            UPDATE_METADATA: versions.update_metadata,
            STOP_REPLICA: versions.stop_replica,
        }
        self._connections = BrokerConnections(loop, client_id)
        self._destinations: dict[int, Destination] = {}
        self._answered = answered

    def are(self, wanted: Mapping[int, Destination]) -> None:
        for broker, destination in list(self._destinations.items()):
            if wanted.get(broker) != destination:
                del self._destinations[broker]
                self._connections.drop(destination)
        self._destinations.update(wanted)

    def tell(self, broker: int, request: Request) -> None:
        """Nothing, if the broker is none of them."""
        destination = self._destinations.get(broker)
        if destination is None:
            return
        key = key_of(request)
        message, version = MESSAGES[key], self._versions[key]

        def replied(body: memoryview) -> None:
            try:
                response = message.decode_response(body, version)
            except MalformedRequest as error:
                log.warning("broker %d answered %s with what can't be read: %s", broker, message.name, error)
            else:
                self._answered(broker, request, response)

        self._connections.send(
            destination,
            Sending(
                api_key=key,
                version=version,
                is_flexible=message.is_flexible(version),
                body=message.encode_request(request, version),
                on_reply=replied,
                on_failure=lambda _reason: None,
                repeats=True,
            ),
        )

    def turn(self) -> None:
        self._connections.turn()

    @property
    def next_deadline_ms(self) -> int | None:
        return self._connections.next_deadline_ms

    def close(self) -> None:
        self._connections.close()
