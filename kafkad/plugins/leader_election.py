"""Kafka's leader election: the preferred replica if it is live and in sync, else the next such replica.

The rules are in `kafkad.core.election`; this plugin selects the rule for the reason of the election.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from kafkad.api import (
    BrokerId,
    ElectionContext,
    ElectionReason,
    LeaderElectionStrategy,
    controlled_shutdown_leader,
    hookimpl,
    offline_leader,
    preferred_leader,
    reassignment_leader,
)


class PreferredReplica:
    """Elects the first eligible replica of the assignment."""

    name = "preferred"

    def elect(
        self,
        assignment: Sequence[BrokerId],
        isr: AbstractSet[BrokerId],
        live: AbstractSet[BrokerId],
        context: ElectionContext,
    ) -> BrokerId | None:
        match context.reason:
            case ElectionReason.OFFLINE:
                return offline_leader(assignment, isr, live, unclean=context.unclean)
            case ElectionReason.REASSIGNMENT:
                return reassignment_leader(assignment, isr, live)
            case ElectionReason.PREFERRED:
                return preferred_leader(assignment, isr, live)
            case ElectionReason.CONTROLLED_SHUTDOWN:
                return controlled_shutdown_leader(assignment, isr, live, context.shutting_down)


@hookimpl(trylast=True)
def kafkad_register_leader_election_strategies() -> Sequence[LeaderElectionStrategy]:
    return [PreferredReplica()]
