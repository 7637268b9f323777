"""Requests the controlled shutdown of this broker: the controller moves its leaders before the broker stops."""

import logging
from collections.abc import Callable

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.cluster.control_requests import ControlledShutdownRequest, ControlledShutdownResponse
from kafkad.core.controller.image import Broker
from kafkad.core.hosting.shutdown_tries import ShutdownTries
from kafkad.processes.controller.cluster.ports import Host
from kafkad.processes.controller.cluster.requests.forwarding import RequestForwarding
from kafkad.wire.api_table import CONTROLLED_SHUTDOWN as API_KEY
from kafkad.wire.cluster.broker_requests import CONTROLLED_SHUTDOWN

log = logging.getLogger(__name__)

VERSION = 3
OnResponse = Callable[[ControlledShutdownResponse | None], None]


class ControlledShutdown:
    """`handle_locally` handles the request if this broker is the controller. While the broker is not registered, it
    waits as for the store.
    """

    def __init__(
        self,
        host: Host,
        forwarding: RequestForwarding,
        broker: Callable[[], Broker | None],
        handle_locally: Callable[[ControlledShutdownRequest, OnResponse], bool],
        tries: int,
        pause_ms: int,
        done: Callable[[], None],
        has_store: Callable[[], bool],
    ) -> None:
        self._host = host
        self._forwarding = forwarding
        self._broker = broker
        self._handle_locally = handle_locally
        self._done = done
        self._has_store = has_store
        self._state = ShutdownTries(tries, pause_ms, monotonic_ms())
        self._is_reported = False

    @property
    def next_deadline_ms(self) -> int | None:
        if self._is_reported:
            return None
        return self._state.wait_deadline_ms if self._broker() is None else self._state.next_deadline_ms

    def tick(self, now_ms: int) -> None:
        if self._is_reported:
            return
        broker = self._broker()
        self._state.tick(now_ms, has_store=self._has_store() and broker is not None)
        self._state.metadata_changed(self._host.image, self._host.broker_id, now_ms)
        if self._state.is_over:
            log.info("controlled shutdown: %s", self._state.outcome)
            self._is_reported = True
            self._done()
        elif broker is not None and self._state.next_try_ms is not None and self._state.next_try_ms <= now_ms:
            self._try(broker)

    def _try(self, broker: Broker) -> None:
        self._state.request_sent()
        request = ControlledShutdownRequest(broker_id=broker.id, broker_epoch=broker.epoch)
        if self._handle_locally(request, self._on_response):
            return
        self._forwarding.send_request(API_KEY, VERSION, CONTROLLED_SHUTDOWN, request, self._on_response)

    def _on_response(self, response: ControlledShutdownResponse | None) -> None:
        self._state.response_received(response, self._host.image, self._host.broker_id, monotonic_ms())
