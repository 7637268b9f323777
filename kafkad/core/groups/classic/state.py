"""The states of a classic group, and their valid previous states."""

from enum import Enum


class ClassicState(Enum):
    """The values are the names for clients.

    EMPTY: no members; a join starts the initial rebalance (→ PREPARING_REBALANCE).
    PREPARING_REBALANCE: joins wait until all members have joined or the timeout expires; heartbeats get
        REBALANCE_IN_PROGRESS (→ COMPLETING_REBALANCE, or EMPTY without members).
    COMPLETING_REBALANCE: the generation has started; syncs wait for the leader's assignment (→ STABLE, or
        PREPARING_REBALANCE when a member joins, leaves or changes).
    STABLE: syncs get the assignment (→ PREPARING_REBALANCE).
    DEAD: this coordinator has unloaded the group; all requests get COORDINATOR_NOT_AVAILABLE.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES = {
    ClassicState.EMPTY: {ClassicState.PREPARING_REBALANCE},
    ClassicState.PREPARING_REBALANCE: {
        ClassicState.STABLE,
        ClassicState.COMPLETING_REBALANCE,
        ClassicState.EMPTY,
    },
    ClassicState.COMPLETING_REBALANCE: {ClassicState.PREPARING_REBALANCE},
    ClassicState.STABLE: {ClassicState.COMPLETING_REBALANCE},
    ClassicState.DEAD: set(ClassicState),
}
"""The states from which a group may change to each state."""

CAN_REBALANCE = VALID_PREVIOUS_STATES[ClassicState.PREPARING_REBALANCE]
