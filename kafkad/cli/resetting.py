"""Compute the new offsets of a group, which `--execute` commits.

An offset outside the log becomes the nearest offset in the log, with a warning, as in Kafka's own tool.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import click

from kafkad.cli.broker_options import CommandFailed
from kafkad.cli.options import iso_milliseconds, number_in
from kafkad.client.broker_client import BrokerClient
from kafkad.client.group_commits import Partition
from kafkad.client.groups import committed_offsets
from kafkad.client.records import EARLIEST, LATEST, offsets

Warn = Callable[[str], None]
TopicPartitions = tuple[str, list[int] | None]
"""A topic and some of its partitions; None for all."""


class Target(NamedTuple):
    """The target of a reset; exactly one field is set."""

    to_earliest: bool = False
    to_latest: bool = False
    to_offset: int | None = None
    to_time_ms: int | None = None
    shift_by: int | None = None

    @property
    def options_set(self) -> int:
        return self.to_earliest + self.to_latest + sum(value is not None for value in self[2:])


def parse_topics(requested: Sequence[str]) -> list[tuple[str, list[int] | None]]:
    """Parse "orders" or "orders:0,1"."""
    parsed: list[tuple[str, list[int] | None]] = []
    for entry in requested:
        topic, colon, numbers = entry.partition(":")
        parts = numbers.split(",") if colon else []
        found = [number for part in parts if (number := number_in(part)) is not None]
        if not topic or len(found) < len(parts):
            raise click.BadParameter(f"expected TOPIC or TOPIC:0,1, found {entry!r}", param_hint="--topic")
        parsed.append((topic, found if colon else None))
    return parsed


def partitions_to_reset(client: BrokerClient, group_id: str, requested: Sequence[TopicPartitions]) -> list[Partition]:
    """The partitions in `requested`; if it is empty, all partitions with committed offsets of the group."""
    return partitions_of(client, requested) if requested else sorted(committed_offsets(client, group_id))


def partitions_of(client: BrokerClient, requested: Sequence[TopicPartitions]) -> list[Partition]:
    """The requested partitions; all partitions of a topic without numbers."""
    known = {topic.name: len(topic.partitions) for topic in client.topics([name for name, _ in requested])}
    found = []
    for name, numbers in requested:
        for number in range(known[name]) if numbers is None else numbers:
            if number >= known[name]:
                raise CommandFailed(f"topic {name!r} has {known[name]} partitions, and no partition {number}")
            found.append((name, number))
    return sorted(set(found))


def target_offsets(
    client: BrokerClient, group_id: str, partitions: Sequence[Partition], target: Target, warn: Warn
) -> dict[Partition, int]:
    if target.to_earliest:
        return _offsets_at(client, partitions, EARLIEST)
    if target.to_latest:
        return _offsets_at(client, partitions, LATEST)
    if target.to_time_ms is not None:
        return _at_time(client, partitions, target.to_time_ms, warn)
    if target.to_offset is not None:
        return _within(client, dict.fromkeys(partitions, target.to_offset), warn)
    assert target.shift_by is not None
    committed = committed_offsets(client, group_id)
    for topic, partition in partitions:
        if (topic, partition) not in committed:
            raise CommandFailed(f"{topic}-{partition} can't be shifted: group {group_id!r} has no committed offset")
    return _within(client, {each: committed[each] + target.shift_by for each in partitions}, warn)


def milliseconds_of(text: str) -> int:
    """A time in ISO 8601, in UTC by default; not before 1970, because negative timestamps have a special meaning."""
    with suppress(ValueError, OverflowError):
        time_ms = iso_milliseconds(text)
        if time_ms >= 0:
            return time_ms
    raise click.BadParameter(
        f"expected a time like 2026-01-31T12:00:00.000 from 1970 on, found {text!r}", param_hint="--to-datetime"
    )


def _offsets_at(client: BrokerClient, partitions: Sequence[Partition], timestamp: int) -> dict[Partition, int]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return {
        (topic, partition): offset
        for topic, numbers in by_topic.items()
        for partition, offset in offsets(client, topic, numbers, timestamp).items()
    }


def _at_time(client: BrokerClient, partitions: Sequence[Partition], time_ms: int, warn: Warn) -> dict[Partition, int]:
    found = _offsets_at(client, partitions, time_ms)
    without = [each for each, offset in found.items() if offset < 0]
    for topic, partition in without:
        warn(f"{topic}-{partition} has no record from that time on: using its log end offset")
    return found | _offsets_at(client, without, LATEST)


def _within(client: BrokerClient, requested: Mapping[Partition, int], warn: Warn) -> dict[Partition, int]:
    partitions = list(requested)
    first, end = (_offsets_at(client, partitions, at) for at in (EARLIEST, LATEST))
    result = {}
    for each, offset in requested.items():
        result[each] = min(max(offset, first[each]), end[each])
        if result[each] != offset:
            topic, partition = each
            warn(f"{topic}-{partition} has no offset {offset}: using {result[each]}")
    return result
