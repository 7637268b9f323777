"""`kafkad groups`: list, describe, delete and reset groups, with the output of kafka-consumer-groups.sh."""

import json
from collections.abc import Sequence
from typing import Any

import click

from kafkad.cli.broker_options import CommandFailed, broker_options, connected_client
from kafkad.cli.group_tables import (
    OffsetRow,
    deletion_lines,
    listing_lines,
    member_lines,
    offset_lines,
    offset_rows,
    reset_lines,
    state_lines,
)
from kafkad.cli.options import INT64, SIGNED_INT64, json_option
from kafkad.cli.resetting import (
    Target,
    milliseconds_of,
    parse_topics,
    partitions_of,
    partitions_to_reset,
    target_offsets,
)
from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.group_commits import Partition, commit_offsets
from kafkad.client.groups import (
    GroupDescription,
    ListedGroup,
    committed_offsets,
    delete_group,
    delete_offsets,
    describe_group,
    list_groups,
)
from kafkad.client.records import LATEST, offsets
from kafkad.core.errors import ErrorCode

_CONSUMER = "Consumer"
_WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})
_REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


@click.group(
    epilog="\b\nExample:\n  kafkad groups describe billing\n"
    "  kafkad groups reset-offsets billing --topic orders --to-earliest --execute"
)
def groups() -> None:
    """List, describe and delete consumer groups, and reset their offsets."""


@groups.command("list", epilog="\b\nExample:\n  kafkad groups list --state")
@click.option("--state", "with_state", is_flag=True, help="Also print the type and the state of each group.")
@json_option
@broker_options
def list_command(with_state: bool, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Print the ids of all groups."""
    with connected_client(bootstrap, timeout_s) as client:
        found = list_groups(client)
    if as_json:
        click.echo(json.dumps([each._asdict() for each in found] if with_state else [each.group_id for each in found]))
        return
    _print(listing_lines(found, with_state=with_state))


@groups.command(epilog="\b\nExample:\n  kafkad groups describe billing --members")
@click.argument("names", metavar="[GROUP]...", nargs=-1)
@click.option("--members", "show", flag_value="members", help="Show the members of the group.")
@click.option("--state", "show", flag_value="state", help="Show coordinator, strategy and state.")
@json_option
@broker_options
def describe(names: tuple[str, ...], show: str | None, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Show committed offset, lag and member for each partition of the groups GROUP, or of all groups."""
    with connected_client(bootstrap, timeout_s) as client:
        found = [_describe(client, listed) for listed in _listed(client, names)]
        rows = [_rows(client, group) for group in found] if as_json or show is None else []
    if as_json:
        click.echo(json.dumps([_as_json(group, of_group) for group, of_group in zip(found, rows, strict=True)]))
        return
    for number, group in enumerate(found):
        _print_state(group)
        if show == "members":
            _print(member_lines(group))
        elif show == "state":
            _print(state_lines(group))
        elif rows[number]:
            _print(offset_lines(rows[number]))


@groups.command(epilog="\b\nExample:\n  kafkad groups delete billing")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Succeed if the group does not exist.")
@json_option
@broker_options
def delete(names: tuple[str, ...], if_exists: bool, as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Delete the groups GROUP, which must have no members, with their offsets."""
    with connected_client(bootstrap, timeout_s) as client:
        for name in names:
            deleted = True
            try:
                delete_group(client, name)
            except BrokerCallFailed as failed:
                if not (if_exists and failed.code is ErrorCode.GROUP_ID_NOT_FOUND):
                    raise
                deleted = False
            outcome = "Deleted group" if deleted else "Non-existing group"
            click.echo(json.dumps({"group": name, "deleted": deleted}) if as_json else f"{outcome} {name}.")


@groups.command(
    "reset-offsets",
    epilog="\b\nExample:\n  kafkad groups reset-offsets billing --topic orders:0,1 --shift-by -100\n"
    "  kafkad groups reset-offsets billing --all-topics --to-datetime 2026-01-31T12:00:00 --execute",
)
@click.argument("name", metavar="GROUP")
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[:0,1,…]", help="Topic or partitions to reset; repeatable."
)
@click.option("--all-topics", is_flag=True, help="Reset all partitions that the group has committed.")
@click.option("--to-earliest", is_flag=True, help="To the log start offset.")
@click.option("--to-latest", is_flag=True, help="To the log end offset.")
@click.option("--to-offset", type=INT64, metavar="N", help="To this offset.")
@click.option(
    "--to-datetime",
    "to_time_ms",
    type=milliseconds_of,
    metavar="TIME",
    help="To the first record from this time on; UTC by default.",
)
@click.option("--shift-by", type=SIGNED_INT64, metavar="N", help="Forward by N offsets; backward if N is negative.")
@click.option("--execute", is_flag=True, help="Apply the new offsets instead of only printing them.")
@json_option
@broker_options
def reset_offsets(
    name: str,
    topics: tuple[str, ...],
    all_topics: bool,
    execute: bool,
    as_json: bool,
    bootstrap: str,
    timeout_s: float,
    **where: Any,
) -> None:
    """Reset the committed offsets of GROUP, which must have no members."""
    target = Target(**where)
    if bool(topics) == all_topics:
        raise click.UsageError("expected --topic or --all-topics")
    if target.options_set != 1:
        raise click.UsageError("expected one of --to-earliest, --to-latest, --to-offset, --to-datetime and --shift-by")
    requested = parse_topics(topics)
    with connected_client(bootstrap, timeout_s) as client:
        state = next((each.state for each in list_groups(client) if each.group_id == name), "Dead")
        if state not in _WITHOUT_MEMBERS:
            raise CommandFailed(f"group {name!r} has members (state {state}): stop them first")
        partitions = partitions_to_reset(client, name, requested)
        moved = target_offsets(client, name, partitions, target, _warn)
        if execute and moved:
            commit_offsets(client, name, moved)
    _print_reset(name, moved, executed=execute, as_json=as_json)


@groups.command(
    "delete-offsets", epilog="\b\nExample:\n  kafkad groups delete-offsets billing --topic orders --topic payments:0,1"
)
@click.argument("name", metavar="GROUP")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:0,1,…]",
    help="Topic or partitions; repeatable.",
)
@json_option
@broker_options
def delete_offsets_command(name: str, topics: tuple[str, ...], as_json: bool, bootstrap: str, timeout_s: float) -> None:
    """Delete the committed offsets of GROUP for topics to which it is not subscribed."""
    requested = parse_topics(topics)
    with connected_client(bootstrap, timeout_s) as client:
        partitions = partitions_of(client, requested)
        delete_offsets(client, name, partitions)
    if as_json:
        rows = [{"topic": topic, "partition": partition} for topic, partition in partitions]
        click.echo(json.dumps({"group": name, "deleted": rows}))
        return
    _print(deletion_lines(name, partitions))


def _listed(client: BrokerClient, names: Sequence[str]) -> list[ListedGroup]:
    """The groups `names`, or all groups."""
    known = {each.group_id: each for each in list_groups(client)}
    for name in names:
        if name not in known:
            raise CommandFailed(f"group {name!r} does not exist")
    return [known[name] for name in names] if names else list(known.values())


def _describe(client: BrokerClient, listed: ListedGroup) -> GroupDescription:
    return describe_group(client, listed.group_id, is_consumer_type=listed.type == _CONSUMER)


def _rows(client: BrokerClient, group: GroupDescription) -> list[OffsetRow]:
    committed = committed_offsets(client, group.group_id)
    partitions = {*committed, *(each for member in group.members for each in member.partitions)}
    return offset_rows(group, committed, _ends(client, partitions))


def _ends(client: BrokerClient, partitions: set[Partition]) -> dict[Partition, int]:
    """The log end offsets of the existing partitions."""
    ends = {}
    for topic in client.topics():
        numbers = [number for name, number in partitions if name == topic.name and number < len(topic.partitions)]
        for number, end in offsets(client, topic.name, numbers, LATEST).items() if numbers else ():
            ends[topic.name, number] = end
    return ends


def _print_state(group: GroupDescription) -> None:
    if group.state in _WITHOUT_MEMBERS:
        click.echo(f"\nConsumer group '{group.group_id}' has no active members.", err=True)
    elif group.state in _REBALANCING:
        click.echo(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", err=True)


def _warn(sentence: str) -> None:
    click.echo(f"kafkad: {sentence}", err=True)


def _print(lines: Sequence[str]) -> None:
    click.echo("".join(f"{line}\n" for line in lines), nl=False)


def _print_reset(name: str, moved: dict[Partition, int], *, executed: bool, as_json: bool) -> None:
    if as_json:
        rows = [
            {"topic": topic, "partition": partition, "new_offset": offset}
            for (topic, partition), offset in sorted(moved.items())
        ]
        click.echo(json.dumps({"group": name, "executed": executed, "offsets": rows}))
        return
    _print(reset_lines(name, moved))
    if not executed:
        click.echo("\nNothing was changed. To apply, add --execute.", err=True)


def _as_json(group: GroupDescription, rows: Sequence[OffsetRow]) -> dict[str, object]:
    host, port, broker_id = group.coordinator
    return {
        "group": group.group_id,
        "state": group.state,
        "strategy": group.strategy,
        "coordinator": {"host": host, "port": port, "id": broker_id},
        "members": [
            {
                "consumer_id": each.member_id,
                "instance_id": each.instance_id,
                "client_id": each.client_id,
                "host": each.host,
                "partitions": [{"topic": topic, "partition": number} for topic, number in each.partitions],
            }
            for each in group.members
        ],
        "offsets": [
            {
                "topic": row.topic,
                "partition": row.partition,
                "current_offset": row.current_offset,
                "log_end_offset": row.log_end_offset,
                "lag": row.lag,
                "consumer_id": row.member.member_id if row.member else None,
            }
            for row in rows
            if row.topic is not None
        ],
    }
