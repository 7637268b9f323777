"""`kafkad brokers drain`: move all replicas or leaders of a broker to other brokers."""

from collections import Counter
from collections.abc import Mapping, Sequence

import click

from kafkad.cli.broker_options import CommandFailed, broker_options, connected_client
from kafkad.cli.commands.cluster.reassignment_execution import print_results, wait_for
from kafkad.cli.options import json_option, number_in
from kafkad.client.broker_client import BrokerClient, BrokerDescription, TopicDescription
from kafkad.client.reassignments import Partition, Reason, Reassignment, elect_leaders, reassign, reassignments

NO_OTHER_BROKER = "every other live broker already has a replica"


@click.command(
    epilog="\b\nExample:\n  kafkad brokers drain 3\n  kafkad brokers drain host3.example:9092 --leaders-only",
    short_help="Move all partitions, or all leadership, off a broker.",
)
@click.argument("which", metavar="BROKER")
@click.option("--no-wait", is_flag=True, help="Don't wait for the end.")
@click.option("--leaders-only", is_flag=True, help="Only move leadership; the replicas stay in sync.")
@json_option
@broker_options
def drain(which: str, no_wait: bool, leaders_only: bool, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Move all partitions off BROKER, an id or HOST:PORT.

    Partitions move to brokers in another rack, if possible, and with the fewest partitions. BROKER may be lost forever.
    New partitions may be placed on it again: stop it afterwards.

    With --leaders-only only leadership moves, and the replicas stay in sync. BROKER becomes the last replica of each
    partition, so that elections of preferred leaders do not return leadership to BROKER.

    Exit code 0: the broker has no partitions (with --no-wait: the moves have begun), or leads none; 1: some partitions
    stay, and a line for each has the reason.
    """
    with connected_client(bootstrap, timeout_s) as client:
        brokers = client.describe_brokers()
        broker = broker_id(which, brokers)
        if leaders_only:
            results = move_leaders(client, broker)
            if not results and not as_json:
                click.echo(f"Broker {broker} leads no partition and is no preferred leader.")
            print_results(results, f"has another leader than broker {broker}", as_json=as_json)
            return
        topics, in_progress = client.topics(), reassignments(client)
        targets = without(broker, brokers, topics, in_progress)
        if not targets and all(each.broker != broker for each in brokers):
            raise CommandFailed(f"broker {broker} does not exist and has no replicas")
        results = {at: NO_OTHER_BROKER for at, target in targets.items() if target is None}
        reassigned = {at: target for at, target in targets.items() if target is not None}
        if reassigned:
            results |= reassign(client, reassigned)
        if not no_wait:
            wait_for(client, [at for at, reason in results.items() if reason is None])
    if not results and not as_json:
        click.echo(f"Broker {broker} has no partition.")
    print_results(results, f"{'leaves' if no_wait else 'has left'} broker {broker}", as_json=as_json)


def broker_id(which: str, brokers: Sequence[BrokerDescription]) -> int:
    """The id of the broker with this id or address. Raises CommandFailed."""
    number = number_in(which)
    if number is not None:
        return number
    found = [each.broker for each in brokers if f"{each.host}:{each.port}" == which]
    if not found:
        raise CommandFailed(f"no broker {which} exists")
    return found[0]


def move_leaders(client: BrokerClient, broker: int) -> dict[Partition, Reason]:
    """By partition the reason why `broker` still is its leader or preferred leader, or None."""
    orders, results = led_by_others(broker, client.topics(), reassignments(client))
    if orders:
        moved = reassign(client, orders)
        results |= moved
        elected = [at for at, reason in moved.items() if reason is None]
        results |= elect_leaders(client, elected, unclean=False) if elected else {}
    return results


def led_by_others(
    broker: int, topics: Sequence[TopicDescription], in_progress: Sequence[Reassignment]
) -> tuple[dict[Partition, tuple[int, ...]], dict[Partition, Reason]]:
    """New orders of replicas, and the reasons where none is possible, for each partition with `broker` as leader or
    preferred leader. The first replica of an order is in sync, and `broker` is the last one.
    """
    moving = {(each.topic, each.partition) for each in in_progress}
    orders: dict[Partition, tuple[int, ...]] = {}
    reasons: dict[Partition, Reason] = {}
    for topic in topics:
        for row in topic.partitions:
            if broker not in (row.leader, *row.replicas[:1]):
                continue
            at = (topic.name, row.partition)
            others = [each for each in row.replicas if each != broker]
            first = next((each for each in others if each in row.isr), None)
            if at in moving:
                reasons[at] = "the partition is being reassigned: wait for the end of the reassignment"
            elif not others:
                reasons[at] = f"broker {broker} has the only replica"
            elif first is None:
                reasons[at] = "no other replica is in sync"
            else:
                orders[at] = (first, *(each for each in others if each != first), broker)
    return orders, reasons


def without(
    broker: int,
    brokers: Sequence[BrokerDescription],
    topics: Sequence[TopicDescription],
    in_progress: Sequence[Reassignment],
) -> Mapping[Partition, tuple[int, ...] | None]:
    """For each partition on `broker` its replicas with another broker instead of `broker`; None if there is none."""
    leaving = {(each.topic, each.partition): each.removing for each in in_progress}
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
