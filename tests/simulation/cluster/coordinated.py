"""The clients of a run that have a coordinator: transactions, offsets, members of a group."""

from collections.abc import Callable
from functools import partial

from tests.simulation.cluster.casting import OFFSETS, TOPIC, TRANSACTIONS, ClusterShape
from tests.simulation.cluster.clients import ClusterKeeper, ClusterTransactor
from tests.simulation.cluster.forwarder import ClusterForwarder, Leads
from tests.simulation.cluster.members import ClusterMember, Group
from tests.simulation.scheduler import Scheduler
from tests.simulation.sockets import Port
from tests.simulation.transactions import Ledger


def transactors(
    scheduler: Scheduler, port: Port, shape: ClusterShape, ledger: Ledger, leads: Leads
) -> list[ClusterTransactor]:
    """Those of `shape.forwarders` commit an offset in each transaction, too."""
    found: list[ClusterTransactor] = []
    for number in range(shape.transactors + shape.forwarders):
        make: Callable[..., ClusterTransactor] = ClusterTransactor
        if number >= shape.transactors:
            make = partial(ClusterForwarder, source=(TOPIC, 0), groups=OFFSETS, leads=leads)
        made = make(
            scheduler,
            port,
            ledger,
            number=number,
            partitions=shape.ledger(),
            transactions=scheduler.random.choice((2, 4)),
            short_chance=shape.short_chance,
        )
        made.coordinator = TRANSACTIONS
        found.append(made)
    return found


def keepers(scheduler: Scheduler, port: Port, shape: ClusterShape, leads: Leads) -> list[ClusterKeeper]:
    found = []
    for number in range(shape.keepers):
        keeper = ClusterKeeper(
            scheduler,
            port,
            number=number,
            partition=(TOPIC, 0),
            commits=scheduler.random.choice((3, 8)),
            short_chance=shape.short_chance,
        )
        keeper.coordinator, keeper.leads = OFFSETS, leads
        found.append(keeper)
    return found


def members(scheduler: Scheduler, port: Port, shape: ClusterShape, leads: Leads) -> list[ClusterMember]:
    group = Group("shared", shape.all_partitions())
    return [
        ClusterMember(
            scheduler,
            port,
            f"member-{number}",
            short_chance=shape.short_chance,
            group=group,
            coordinator=OFFSETS,
            leads=leads,
            commits=scheduler.random.choice((2, 5)),
        )
        for number in range(shape.members)
    ]
