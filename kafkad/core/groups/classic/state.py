"""The states of a classic group, and from which each may be entered."""

from enum import Enum


class ClassicState(Enum):
    """What a group is doing. The values are the names that clients see.

    EMPTY: no members; a join starts the initial rebalance (→ PREPARING_REBALANCE).
    PREPARING_REBALANCE: joins wait until all members have joined or the time is up; heartbeats are answered with
        REBALANCE_IN_PROGRESS (→ COMPLETING_REBALANCE, or EMPTY without members).
    COMPLETING_REBALANCE: the generation has begun; syncs wait for the leader's assignment (→ STABLE, or
        PREPARING_REBALANCE when a member comes, leaves or changes).
    STABLE: members can get their assignment (→ PREPARING_REBALANCE).
    DEAD: this coordinator no longer has the group; all requests get COORDINATOR_NOT_AVAILABLE.
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
"""For each state, the states that may come right before it."""

CAN_REBALANCE = MAY_FOLLOW[ClassicState.PREPARING_REBALANCE]
