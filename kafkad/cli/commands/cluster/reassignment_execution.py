"""Execute reassignments from the command line: throttle, start, wait, print the results."""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

import click

from kafkad.cli.options import INT64_MAX
from kafkad.client.broker_client import BrokerClient, TopicDescription
from kafkad.client.reassignments import Partition, Reason, reassign, reassignments
from kafkad.client.throttles import Move, throttle, unthrottle

Targets = Mapping[Partition, Sequence[int]]
"""The target replicas of each partition, the preferred leader first."""

RATE = click.IntRange(1, INT64_MAX)
_CHECK_INTERVAL_S = 0.2
_PROGRESS_INTERVAL_S = 5.0


def execute_reassignment(
    client: BrokerClient, targets: Targets, topics: Iterable[TopicDescription], rate: int | None, *, waits: bool
) -> dict[Partition, Reason]:
    """Start the reassignments, and with `waits` wait for their end. Returns the reasons of rejections by partition,
    None for accepted reassignments.

    `rate` limits the bytes a second that each broker copies; the limit is removed when no reassignment is in progress.
    """
    if rate is not None:
        throttle(client, moves_to(targets, topics), rate)
    results = reassign(client, targets)
    if waits:
        wait_for(client, [at for at, reason in results.items() if reason is None])
    if rate is not None and not reassignments(client):
        unthrottle(client, sorted({topic for topic, _ in targets}))
    return results


def replicas_of(topics: Iterable[TopicDescription]) -> dict[Partition, Sequence[int]]:
    return {(topic.name, row.partition): row.replicas for topic in topics for row in topic.partitions}


def moves_to(targets: Targets, topics: Iterable[TopicDescription]) -> list[Move]:
    """The copies that these reassignments require."""
    replicas = replicas_of(topics)
    moves = []
    for (topic, index), target in targets.items():
        present = replicas.get((topic, index), ())
        new = tuple(broker for broker in target if broker not in present)
        if present and new:
            moves.append(Move(topic, index, tuple(present), new))
    return moves


def wait_for(
    client: BrokerClient, partitions: Sequence[Partition], *, progress_interval_s: float = _PROGRESS_INTERVAL_S
) -> None:
    """Wait until none of these is in progress; print progress on stderr every `progress_interval_s` s."""
    waiting = set(partitions)
    next_progress = time.monotonic() + progress_interval_s
    while left := waiting & {(each.topic, each.partition) for each in reassignments(client)}:
        if time.monotonic() >= next_progress:
            click.echo(f"kafkad: {len(waiting) - len(left)} of {len(waiting)} partition(s) have been moved", err=True)
            next_progress += progress_interval_s
        time.sleep(_CHECK_INTERVAL_S)


def print_results(results: Mapping[Partition, Reason], done: str, *, as_json: bool) -> None:
    """Print a line for each partition, with `done` or the error. Exit with code 1 after an error."""
    if as_json:
        rows = [{"topic": topic, "partition": index, "error": why} for (topic, index), why in sorted(results.items())]
        click.echo(json.dumps(rows))
    else:
        for (topic, index), why in sorted(results.items()):
            if why is None:
                click.echo(f"{topic}-{index} {done}.")
            else:
                click.echo(f"kafkad: {topic}-{index}: {why}", err=True)
    if any(results.values()):
        sys.exit(1)
