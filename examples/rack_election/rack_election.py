"""A leader election strategy: a replica in the rack named "main" leads; without one, the last that is fit.

`kafkad.leader.election.strategy=rack-or-last-replica`. Only replicas in sync are fit: nothing is ever lost.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from kafkad.api import BrokerId, ElectionContext, LeaderElectionStrategy, hookimpl

kafkad_requires = 1
RACK = "main"


class RackOrLastReplica:
    name = "rack-or-last-replica"

    def elect(
        self,
        assignment: Sequence[BrokerId],
        isr: AbstractSet[BrokerId],
        live: AbstractSet[BrokerId],
        context: ElectionContext,
    ) -> BrokerId | None:
        fit = [
            broker for broker in assignment if broker in isr and broker in live and broker not in context.shutting_down
        ]
        in_rack = [broker for broker in fit if context.racks.get(broker) == RACK]
        candidates = in_rack[:1] or fit[-1:]
        return candidates[0] if candidates else None


@hookimpl
def kafkad_register_leader_election_strategies() -> Sequence[LeaderElectionStrategy]:
    return [RackOrLastReplica()]
