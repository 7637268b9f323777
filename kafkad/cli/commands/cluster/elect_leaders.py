"""`kafkad elect-leaders`: preferred and unclean leader elections."""

import json
import sys

import click

from kafkad.cli.broker_options import CommandFailed, broker_options, connected_client, named_partitions
from kafkad.cli.options import json_option
from kafkad.client.reassignments import elect_leaders as elect

_HELP = """Elect the preferred replica of each partition as its leader, if it is in sync.

PARTITION is a partition (orders-3), or a topic: all its partitions. Default: all partitions of the cluster.

With --unclean, a live replica of a partition without leader is elected although it is out of sync: records that it does
not have are lost.

Exit code 0: all partitions have the requested leader; 1: a line for each other partition has the reason.

\b
Example:
  kafkad elect-leaders
  kafkad elect-leaders orders-3 --unclean
"""


@click.command("elect-leaders", help=_HELP, short_help="Elect preferred replicas as leaders.")
@click.argument("partitions", metavar="[PARTITION]...", nargs=-1)
@click.option("--unclean", is_flag=True, help="Elect an out-of-sync replica for partitions without a leader.")
@json_option
@broker_options
def elect_leaders(partitions: tuple[str, ...], unclean: bool, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """See `_HELP`."""
    if unclean and not partitions:
        raise CommandFailed("--unclean may lose records: name the partitions")
    with connected_client(bootstrap, timeout_s) as client:
        requested = named_partitions(partitions, client.topics()) if partitions else None
        results = sorted(elect(client, requested, unclean=unclean).items())
    if as_json:
        click.echo(json.dumps([{"topic": at[0], "partition": at[1], "error": why} for at, why in results]))
    else:
        for (topic, index), why in results:
            if why is None:
                click.echo(f"{topic}-{index} {'has a leader again' if unclean else 'is led by its preferred replica'}.")
            else:
                click.echo(f"kafkad: {topic}-{index}: {why}", err=True)
        if not results:
            click.echo("No partition needs another leader.")
    if any(why for _, why in results):
        sys.exit(1)
