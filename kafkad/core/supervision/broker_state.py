"""The states of a broker, and the transitions between them.

The numbers are Kafka's; the gauge BrokerState shows them. There is no 5.

NOT_RUNNING                      serves nothing. Next: STARTING
STARTING                         processes start. Next: recovering, running, or shutting down
RECOVERING_FROM_UNCLEAN_SHUTDOWN logs are scanned. Next: running, or shutting down
RUNNING_AS_BROKER                serves. Next: controller, or pending controlled shutdown
RUNNING_AS_CONTROLLER            serves and is the controller. Next: broker, or pending controlled shutdown
PENDING_CONTROLLED_SHUTDOWN      leadership moves to other brokers, clients are still served. Next: shutting down
BROKER_SHUTTING_DOWN             clients are not served, logs are closed. Next: NOT_RUNNING
"""

from enum import IntEnum


class BrokerState(IntEnum):
    """Kafka's broker states with their numbers."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERING_FROM_UNCLEAN_SHUTDOWN = 2
    RUNNING_AS_BROKER = 3
    RUNNING_AS_CONTROLLER = 4
    PENDING_CONTROLLED_SHUTDOWN = 6
    BROKER_SHUTTING_DOWN = 7


_NEXT = {
    BrokerState.NOT_RUNNING: {BrokerState.STARTING},
    # Kafka's BrokerState has no transition for a broker that is stopped, or fails, before it runs: there is no
    # leadership to move then, so it shuts down directly.
    BrokerState.STARTING: {
        BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN,
        BrokerState.RUNNING_AS_BROKER,
        BrokerState.BROKER_SHUTTING_DOWN,
    },
    BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN: {
        BrokerState.RUNNING_AS_BROKER,
        BrokerState.BROKER_SHUTTING_DOWN,
    },
    BrokerState.RUNNING_AS_BROKER: {
        BrokerState.RUNNING_AS_CONTROLLER,
        BrokerState.PENDING_CONTROLLED_SHUTDOWN,
    },
    BrokerState.RUNNING_AS_CONTROLLER: {
        BrokerState.RUNNING_AS_BROKER,
        BrokerState.PENDING_CONTROLLED_SHUTDOWN,
    },
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: {BrokerState.BROKER_SHUTTING_DOWN},
    BrokerState.BROKER_SHUTTING_DOWN: {BrokerState.NOT_RUNNING},
}

_KNOWN = frozenset(BrokerState)


class IllegalTransition(Exception):
    """The requested state can't follow the present one."""


def is_legal(current: int, new: int) -> bool:
    """Other numbers than Kafka's are custom states, whose order is up to the code that uses them."""
    if current not in _KNOWN or new not in _KNOWN:
        return 0 <= new <= 127
    return BrokerState(new) in _NEXT[BrokerState(current)]


def enter(current: int, new: int) -> int:
    """The state after the transition from `current` to `new`. Raises `IllegalTransition`."""
    if not is_legal(current, new):
        raise IllegalTransition(f"the broker state can't change from {_name(current)} to {_name(new)}")
    return new


def leaving(current: int) -> tuple[BrokerState, ...]:
    """The states of a shutdown, in order, until clients are not served."""
    if current in (BrokerState.RUNNING_AS_BROKER, BrokerState.RUNNING_AS_CONTROLLER):
        return (BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.BROKER_SHUTTING_DOWN)
    return (BrokerState.BROKER_SHUTTING_DOWN,)


def _name(state: int) -> str:
    return BrokerState(state).name if state in _KNOWN else str(state)
