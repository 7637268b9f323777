"""`kafkad log-dirs`: what is in the log directories, and how much room they have."""

import json

import click

from kafkad.cli.asking import asking, asks_broker
from kafkad.cli.options import json_option
from kafkad.cli.transaction_tables import table
from kafkad.client.log_dirs import UNKNOWN, LogDirDescription, describe_log_dirs


@click.group("log-dirs", epilog="\b\nExample:\n  kafkad log-dirs describe\n  kafkad log-dirs describe --topic orders")
def log_dirs() -> None:
    """Show the log directories of the brokers."""


@log_dirs.command(epilog="\b\nExample:\n  kafkad log-dirs describe --topic orders --partitions")
@click.option("--topic", "names", multiple=True, metavar="TOPIC", help="Only partitions of this topic; repeatable.")
@click.option("--partitions", "with_partitions", is_flag=True, help="Also print a line for each partition.")
@json_option
@asks_broker
def describe(names: tuple[str, ...], with_partitions: bool, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Print the size and the free room of each log directory, and what the partitions take there."""
    with asking(bootstrap, timeout_s) as client:
        wanted = None
        if names:
            wanted = {topic.name: [row.partition for row in topic.partitions] for topic in client.topics(names)}
        found = describe_log_dirs(client, wanted)
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
