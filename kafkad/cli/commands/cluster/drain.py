"""`kafkad brokers drain`: what a broker has goes to others, which then can do without it."""

from collections import Counter
from collections.abc import Mapping, Sequence

import click

from kafkad.cli.asking import CommandFailed, asking, asks_broker
from kafkad.cli.commands.cluster.carrying_out import tell, wait_for
from kafkad.cli.options import json_option
from kafkad.client.broker_client import BrokerDescription, TopicDescription
from kafkad.client.controlled_shutdown import controlled_shutdown
from kafkad.client.reassignments import Partition, Reason, Reassignment, reassign, reassignments

NOWHERE = "every other broker that lives has a replica already"


@click.command(
    epilog="\b\nExample:\n  kafkad brokers drain 3\n  kafkad brokers drain host3.example:9092 --leaders-only",
    short_help="Move all partitions, or all leadership, away from a broker.",
)
@click.argument("which", metavar="BROKER")
@click.option("--no-wait", is_flag=True, help="Don't wait until the partitions are gone.")
@click.option("--leaders-only", is_flag=True, help="Others lead, and the replicas stay; then stop the broker.")
@json_option
@asks_broker
def drain(
    which: str, no_wait: bool, leaders_only: bool, as_json: bool, bootstrap: str, timeout_s: float
) -> None:
    """Move all partitions of BROKER, an id or HOST:PORT, to others: of another rack if there is one, those with the
    fewest first.

    BROKER may be away for good. Partitions made later may be on it again: stop it when this is done.

    With --leaders-only its replicas stay, as in a controlled shutdown: others lead, and it is in sync nowhere where
    others are, until it is restarted. Ask on the listener between brokers.

    Exit code 0: it has no partition (with --no-wait: will have none), or leads none; 1: a line for each that stays says
    why.
    """
    with asking(bootstrap, timeout_s) as client:
        brokers = client.describe_brokers()
        broker = broker_id(which, brokers)
        if leaders_only:
            tell_leaders(broker, controlled_shutdown(client, broker), as_json=as_json)
            return
        topics, under_way = client.topics(), reassignments(client)
        targets = without(broker, brokers, topics, under_way)
        if not targets and all(each.broker != broker for each in brokers):
            raise click.ClickException(f"there is no broker {broker}, and no partition has a replica on it")
        results: dict[Partition, Reason] = {at: NOWHERE for at, target in targets.items() if target is None}
        wanted = {at: target for at, target in targets.items() if target is not None}
        if wanted:
            results |= reassign(client, wanted)
        if not no_wait:
            wait_for(client, [at for at, reason in results.items() if reason is None])
    if not results and not as_json:
        click.echo(f"Broker {broker} has no partition.")
    tell(results, f"{'leaves' if no_wait else 'has left'} broker {broker}", as_json=as_json)


def broker_id(which: str, brokers: Sequence[BrokerDescription]) -> int:
    """Of the broker with this id or this address. Raises CommandFailed."""
    if which.isascii() and which.isdigit():
        return int(which)
    found = [each.broker for each in brokers if f"{each.host}:{each.port}" == which]
    if not found:
        raise CommandFailed(f"there is no broker {which}")
    return found[0]


def tell_leaders(broker: int, remaining: Sequence[Partition], *, as_json: bool) -> None:
    """What it still leads; then the exit code is 1."""
    if not remaining and not as_json:
        click.echo(f"Broker {broker} leads no partition any more.")
    tell(dict.fromkeys(remaining, f"broker {broker} leads on, as nobody else is in sync"), "", as_json=as_json)


def without(
    broker: int,
    brokers: Sequence[BrokerDescription],
    topics: Sequence[TopicDescription],
    under_way: Sequence[Reassignment],
) -> Mapping[Partition, tuple[int, ...] | None]:
    """The replicas of each partition that `broker` has, with another one in its place; None: there is no other."""
    leaving = {(each.topic, each.partition): each.removing for each in under_way}
    replicas = {
        (topic.name, row.partition): tuple(
            each for each in row.replicas if each not in leaving.get((topic.name, row.partition), ())
        )
        for topic in topics
        for row in topic.partitions
    }
    racks = {each.broker: each.rack for each in brokers if each.broker != broker}
    counts = Counter(each for row in replicas.values() for each in row)
    targets: dict[Partition, tuple[int, ...] | None] = {}
    for at, row in replicas.items():
        if broker not in row:
            continue
        others = [each for each in racks if each not in row]
        if not others:
            targets[at] = None
            continue
        used = {racks.get(each) for each in row if each != broker} - {None}
        found = min(others, key=lambda each: (racks[each] in used, counts[each], each))
        counts[found] += 1
        targets[at] = tuple(found if each == broker else each for each in row)
    return targets
