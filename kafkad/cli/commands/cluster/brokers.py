"""`kafkad brokers`: the brokers of the cluster, with their numbers of leaders and replicas."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import click

from kafkad.cli.broker_options import broker_options, connected_client
from kafkad.cli.commands.cluster.drain import drain
from kafkad.cli.commands.cluster.end_session import end_session
from kafkad.cli.options import json_option
from kafkad.cli.transaction_tables import table
from kafkad.client.broker_client import BrokerDescription, PartitionDescription, TopicDescription


class BrokerLoad(NamedTuple):
    """`host` and `port` are None for an unregistered broker with assigned replicas."""

    broker: int
    host: str | None
    port: int | None
    rack: str | None
    is_controller: bool
    leads: int
    replicas: int
    out_of_sync: int


@click.group(epilog="\b\nExample:\n  kafkad brokers list")
def brokers() -> None:
    """Show the brokers of the cluster, move all partitions off a broker, and end the session of a crashed broker."""


brokers.add_command(drain)
brokers.add_command(end_session)


@brokers.command("list", epilog="\b\nExample:\n  kafkad brokers list --json")
@json_option
@broker_options
def list_brokers(as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Print each broker with its number of leaders, replicas and out-of-sync replicas.

    The address of an unregistered broker with assigned replicas is "unregistered".
    """
    with connected_client(bootstrap, timeout_s) as client:
        topics = client.topics()
        found = loads(client.describe_brokers(), topics)
    if as_json:
        click.echo(json.dumps([each._asdict() for each in found]))
        return
    for line in broker_lines(found):
        click.echo(line)


def loads(found: Sequence[BrokerDescription], topics: Sequence[TopicDescription]) -> list[BrokerLoad]:
    rows = [row for topic in topics for row in topic.partitions]
    unregistered = {each for row in rows for each in row.replicas}.difference(each.broker for each in found)
    registered = [_load(rows, *each) for each in found]
    return sorted([*registered, *(_load(rows, each, None, None, None, False) for each in unregistered)])


def _load(
    rows: Sequence[PartitionDescription],
    broker: int,
    host: str | None,
    port: int | None,
    rack: str | None,
    is_controller: bool,
) -> BrokerLoad:
    return BrokerLoad(
        broker,
        host,
        port,
        rack,
        is_controller,
        leads=sum(row.leader == broker for row in rows),
        replicas=sum(broker in row.replicas for row in rows),
        out_of_sync=sum(broker in row.replicas and broker not in row.isr for row in rows),
    )


def broker_lines(found: Sequence[BrokerLoad]) -> list[str]:
    header = ("BROKER", "ADDRESS", "RACK", "CONTROLLER", "LEADS", "REPLICAS", "OUT-OF-SYNC")
    rows = [
        (
            each.broker,
            "unregistered" if each.host is None else f"{each.host}:{each.port}",
            each.rack or "-",
            "yes" if each.is_controller else "no",
            each.leads,
            each.replicas,
            each.out_of_sync,
        )
        for each in found
    ]
    return table(header, rows)
