"""Leader election: Kafka's PartitionLeaderElectionAlgorithms, and what a strategy may decide instead.

Every rule walks the assignment in its order; the order of the ISR never matters. A leader outside the ISR loses
records, so it's chosen only where `unclean` allows it, and `elect` checks every strategy for that.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from kafkad.core.types import BrokerId


class ElectionReason(Enum):
    """The reason for an election."""

    OFFLINE = "offline"  # a new partition, or one whose leader is gone
    REASSIGNMENT = "reassignment"  # the leader isn't in the new assignment
    PREFERRED = "preferred"  # back to the first replica of the assignment
    CONTROLLED_SHUTDOWN = "controlled shutdown"  # the leader is about to stop


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionContext:
    """What else a strategy may look at. `racks` names the rack of each broker that has one."""

    topic: str
    partition: int
    reason: ElectionReason = ElectionReason.OFFLINE
    unclean: bool = False
    shutting_down: frozenset[BrokerId] = frozenset()
    racks: Mapping[BrokerId, str] = field(default_factory=dict)


class LeaderElectionStrategy(Protocol):
    """A named way to choose leaders; the configuration names the one to use."""

    @property
    def name(self) -> str: ...

    def elect(
        self,
        assignment: Sequence[BrokerId],
        isr: AbstractSet[BrokerId],
        live: AbstractSet[BrokerId],
        context: ElectionContext,
    ) -> BrokerId | None:
        """The leader, out of `assignment` and `live`; None leaves the partition without one.

        For REASSIGNMENT `assignment` is the new one. Outside `isr` is legal only if
        `context.unclean` and the reason is OFFLINE.
        """


class IllegalElection(Exception):
    """A strategy's choice would lose data or is no live replica: the strategy is broken."""


def elect(
    strategy: LeaderElectionStrategy,
    *,
    assignment: Sequence[BrokerId],
    isr: AbstractSet[BrokerId],
    live: AbstractSet[BrokerId],
    context: ElectionContext,
) -> BrokerId | None:
    """The checked choice of `strategy`; raises IllegalElection."""
    leader = strategy.elect(assignment, isr, live, context)
    if leader is None:
        return None
    problem = None
    if leader not in assignment or leader not in live:
        problem = f"expected one of {sorted(set(assignment) & live)} (assigned and alive) or None"
    elif leader not in isr and not (context.unclean and context.reason is ElectionReason.OFFLINE):
        problem = f"expected a member of the ISR {sorted(isr)} or None: unclean election is not allowed here"
    if problem is not None:
        where = f"{context.topic}-{context.partition}"
        raise IllegalElection(f"strategy {strategy.name!r} elected {leader!r} for {where}: {problem}")
    # What the broker knows itself by: an int of the strategy's own class can't be stored.
    return assignment[assignment.index(leader)]


def offline_leader(
    assignment: Sequence[BrokerId],
    isr: AbstractSet[BrokerId],
    live: AbstractSet[BrokerId],
    *,
    unclean: bool = False,
) -> BrokerId | None:
    """First of the assignment that is alive and in the ISR; without one the first alive, if `unclean`."""
    clean = _first(assignment, isr & live)
    return _first(assignment, live) if clean is None and unclean else clean


def reassignment_leader(
    new_assignment: Sequence[BrokerId], isr: AbstractSet[BrokerId], live: AbstractSet[BrokerId]
) -> BrokerId | None:
    """First of the new assignment that is alive and in the ISR."""
    return _first(new_assignment, isr & live)


def preferred_leader(
    assignment: Sequence[BrokerId], isr: AbstractSet[BrokerId], live: AbstractSet[BrokerId]
) -> BrokerId | None:
    """The first of the assignment, or None."""
    return _first(assignment[:1], isr & live)


def controlled_shutdown_leader(
    assignment: Sequence[BrokerId],
    isr: AbstractSet[BrokerId],
    live: AbstractSet[BrokerId],
    shutting_down: AbstractSet[BrokerId],
) -> BrokerId | None:
    """First of the assignment that is alive, in the ISR and not shutting down."""
    return _first(assignment, (isr & live) - shutting_down)


def _first(candidates: Sequence[BrokerId], eligible: AbstractSet[BrokerId]) -> BrokerId | None:
    return next((candidate for candidate in candidates if candidate in eligible), None)
