"""`kafkad transactions`: list, describe, abort and find-hanging, with the output of kafka-transactions.sh.

A hanging transaction is an open transaction without a coordinator that has the transaction and the partition.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

import click

from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.cli.broker_options import CommandFailed, broker_options, connected_client
from kafkad.cli.options import INT16, INT32, INT32_MAX, INT64, INT64_MAX, json_option
from kafkad.cli.transaction_tables import description_lines, hanging_lines, listing_lines
from kafkad.client.broker_client import BrokerClient, PartitionDescription
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.transactions import (
    Partition,
    ProducerState,
    abort_transaction,
    describe_transaction,
    list_transactions,
    producers_of,
)
from kafkad.core.errors import ErrorCode


def overdue(producers: Iterable[ProducerState], now_ms: int, max_timeout_ms: int) -> list[ProducerState]:
    """Producers with an open transaction and no write within the maximum transaction timeout."""
    return [row for row in producers if row.start_offset is not None and now_ms - row.last_timestamp > max_timeout_ms]


def hanging(
    candidates: Iterable[ProducerState],
    id_of: Mapping[int, str],
    partitions_of: Mapping[str, Sequence[Partition]],
) -> list[ProducerState]:
    """`id_of` has the transactional id of each producer id, `partitions_of` the partitions of its transaction, with
    partitions with a pending marker.
    """
    found = []
    for row in candidates:
        transactional_id = id_of.get(row.producer_id)
        if transactional_id is None or (row.topic, row.partition) not in partitions_of.get(transactional_id, ()):
            found.append(row)
    return found


_MINUTE_MS = 60_000


@click.group(
    epilog="\b\nExample:\n  kafkad transactions list\n"
    "  kafkad transactions find-hanging --topic orders\n"
    "  kafkad transactions abort --topic orders --partition 0 --start-offset 1234"
)
def transactions() -> None:
    """List and describe transactions; find and abort hanging ones."""


@transactions.command("list", epilog="\b\nExample:\n  kafkad transactions list --duration-filter 60000")
@click.option(
    "--duration-filter",
    type=click.IntRange(-1, INT64_MAX),
    default=-1,
    metavar="MS",
    help="Only transactions that have been open longer.",
)
@click.option("--transactional-id-pattern", metavar="REGEX", help="Only transactional ids that match as a whole.")
@json_option
@broker_options
def list_command(
    duration_filter: int, transactional_id_pattern: str | None, as_json: bool, bootstrap: str, timeout_s: float
) -> None:
    """Print every transactional id with its coordinator, producer id and state."""
    with connected_client(bootstrap, timeout_s) as client:
        rows = list_transactions(client, duration_ms=duration_filter, pattern=transactional_id_pattern)
    _print([row._asdict() for row in rows] if as_json else listing_lines(rows))


@transactions.command(epilog="\b\nExample:\n  kafkad transactions describe billing-1")
@click.argument("transactional_id", metavar="TRANSACTIONAL-ID")
@json_option
@broker_options
def describe(transactional_id: str, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Show the transaction of TRANSACTIONAL-ID and its partitions."""
    with connected_client(bootstrap, timeout_s) as client:
        row = describe_transaction(client, transactional_id)
    if as_json:
        click.echo(json.dumps(asdict(row)))
        return
    _print(description_lines(row, wall_clock_ms()))


@transactions.command(
    epilog="\b\nExample:\n  kafkad transactions abort --topic orders --partition 0 --start-offset 1234"
)
@click.option("--topic", required=True, help="Topic of the hanging transaction.")
@click.option("--partition", type=INT32, required=True, help="Partition of the hanging transaction.")
@click.option("--start-offset", type=INT64, help="First offset of the transaction in the partition.")
@click.option("--producer-id", type=INT64, help="Instead of --start-offset, with both epochs.")
@click.option("--producer-epoch", type=INT16, help="As printed by find-hanging.")
@click.option("--coordinator-epoch", type=click.IntRange(-1, INT32_MAX), help="As printed by find-hanging.")
@broker_options
def abort(
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Abort a hanging transaction: an open transaction without a producer, unknown to its coordinator."""
    given = (producer_id, producer_epoch, coordinator_epoch)
    if start_offset is None and None in given:
        raise click.UsageError(
            "expected --start-offset, or all of --producer-id, --producer-epoch and --coordinator-epoch"
        )
    with connected_client(bootstrap, timeout_s) as client:
        if start_offset is not None:
            row = _producer_at(client, (topic, partition), start_offset)
            given = (row.producer_id, row.producer_epoch, row.coordinator_epoch)
        found_id, epoch, coordinator = (value or 0 for value in given)
        # No marker of this producer is in the partition yet, so the coordinator epoch is unknown: 0 is the lowest one.
        abort_transaction(client, (topic, partition), found_id, epoch, max(0, coordinator))


@transactions.command("find-hanging", epilog="\b\nExample:\n  kafkad transactions find-hanging --topic orders")
@click.option("--topic", help="Only this topic.")
@click.option("--partition", type=INT32, help="Only this partition of the topic.")
@click.option("--broker-id", type=INT32, help="Only partitions with a replica on this broker.")
@click.option(
    "--max-transaction-timeout",
    type=INT32,
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="The longest transaction timeout that the brokers allow; younger transactions are not hanging.",
)
@json_option
@broker_options
def find_hanging(
    topic: str | None,
    partition: int | None,
    broker_id: int | None,
    max_transaction_timeout: int,
    as_json: bool,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Print open transactions that no coordinator will complete."""
    if topic is None and (broker_id is None or partition is not None):
        raise click.UsageError("expected --topic, or --broker-id without --partition")
    with connected_client(bootstrap, timeout_s) as client:
        searched = _partitions(client, topic, partition, broker_id)
        producers = [row for each in searched for row in producers_of(client, *each)]
        rows = _hanging(client, overdue(producers, wall_clock_ms(), max_transaction_timeout * _MINUTE_MS))
    _print([row._asdict() for row in rows] if as_json else hanging_lines(rows, wall_clock_ms()))


def _producer_at(client: BrokerClient, partition: Partition, start_offset: int) -> ProducerState:
    for row in producers_of(client, *partition):
        if row.start_offset == start_offset:
            return row
    topic, index = partition
    raise CommandFailed(f"no open transaction begins at offset {start_offset} of {topic}-{index}")


def _partitions(
    client: BrokerClient, topic: str | None, partition: int | None, broker_id: int | None
) -> Iterator[Partition]:
    for described in client.topics(None if topic is None else [topic]):
        for row in described.partitions:
            if partition in (None, row.partition) and _has_replica(row, broker_id):
                yield described.name, row.partition


def _has_replica(row: PartitionDescription, broker_id: int | None) -> bool:
    return broker_id is None or broker_id in row.replicas


def _hanging(client: BrokerClient, candidates: Sequence[ProducerState]) -> list[ProducerState]:
    if not candidates:
        return []
    producer_ids = sorted({row.producer_id for row in candidates})
    id_of = {row.producer_id: row.transactional_id for row in list_transactions(client, producer_ids=producer_ids)}
    return hanging(candidates, id_of, {name: _partitions_in(client, name) for name in id_of.values()})


def _partitions_in(client: BrokerClient, transactional_id: str) -> Sequence[Partition]:
    try:
        return describe_transaction(client, transactional_id).partitions
    except BrokerCallFailed as failed:
        if failed.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        return ()


def _print(rows: Sequence[str] | Sequence[dict[str, object]]) -> None:
    """Print lines unchanged, other rows as JSON."""
    if rows and isinstance(rows[0], str):
        click.echo("\n".join(map(str, rows)))
    else:
        click.echo(json.dumps(rows))
