"""`kafkad reassign`: move partitions to other brokers; show, throttle and cancel reassignments."""

import json
import random
from collections.abc import Sequence

import click

from kafkad.cli.broker_options import CommandFailed, broker_options, connected_client, named_partitions
from kafkad.cli.commands.cluster.planned import execute, verify
from kafkad.cli.commands.cluster.reassignment_execution import RATE, execute_reassignment, print_results, replicas_of
from kafkad.cli.commands.cluster.reassignment_plan import as_document, proposed
from kafkad.cli.options import json_option, number_in
from kafkad.cli.transaction_tables import table
from kafkad.client.configs import topic_configs
from kafkad.client.reassignments import Reassignment, reassign, reassignments
from kafkad.client.throttles import FOLLOWERS, LEADERS, Move, throttle, unthrottle


@click.group(
    "reassign",
    epilog="\b\nExample:\n  kafkad reassign start orders-3 --to 2,3,1\n  kafkad reassign list\n"
    "  kafkad reassign cancel orders-3\n  kafkad reassign throttle --rate 50000000",
)
def reassign_group() -> None:
    """Move partitions to other brokers without downtime."""


reassign_group.add_command(execute)
reassign_group.add_command(verify)


_START_HELP = """Reassign partitions to the replicas BROKERS, the preferred leader first.

PARTITION is a partition (orders-3), or a topic: all its partitions. New replicas are added to the old ones; when all of
BROKERS are in sync, the others are deleted. The command waits for the end and prints its progress; with --no-wait it
only requests the reassignment. Ctrl-C ends the wait, not the reassignment.

--throttle limits the bytes a second that each broker sends and receives for the reassigned partitions. The command
removes the limit at the end of its wait; otherwise "kafkad reassign throttle --remove" removes it.

Exit code 0: all partitions have these replicas (with --no-wait: the reassignments have begun); 1: a reassignment was
rejected, and a line has the reason.

\b
Example:
  kafkad reassign start orders-3 --to 2,3,1
  kafkad reassign start orders --to 4,5 --no-wait
  kafkad reassign start orders --to 4,5 --throttle 50000000
"""


@reassign_group.command(help=_START_HELP, short_help="Move partitions to other brokers.")
@click.argument("partitions", metavar="PARTITION...", nargs=-1, required=True)
@click.option("--to", "target", required=True, metavar="BROKERS", help="Broker ids, separated by commas.")
@click.option("--no-wait", is_flag=True, help="Don't wait for the end.")
@click.option("--throttle", "rate", type=RATE, metavar="BYTES", help="Limit in bytes a second for each broker.")
@json_option
@broker_options
def start(
    partitions: tuple[str, ...],
    target: str,
    no_wait: bool,
    rate: int | None,
    as_json: bool,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """See `_START_HELP`."""
    brokers = broker_ids(target)
    with connected_client(bootstrap, timeout_s) as client:
        topics = client.topics()
        targets = dict.fromkeys(named_partitions(partitions, topics), brokers)
        results = execute_reassignment(client, targets, topics, rate, waits=not no_wait)
    done = "is being moved" if no_wait else "has been moved"
    print_results(results, f"{done} to brokers {','.join(map(str, brokers))}", as_json=as_json)


_GENERATE_HELP = """Print a plan that spreads all partitions of TOPICs over BROKERS; nothing is moved.

The plan follows the rules for new topics: leaders are spread evenly, replicas over racks if all of BROKERS have one.
The current replicas and the plan are printed in the JSON format that kafka-reassign-partitions.sh --execute reads; with
--json as one object with both, which "kafkad reassign execute" reads.

\b
Example:
  kafkad reassign generate orders payments --to 2,3,4
"""


@reassign_group.command(help=_GENERATE_HELP, short_help="Print a plan for topics on some brokers.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--to", "target", required=True, metavar="BROKERS", help="Broker ids, separated by commas.")
@click.option("--disable-rack-aware", "no_racks", is_flag=True, help="Ignore racks.")
@json_option
@broker_options
def generate(
    topics: tuple[str, ...], target: str, no_racks: bool, as_json: bool, bootstrap: str, timeout_s: float
) -> None:
    """See `_GENERATE_HELP`."""
    requested = broker_ids(target)
    with connected_client(bootstrap, timeout_s) as client:
        by_name, brokers = {topic.name: topic for topic in client.topics()}, client.describe_brokers()
    missing = [name for name in topics if name not in by_name]
    if missing:
        raise CommandFailed(f"no topic {', '.join(missing)} exists")
    found = [by_name[name] for name in dict.fromkeys(topics)]
    plan = proposed(found, brokers, requested, with_racks=not no_racks, random_below=random.randrange)
    present = replicas_of(found)
    if as_json:
        click.echo(json.dumps({"current": as_document(present), "proposed": as_document(plan)}))
        return
    click.echo(f"Current partition replica assignment\n{json.dumps(as_document(present))}\n")
    click.echo(f"Proposed partition reassignment configuration\n{json.dumps(as_document(plan))}")


@reassign_group.command(epilog="\b\nExample:\n  kafkad reassign cancel orders-3")
@click.argument("partitions", metavar="PARTITION...", nargs=-1, required=True)
@json_option
@broker_options
def cancel(partitions: tuple[str, ...], as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Cancel reassignments: partitions keep their original replicas, and new replicas are deleted."""
    with connected_client(bootstrap, timeout_s) as client:
        requested = named_partitions(partitions, client.topics())
        results = reassign(client, dict.fromkeys(requested))
    print_results(results, "keeps its original replicas", as_json=as_json)


_THROTTLE_HELP = """Limit the reassignments in progress on each broker, or remove all limits.

The limit applies to reassignments that are in progress now; in-sync replicas are never throttled.

\b
Example:
  kafkad reassign throttle --rate 50000000
  kafkad reassign throttle --remove
"""


@reassign_group.command("throttle", help=_THROTTLE_HELP, short_help="Limit the reassignments in progress.")
@click.option("--rate", type=RATE, metavar="BYTES", help="Limit in bytes a second for each broker.")
@click.option("--remove", is_flag=True, help="Remove the limits of all brokers and topics.")
@json_option
@broker_options
def throttle_reassignments(rate: int | None, remove: bool, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """See `_THROTTLE_HELP`."""
    if (rate is None) is not remove:
        raise click.UsageError("give --rate BYTES or --remove")
    with connected_client(bootstrap, timeout_s) as client:
        if rate is None:
            configs = topic_configs(client, [each.name for each in client.topics()])
            topics = sorted(name for name, has in configs.items() if has.keys() & {LEADERS, FOLLOWERS})
            unthrottle(client, topics)
        else:
            in_progress = reassignments(client)
            if not in_progress:
                raise CommandFailed("no reassignment is in progress")
            throttle(client, [_move(each) for each in in_progress], rate)
            topics = sorted({each.topic for each in in_progress})
    if as_json:
        click.echo(json.dumps({"rate": rate, "topics": topics}))
        return
    for topic in topics:
        click.echo(f"{topic} is copied {'without limit' if rate is None else f'at {rate} bytes a second'}.")


def _move(each: Reassignment) -> Move:
    sources = tuple(broker for broker in each.replicas if broker not in each.adding)
    return Move(each.topic, each.partition, sources, each.adding)


@reassign_group.command("list", epilog="\b\nExample:\n  kafkad reassign list --json")
@json_option
@broker_options
def list_reassignments(as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Print the reassignments in progress."""
    with connected_client(bootstrap, timeout_s) as client:
        found = reassignments(client)
    if as_json:
        click.echo(json.dumps([each._asdict() for each in found]))
        return
    for line in reassignment_lines(found):
        click.echo(line)


def broker_ids(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    found = tuple(number for part in parts if (number := number_in(part.strip())) is not None)
    if len(found) < len(parts):
        raise click.BadParameter(f"expected broker ids separated by commas, found {text!r}", param_hint="--to")
    return found


def reassignment_lines(found: Sequence[Reassignment]) -> list[str]:
    rows = [(each.topic, each.partition, *(",".join(map(str, ids)) or "-" for ids in each[2:])) for each in found]
    return table(("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"), rows)
