"""The states of a classic group, and from which each may be entered."""

from enum import Enum


class ClassicState(Enum):
    """What a group is doing. The values are the names that clients see.

    EMPTY: nobody is in it; a join starts the initial rebalance (→ PREPARING_REBALANCE).
    PREPARING_REBALANCE: joins wait until all have come or the time is up; heartbeats are told to rejoin
        (→ COMPLETING_REBALANCE, or EMPTY when nobody stayed).
    COMPLETING_REBALANCE: the generation is made; syncs wait for the leader's assignment (→ STABLE,
        or PREPARING_REBALANCE when somebody comes, goes or changes).
    STABLE: everybody may have the assignment (→ PREPARING_REBALANCE).
    DEAD: the group left this coordinator; everything is COORDINATOR_NOT_AVAILABLE.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MAY_FOLLOW = {
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
"""The state → those that it may follow."""

CAN_REBALANCE = MAY_FOLLOW[ClassicState.PREPARING_REBALANCE]
