"""What state may a broker be in, and where can it go from there?

The numbers are Kafka's; the gauge BrokerState shows them. There is no 5.

NOT_RUNNING                      nothing is served; starts
STARTING                         processes come up; recovers, runs, or is stopped before it ran
RECOVERING_FROM_UNCLEAN_SHUTDOWN logs are scanned; runs, or is stopped before it ran
RUNNING_AS_BROKER                serves; may be elected controller, or shuts down
RUNNING_AS_CONTROLLER            serves and is the controller; may lose that, or shuts down
PENDING_CONTROLLED_SHUTDOWN      leadership moves away while clients are still answered; goes on to shut down
BROKER_SHUTTING_DOWN             no clients any more, logs are closed; ends
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
    # Kafka's BrokerState has no way out for a broker that is stopped, or fails, before it runs: there is no
    # leadership to move then, so it goes straight to shutting down.
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
    """Numbers that are not Kafka's are custom states; the code that uses them knows what may follow."""
    if current not in _KNOWN or new not in _KNOWN:
        return 0 <= new <= 127
    return BrokerState(new) in _NEXT[BrokerState(current)]


def enter(current: int, new: int) -> int:
    """The state after going from `current` to `new`. Raises `IllegalTransition`."""
    if not is_legal(current, new):
        raise IllegalTransition(f"a broker can't go from state {_name(current)} to {_name(new)}")
    return new


def leaving(current: int) -> tuple[BrokerState, ...]:
    """The states to go through, in order, until clients are no longer served."""
    if current in (BrokerState.RUNNING_AS_BROKER, BrokerState.RUNNING_AS_CONTROLLER):
        return (BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.BROKER_SHUTTING_DOWN)
    return (BrokerState.BROKER_SHUTTING_DOWN,)


def _name(state: int) -> str:
    return BrokerState(state).name if state in _KNOWN else str(state)
