"""A broker that stops as SIGTERM makes it: others take over what it leads while it still serves."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafkad.adapters.links.supervision_channel import BrokerStateChanged, LeadershipMoved, Message
from kafkad.core.supervision.broker_state import BrokerState, enter
from tests.one_thread import Incarnation
from tests.simulation.broker import Broker
from tests.simulation.scheduler import MS, Scheduler, Violated

PATIENCE_MS = 61_500
"""Three tries, as the supervisor counts them."""
_OUTCOMES = "kafkad.processes.controller.requests.controlled_shutdown"
_RELIEVED = "controlled shutdown: other brokers lead all partitions"


class ClusterBroker(Broker):
    """The supervisor's part of a controlled shutdown is played here."""

    is_leaving = False
    is_relieved: Callable[[], bool]
    """Others lead, and wait for it no more, as the ensemble has it now."""
    _was_relieved = False
    """At some time since it began to leave."""

    def leave(self) -> None:
        """SIGTERM. What is not ready has nothing to hand over."""
        resources = self.resources
        if resources is None or self.is_leaving or self.is_stopping:
            return
        registry = self.registry
        if registry.broker_state != BrokerState.RUNNING_AS_BROKER:
            self.stop()
            return
        self._scheduler.note(self._me, "others take over from the broker")
        self.is_leaving, self._was_relieved = True, False
        self.state_changed()
        registry.broker_state = enter(registry.broker_state, BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        self._tell_all(BrokerStateChanged(state=BrokerState.PENDING_CONTROLLED_SHUTDOWN))
        self.timers.after(PATIENCE_MS * MS, self._late(resources))

    def state_changed(self) -> None:
        """Somebody has written to the ensemble."""
        if self.is_leaving and not self._was_relieved:
            self._was_relieved = self.is_relieved()

    def says_it_is_relieved(self) -> None:
        if not self._was_relieved:
            raise Violated(f"{self.name} ends as if others led in its place, which they did not since it was told to")

    def _late(self, of: object) -> Callable[[], None]:
        return lambda: self.stop() if self.is_leaving and self.resources is of else None

    def stop(self) -> None:
        self.is_leaving = False
        super().stop()

    def _heard(self, incarnation: Incarnation, message: Message) -> None:
        if not isinstance(message, LeadershipMoved):
            super()._heard(incarnation, message)
        elif self.is_leaving:
            self.stop()

    def _ended(self, incarnation: Incarnation) -> None:
        if self.is_leaving and incarnation.key.role == "controller":
            # The controlled shutdown ends with the process that asks for it.
            self.stop()
        super()._ended(incarnation)

    def _over(self) -> None:
        self.is_leaving = False
        super()._over()


class _Outcomes(logging.Handler):
    """A broker says in its log why its controlled shutdown is over."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(logging.INFO)
        self._scheduler = scheduler

    def emit(self, record: logging.LogRecord) -> None:
        strand = self._scheduler.current
        broker = strand.home if strand is not None else None
        if isinstance(broker, ClusterBroker) and record.getMessage().startswith(_RELIEVED):
            broker.says_it_is_relieved()


@contextmanager
def outcomes_checked(scheduler: Scheduler) -> Iterator[None]:
    """Of controlled shutdowns."""
    logger, outcomes = logging.getLogger(_OUTCOMES), _Outcomes(scheduler)
    logger.addHandler(outcomes)
    try:
        yield
    finally:
        logger.removeHandler(outcomes)
