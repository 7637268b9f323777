"""`kafkad reassign execute` and `verify`: execute a plan from a file, and compare it with the present replicas."""

from collections.abc import Mapping, Sequence
from typing import BinaryIO

import click

from kafkad.cli.broker_options import broker_options, connected_client
from kafkad.cli.commands.cluster.reassignment_execution import (
    RATE,
    Targets,
    execute_reassignment,
    print_results,
    replicas_of,
)
from kafkad.cli.commands.cluster.reassignment_plan import from_document
from kafkad.cli.options import json_option
from kafkad.client.broker_client import TopicDescription
from kafkad.client.reassignments import Partition, Reason, reassignments

_EXECUTE_HELP = """Reassign the partitions in PLAN to the replicas in PLAN.

PLAN is a file in the format of "kafkad reassign generate --json" and kafka-reassign-partitions.sh; - is standard input.
The command waits for the end and prints its progress, as "kafkad reassign start" does.

\b
Example:
  kafkad reassign generate orders --to 4,5 --json >plan.json
  kafkad reassign execute plan.json --throttle 50000000
"""


@click.command(help=_EXECUTE_HELP, short_help="Move partitions according to a plan.")
@click.argument("plan", metavar="PLAN", type=click.File("rb"))
@click.option("--no-wait", is_flag=True, help="Don't wait for the end.")
@click.option("--throttle", "rate", type=RATE, metavar="BYTES", help="Limit in bytes a second for each broker.")
@json_option
@broker_options
def execute(plan: BinaryIO, no_wait: bool, rate: int | None, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """See `_EXECUTE_HELP`."""
    targets = from_document(plan.read())
    with connected_client(bootstrap, timeout_s) as client:
        results = execute_reassignment(client, targets, client.topics(), rate, waits=not no_wait)
    done = "is being moved according to the plan" if no_wait else "has been moved according to the plan"
    print_results(results, done, as_json=as_json)


_VERIFY_HELP = """Compare the replicas of partitions with PLAN; nothing is changed.

PLAN is a file as for "kafkad reassign execute".

Exit code 0: all partitions have the replicas of the plan, and none is being reassigned; 1: a line for each other
partition has the reason.

\b
Example:
  kafkad reassign verify plan.json
"""


@click.command(help=_VERIFY_HELP, short_help="Compare partitions with a plan.")
@click.argument("plan", metavar="PLAN", type=click.File("rb"))
@json_option
@broker_options
def verify(plan: BinaryIO, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """See `_VERIFY_HELP`."""
    targets = from_document(plan.read())
    with connected_client(bootstrap, timeout_s) as client:
        in_progress = {(each.topic, each.partition) for each in reassignments(client)}
        results = compared(targets, client.topics(), in_progress)
    print_results(results, "has the replicas of the plan", as_json=as_json)


def compared(
    targets: Targets, topics: Sequence[TopicDescription], in_progress: set[Partition]
) -> Mapping[Partition, Reason]:
    """By partition the difference from the plan; None if the replicas are those of the plan."""
    present = replicas_of(topics)
    return {at: _difference(present.get(at), tuple(target), at in in_progress) for at, target in targets.items()}


def _difference(present: Sequence[int] | None, target: tuple[int, ...], is_in_progress: bool) -> Reason:
    if present is None:
        return "the partition does not exist"
    if is_in_progress:
        return f"the partition is being reassigned, with replicas {_shown(present)}"
    if tuple(present) == target:
        return None
    return f"the partition has replicas {_shown(present)} instead of {_shown(target)}"


def _shown(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
