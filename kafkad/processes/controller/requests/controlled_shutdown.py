"""The controlled shutdown of this broker: the controller moves its leaders before the broker stops."""

import logging

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.core.cluster.control_requests import ControlledShutdownRequest, ControlledShutdownResponse
from kafkad.core.controller.image import Broker
from kafkad.core.hosting.shutdown_tries import ShutdownTries
from kafkad.processes.controller.ports import Host

log = logging.getLogger(__name__)


class ControlledShutdown:
    """When to send the next request, and when the shutdown is over. While the broker is not registered, it waits as for
    the store.
    """

    def __init__(self, host: Host, tries: int, pause_ms: int) -> None:
        self._host = host
        self._state = ShutdownTries(tries, pause_ms, monotonic_ms())
        self._is_registered = False
        self.is_over = False
        """Whether other brokers lead instead, or the last try has failed."""

    @property
    def next_deadline_ms(self) -> int | None:
        if self.is_over:
            return None
        return self._state.next_deadline_ms if self._is_registered else self._state.wait_deadline_ms

    def tick(self, broker: Broker | None, now_ms: int, *, has_store: bool) -> None:
        """`broker` is the registration of this broker."""
        self._is_registered = broker is not None
        self._state.tick(now_ms, has_store=has_store and broker is not None)
        self._state.metadata_changed(self._host.image, self._host.broker_id, now_ms)
        if self._state.is_over and not self.is_over:
            log.info("controlled shutdown: %s", self._state.outcome)
            self.is_over = True

    def take_request(self, broker: Broker | None, now_ms: int) -> ControlledShutdownRequest | None:
        """The request to send, if it is due."""
        next_try_ms = self._state.next_try_ms
        if self.is_over or broker is None or next_try_ms is None or next_try_ms > now_ms:
            return None
        self._state.request_sent()
        return ControlledShutdownRequest(broker_id=broker.id, broker_epoch=broker.epoch)

    def response_received(self, response: ControlledShutdownResponse | None) -> None:
        """None: there was no readable response."""
        self._state.response_received(response, self._host.image, self._host.broker_id, monotonic_ms())
