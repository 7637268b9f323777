"""A broker that stops as SIGTERM makes it: others take over what it leads while it still serves."""

from collections.abc import Callable

from kafkad.adapters.links.supervision_channel import BrokerStateChanged, LeadershipMoved, Message
from kafkad.core.supervision.broker_state import BrokerState, enter
from tests.simulation.broker import Broker
from tests.simulation.incarnation import Incarnation
from tests.simulation.scheduler import MS

PATIENCE_MS = 61_500
"""Three tries, as the supervisor counts them."""


class ClusterBroker(Broker):
    """The supervisor's part of a controlled shutdown is played here."""

    is_leaving = False

    def leave(self) -> None:
        """SIGTERM. What is not ready has nothing to hand over."""
        resources = self.resources
        if resources is None or self.is_leaving or self.is_stopping:
            return
        registry = resources.shared.registry
        if registry.broker_state != BrokerState.RUNNING_AS_BROKER:
            self.stop()
            return
        self._scheduler.note(self._me, "others take over from the broker")
        self.is_leaving = True
        registry.broker_state = enter(registry.broker_state, BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        self._tell_all(BrokerStateChanged(state=BrokerState.PENDING_CONTROLLED_SHUTDOWN))
        self.timers.after(PATIENCE_MS * MS, self._late(resources))

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
