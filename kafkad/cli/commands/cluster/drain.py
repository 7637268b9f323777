"""`kafkad brokers drain`: what a broker has goes to others, which then can do without it."""

from collections import Counter
from collections.abc import Mapping, Sequence

import click

from kafkad.cli.asking import asking, asks_broker
from kafkad.cli.commands.cluster.reassign import tell, wait_for
from kafkad.cli.options import json_option
from kafkad.client.broker_client import BrokerDescription, TopicDescription
from kafkad.client.reassignments import Partition, Reason, Reassignment, reassign, reassignments

NOWHERE = "every other broker that lives has a replica already"


@click.command(
    epilog="\b\nExample:\n  kafkad brokers drain 3\n  kafkad brokers drain 3 --no-wait",
    short_help="Move all partitions away from a broker.",
)
@click.argument("broker", type=click.IntRange(0))
@click.option("--no-wait", is_flag=True, help="Don't wait until the partitions are gone.")
@json_option
@asks_broker
def drain(broker: int, no_wait: bool, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Move all partitions of BROKER to other brokers: of another rack if there is one, those with the fewest first.

    BROKER may be away for good. Partitions made later may be on it again: stop it when this is done.

    Exit code 0: it has no partition (with --no-wait: will have none); 1: a line for each that stays says why.
    """
    with asking(bootstrap, timeout_s) as client:
        topics, under_way = client.topics(), reassignments(client)
        brokers = client.describe_brokers()
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
