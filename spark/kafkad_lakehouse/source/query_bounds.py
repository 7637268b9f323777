"""The start and end offsets of batches, and the start offsets of streams, from the options of Spark's Kafka source.

A time takes precedence over times of each partition, and these over offsets.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafkad.client.broker_client import BrokerClient
from kafkad.client.records import offsets_at
from kafkad_lakehouse.export.ranges import Bounds, TopicFacts
from kafkad_lakehouse.source.errors import IllegalArgumentException
from kafkad_lakehouse.source.offsets import Partition

_EARLIEST, _LATEST = -2, -1
_WORDS = {"earliest": _EARLIEST, "latest": _LATEST}


class Side(NamedTuple):
    """The start or the end of a query; the names of its options begin with `name`."""

    name: str
    by_default: str
    rejected: str | None = None
    """A word that is invalid for this side, also as a number."""


BATCH_START = Side("starting", "earliest", "latest")
BATCH_END = Side("ending", "latest", "earliest")
STREAM_START = Side("starting", "latest")


def offsets_at_side(
    client: BrokerClient | None,
    values: Mapping[str, str],
    side: Side,
    rows: list[Partition],
    facts: Mapping[str, TopicFacts],
) -> dict[Partition, int]:
    """The offset of each partition. Raises `IllegalArgumentException`, `BrokerCallFailed`."""
    by_time = values.get(f"{side.name}offsetsbytimestamp")
    if f"{side.name}timestamp" in values or by_time is not None:
        times = _times(values, side, by_time, rows)
        if any(time_ms < 0 for time_ms in times.values()):
            # In the protocol negative times have special meanings. Kafka's consumer rejects them too.
            raise IllegalArgumentException(
                f"{side.name}Timestamp: expected milliseconds since 1970, found a negative time"
            )
        if client is None:
            raise IllegalArgumentException("a broker is required to find offsets by time: set kafka.bootstrap.servers")
        found: dict[Partition, int] = {}
        for topic in facts:
            requested = {row[1]: times[row] for row in rows if row[0] == topic}
            found |= {(topic, each): offset for each, offset in offsets_at(client, topic, requested).items()}
        if side.name == "starting" and values.get("startingoffsetsbytimestampstrategy", "error").lower() == "error":
            _check_are_found(found, times)
        return {row: _not_beyond(found[row], facts[row[0]].bounds[row[1]].end) for row in rows}
    given = values.get(f"{side.name}offsets", side.by_default)
    word = _WORDS.get(given.strip().lower())
    option = f"{side.name}Offsets"
    named = dict.fromkeys(rows, word) if word is not None else _of_partitions(given, option, rows)
    return {row: _resolved(offset, side, facts[row[0]].bounds[row[1]]) for row, offset in named.items()}


def _times(values: Mapping[str, str], side: Side, by_time: str | None, rows: list[Partition]) -> dict[Partition, int]:
    text = values.get(f"{side.name}timestamp")
    if text is None:
        return _of_partitions(by_time or "", f"{side.name}OffsetsByTimestamp", rows)
    if not re.fullmatch(r"\s*-?\d{1,18}\s*", text, re.ASCII):
        raise IllegalArgumentException(f"{side.name}Timestamp: expected milliseconds, found {text!r}")
    return dict.fromkeys(rows, int(text))


def _of_partitions(text: str, option: str, rows: list[Partition]) -> dict[Partition, int]:
    """The number of each partition in the option. A missing partition is an error: its records would be missing."""
    named = parse_json(text, option)
    found = {}
    for topic, partition in rows:
        of_topic = named.get(topic)
        number = of_topic.get(str(partition)) if isinstance(of_topic, dict) else None
        if type(number) is not int or abs(number) >= 1 << 63:
            raise IllegalArgumentException(f"{option} has no number for {topic}-{partition}")
        found[topic, partition] = number
    for topic, of_topic in named.items():
        for name in of_topic if isinstance(of_topic, dict) else ("?",):
            if not name.isdecimal() or (topic, int(name)) not in found:
                raise IllegalArgumentException(f"{option}: {topic}-{name} is not selected, or does not exist")
    return found


def _resolved(offset: int, side: Side, bounds: Bounds) -> int:
    if offset < _EARLIEST:
        raise IllegalArgumentException(
            f"{side.name}Offsets: expected an offset, {_LATEST} or {_EARLIEST}, found {offset}"
        )
    if side.rejected is not None and offset == _WORDS[side.rejected]:
        raise IllegalArgumentException(f"{side.name}Offsets of a batch can't be {side.rejected}")
    if offset >= 0:
        return offset
    return bounds.earliest if offset == _EARLIEST else bounds.end


def _check_are_found(found: Mapping[Partition, int], times: Mapping[Partition, int]) -> None:
    for row, offset in found.items():
        if offset < 0:
            raise IllegalArgumentException(
                f"{row[0]}-{row[1]} has no record from {times[row]} ms on;"
                " startingOffsetsByTimestampStrategy=latest begins at its end"
            )


def _not_beyond(offset: int, end: int) -> int:
    """At most `end`: a record may be after `end`, in an open transaction. Also `end` for times without a record."""
    return end if offset < 0 else min(offset, end)


def parse_json(text: str, option: str) -> dict[str, Any]:
    """Raises `IllegalArgumentException`."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise IllegalArgumentException(f"{option}: {error}") from error
    if not isinstance(content, dict):
        raise IllegalArgumentException(f"{option}: expected a JSON object")
    return content
