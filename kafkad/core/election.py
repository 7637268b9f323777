"""Leader election: Kafka's PartitionLeaderElectionAlgorithms, and the contract of a strategy.

Every rule follows the order of the assignment; the order of the ISR never matters. A leader outside the ISR loses
records, so it is allowed only if `unclean`; `elect` checks every strategy for that.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from kafkad.core.types import BrokerId


class ElectionReason(Enum):
    """The reason for an election."""

    OFFLINE = "offline"  # a new partition, or its leader failed
    REASSIGNMENT = "reassignment"  # the leader is not in the new assignment
    PREFERRED = "preferred"  # back to the first replica of the assignment
    CONTROLLED_SHUTDOWN = "controlled shutdown"  # the leader shuts down


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionContext:
    """Further information for a strategy. `racks` has the rack of each broker with one."""

    topic: str
    partition: int
    reason: ElectionReason = ElectionReason.OFFLINE
    unclean: bool = False
    shutting_down: frozenset[BrokerId] = frozenset()
    racks: Mapping[BrokerId, str] = field(default_factory=dict)


class LeaderElectionStrategy(Protocol):
    """A named way to elect leaders; the configuration selects one."""

    @property
    def name(self) -> str: ...

    def elect(
        self,
        assignment: Sequence[BrokerId],
        isr: AbstractSet[BrokerId],
        live: AbstractSet[BrokerId],
        context: ElectionContext,
    ) -> BrokerId | None:
        """The leader, from `assignment` and `live`; None leaves the partition without leader.

        For REASSIGNMENT `assignment` is the new one. A leader outside `isr` is legal only if `context.unclean` and the
        reason is OFFLINE.
        """


class IllegalElection(Exception):
    """A strategy chose a replica that is not live or would lose data: a bug of the strategy."""


def elect(
    strategy: LeaderElectionStrategy,
    *,
    assignment: Sequence[BrokerId],
    isr: AbstractSet[BrokerId],
    live: AbstractSet[BrokerId],
    context: ElectionContext,
) -> BrokerId | None:
    """The checked choice of `strategy`. Raises IllegalElection."""
    leader = strategy.elect(assignment, isr, live, context)
    if leader is None:
        return None
    problem = None
    if leader not in assignment or leader not in live:
        problem = f"expected one of {sorted(set(assignment) & live)} (assigned and live) or None"
    elif leader not in isr and not (context.unclean and context.reason is ElectionReason.OFFLINE):
        problem = f"expected a member of the ISR {sorted(isr)} or None: unclean election is not allowed here"
    if problem is not None:
        where = f"{context.topic}-{context.partition}"
        raise IllegalElection(f"strategy {strategy.name!r} elected {leader!r} for {where}: {problem}")
    # The broker's own id object: an int of the strategy's own class can't be stored.
    return assignment[assignment.index(leader)]


def offline_leader(
    assignment: Sequence[BrokerId],
    isr: AbstractSet[BrokerId],
    live: AbstractSet[BrokerId],
    *,
    unclean: bool = False,
) -> BrokerId | None:
    """The first live replica in the ISR, in assignment order; without one the first live replica, if `unclean`."""
    clean = _first(assignment, isr & live)
    return _first(assignment, live) if clean is None and unclean else clean


def reassignment_leader(
    new_assignment: Sequence[BrokerId], isr: AbstractSet[BrokerId], live: AbstractSet[BrokerId]
) -> BrokerId | None:
    """The first live replica in the ISR, in the order of the new assignment."""
    return _first(new_assignment, isr & live)


def preferred_leader(
    assignment: Sequence[BrokerId], isr: AbstractSet[BrokerId], live: AbstractSet[BrokerId]
) -> BrokerId | None:
    """The first replica of the assignment if it is live and in the ISR, or None."""
    return _first(assignment[:1], isr & live)


def controlled_shutdown_leader(
    assignment: Sequence[BrokerId],
    isr: AbstractSet[BrokerId],
    live: AbstractSet[BrokerId],
    shutting_down: AbstractSet[BrokerId],
) -> BrokerId | None:
    """The first live replica in the ISR that is not shutting down, in assignment order."""
    return _first(assignment, (isr & live) - shutting_down)


def _first(candidates: Sequence[BrokerId], eligible: AbstractSet[BrokerId]) -> BrokerId | None:
    return next((candidate for candidate in candidates if candidate in eligible), None)
