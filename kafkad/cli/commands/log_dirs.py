"""`kafkad log-dirs`: show log directories, their partitions and free space, and move partitions between them."""

import io
import json
import sys
import time
from collections.abc import Sequence

import click

from kafkad.cli.broker_options import CommandFailed, broker_options, connected_client, named_partitions
from kafkad.cli.options import INT32, json_option
from kafkad.cli.transaction_tables import table
from kafkad.client.broker_client import BrokerClient
from kafkad.client.log_dirs import UNKNOWN, LogDirDescription, describe_log_dirs
from kafkad.client.replica_moves import ReplicaMove, find_moves, move_replicas

_CHECK_INTERVAL_S = 0.2


@click.group("log-dirs", epilog="\b\nExample:\n  kafkad log-dirs describe\n  kafkad log-dirs move orders-3 --to /data2")
def log_dirs() -> None:
    """Show the log directories of the brokers, and move partitions between them."""


@log_dirs.command(epilog="\b\nExample:\n  kafkad log-dirs describe --topic orders --partitions")
@click.option("--topic", "names", multiple=True, metavar="TOPIC", help="Only partitions of this topic; repeatable.")
@click.option("--partitions", "with_partitions", is_flag=True, help="Also print a line for each partition.")
@json_option
@broker_options
def describe(names: tuple[str, ...], with_partitions: bool, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Print the size and free space of each log directory, and the size of its partitions."""
    with connected_client(bootstrap, timeout_s) as client:
        requested = None
        if names:
            requested = {topic.name: [row.partition for row in topic.partitions] for topic in client.topics(names)}
        found = describe_log_dirs(client, requested)
    if as_json:
        rows = [{**each._asdict(), "replicas": [row._asdict() for row in each.replicas]} for each in found]
        click.echo(json.dumps(rows))
        return
    for line in directory_lines(found):
        click.echo(line)
    if with_partitions:
        click.echo()
        for line in partition_lines(found):
            click.echo(line)


_MOVE_HELP = """Move partitions to another log directory of their broker without downtime.

PARTITION is a partition (orders-3), or a topic: all its partitions. The command waits for the end; with --no-wait it
only requests the move. Ctrl-C ends the wait, not the move. To cancel a move, move the partition to its present
directory. During a move both directories have the files of the partition.

The broker's replica.alter.log.dirs.io.max.bytes.per.second limits the rate.

Exit code 0: all partitions are moved (with --no-wait: the moves have begun); 1: a move was rejected or has failed, and
a line has the reason.

\b
Example:
  kafkad log-dirs move orders-3 --to /data2
  kafkad log-dirs move orders payments-0 --to /data2 --dry-run
  kafkad log-dirs move orders --to /data2 --no-wait --json
  kafkad log-dirs describe --topic orders --partitions
"""


@log_dirs.command(help=_MOVE_HELP, short_help="Move partitions to another log directory.")
@click.argument("partitions", metavar="PARTITION...", nargs=-1, required=True)
@click.option("--to", "target", required=True, metavar="DIR", help="The log directory, as in log.dirs.")
@click.option("--broker", type=INT32, help="The broker; needed if several have a directory of this name.")
@click.option("--dry-run", is_flag=True, help="Only print the moves.")
@click.option("--no-wait", is_flag=True, help="Don't wait for the end.")
@json_option
@broker_options
def move(
    partitions: tuple[str, ...],
    target: str,
    broker: int | None,
    dry_run: bool,
    no_wait: bool,
    as_json: bool,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """See `_MOVE_HELP`."""
    with connected_client(bootstrap, timeout_s) as client:
        requested = named_partitions(partitions, client.topics())
        found = describe_log_dirs(client)
        moves = find_moves(found, requested, broker_of(found, target, broker), target)
        _reject_absent(requested, moves, target)
        pending = [each for each in moves if not each.is_done or each.is_under_way]
        if dry_run or not pending:
            _print_moves(moves, [], as_json=as_json, is_planned=dry_run)
            return
        codes = move_replicas(client, pending)
        rejected = [(each, code.name) for each in pending if (code := codes[each.topic, each.partition])]
        accepted = [each for each in moves if each not in [row for row, _ in rejected]]
        ended = accepted if no_wait else follow(client, accepted, shows=not as_json and sys.stderr.isatty())
    not_moved = [(each, "the broker's log has the reason") for each in ended if not (no_wait or each.is_done)]
    _print_moves(ended, [*rejected, *not_moved], as_json=as_json, is_planned=no_wait)
    if rejected or not_moved:
        sys.exit(1)


def _reject_absent(requested: Sequence[tuple[str, int]], moves: Sequence[ReplicaMove], target: str) -> None:
    there = {(each.topic, each.partition) for each in moves}
    absent = [f"{topic}-{index}" for topic, index in requested if (topic, index) not in there]
    if absent:
        raise CommandFailed(f"the broker of {target} has no online replica of {', '.join(absent)}")


def broker_of(found: Sequence[LogDirDescription], target: str, broker: int | None) -> int:
    """The broker that has the directory `target`."""
    having = [row.broker for row in found if row.path == target and broker in (None, row.broker)]
    if len(having) == 1:
        return having[0]
    if having:
        raise CommandFailed(
            f"brokers {', '.join(map(str, having))} have a log directory {target}: select one by --broker"
        )
    paths = ", ".join(sorted({row.path for row in found if broker in (None, row.broker)}))
    raise CommandFailed(f"no broker has a log directory {target}; existing ones: {paths}")


def follow(client: BrokerClient, moves: Sequence[ReplicaMove], *, shows: bool) -> list[ReplicaMove]:
    """Wait for the end of all moves, with a progress bar; returns the moves afterwards."""
    if not moves:
        # All moves were rejected.
        return []
    requested = [(each.topic, each.partition) for each in moves]
    topics: dict[str, list[int]] = {}
    for topic, index in requested:
        topics.setdefault(topic, []).append(index)
    broker, target = moves[0].broker, moves[0].target
    with click.progressbar(length=100, label="Moving", file=sys.stderr if shows else io.StringIO()) as bar:
        while True:
            ended = find_moves(describe_log_dirs(client, topics), requested, broker, target)
            bar.update(percent_of(ended) - bar.pos)
            if not any(each.is_under_way for each in ended):
                return ended
            time.sleep(_CHECK_INTERVAL_S)


def percent_of(moves: Sequence[ReplicaMove]) -> int:
    size = sum(each.size_bytes for each in moves)
    copied = sum(each.size_bytes if each.is_done else min(each.copied_bytes, each.size_bytes) for each in moves)
    return 100 * copied // size if size else 100


def _print_moves(
    moves: Sequence[ReplicaMove], problems: Sequence[tuple[ReplicaMove, str]], *, as_json: bool, is_planned: bool
) -> None:
    wrong = {(each.topic, each.partition): why for each, why in problems}
    rows = sorted({each[:2]: each for each in (*moves, *(row for row, _ in problems))}.values())
    if as_json:
        listed = [{**_as_json(each), "error": wrong.get((each.topic, each.partition))} for each in rows]
        click.echo(json.dumps({"moves": listed}))
        return
    for each in rows:
        name = f"{each.topic}-{each.partition}"
        if why := wrong.get((each.topic, each.partition)):
            click.echo(f"kafkad: {name} stays in {each.source}: {why}", err=True)
        elif each.is_done:
            click.echo(f"{name} is in {each.target}.")
        elif is_planned:
            click.echo(f"{name} goes from {each.source} to {each.target} ({each.size_bytes} bytes).")


def _as_json(move: ReplicaMove) -> dict[str, object]:
    row = move._asdict()
    del row["is_under_way"]
    return {**row, "is_done": move.is_done}


def directory_lines(rows: list[LogDirDescription]) -> list[str]:
    header = ("BROKER", "LOG-DIR", "PARTITIONS", "BYTES", "FREE-BYTES", "TOTAL-BYTES", "STATE")
    return table(header, [_directory(each) for each in rows])


def _directory(row: LogDirDescription) -> tuple[object, ...]:
    size = sum(each.size_bytes for each in row.replicas)
    room = ["-" if each == UNKNOWN else each for each in (row.free_bytes, row.total_bytes)]
    return row.broker, row.path, len(row.replicas), size, *room, row.error or "online"


def partition_lines(rows: list[LogDirDescription]) -> list[str]:
    header = ("TOPIC", "PARTITION", "BROKER", "LOG-DIR", "BYTES", "LAG", "FUTURE")
    lines = sorted(
        (each.topic, each.partition, row.broker, row.path, each.size_bytes, each.offset_lag, each.is_future)
        for row in rows
        for each in row.replicas
    )
    return table(header, [(*line[:-1], "yes" if line[-1] else "no") for line in lines])
