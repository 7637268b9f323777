"""The options of the data source, in the spelling of Spark's Kafka source, and the ranges that a batch reads."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.records import offsets_at
from kafkad.core.controller.topics.names import is_internal
from kafkad.core.types import TopicPartition
from kafkad.export.preparation import topic_facts
from kafkad.export.problems import DataLost, ExportFailed, not_answered
from kafkad.export.ranges import OffsetRange, TopicFacts, split_evenly
from kafkad.export.reading.log_directories import check_folders, facts_without_broker, topics_in
from kafkad.export.reading.source import Source
from kafkad.export.reading.splitting import SMALLEST_BYTES, bytes_per_offset, divide, sizes_of
from pyspark_kafkad.offsets import Partition

_EARLIEST, _LATEST = -2, -1
_TIMEOUT_S = 30.0
_ENDING = frozenset({"endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"})
_OF_TRIGGERS = frozenset({"maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"})
"""Batches have them without effect, as those of Spark's Kafka source."""
_OF_STREAMS = frozenset({"startingtable"})
_WITHOUT_EFFECT = frozenset(
    {"kafkaconsumer.polltimeoutms", "fetchoffset.numretries", "fetchoffset.retryintervalms", "groupidprefix"}
)
"""How Spark's Kafka source uses its consumers, of which there are none here."""
_KNOWN = frozenset(
    {
        *("path", "kafka.bootstrap.servers", "subscribe", "subscribepattern", "assign", "startingoffsets"),
        *("startingtimestamp", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy"),
        *("minpartitions", "maxrecordsperpartition"),
        *("includeheaders", "includemetadata", "failondataloss", "kafka.isolation.level"),
        *(*_ENDING, *_OF_STREAMS, *_OF_TRIGGERS, *_WITHOUT_EFFECT),
    }
)
_CHOOSING = ("subscribe", "subscribepattern", "assign")
_DELAY = re.compile(r"(\d+)\s*(us|ms|s|min|m|h|d)?")
_MS = {"us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Checked; names are in lower case, as Spark's options do not care."""

    values: Mapping[str, str]
    bootstrap: str | None
    """None: the log directories say what there is."""
    folders: tuple[str, ...]
    """Log directories, to read segment files; without one the broker is read."""
    min_partitions: int
    most_records: int | None
    """Offsets of each task."""
    most_offsets: int | None
    """Of each batch of a stream."""
    fewest_offsets: int
    longest_delay_s: float
    """A batch of a stream waits for so many offsets, but not longer than that."""
    fails_on_loss: bool
    is_committed: bool

    @classmethod
    def parse(cls, given: Mapping[str, str], *, is_stream: bool = False) -> Self:
        """Raises `ExportFailed`."""
        values = {name.lower(): value for name, value in given.items()}
        if not is_stream:
            values = {name: value for name, value in values.items() if name not in _OF_TRIGGERS}
        for name in values:
            if name not in _KNOWN and not name.startswith("kafka."):
                raise ExportFailed(f"kafkad has no option {name}")
            if name in (_ENDING if is_stream else _OF_STREAMS):
                raise ExportFailed(f"{name} is no option of {'streams' if is_stream else 'batches'}")
        if sum(name in values for name in _CHOOSING) != 1:
            raise ExportFailed("one of the options subscribe, subscribePattern and assign has to be set")
        folders = tuple(each.rstrip("/") or each for each in values.get("path", "").split(",") if each)
        if "kafka.bootstrap.servers" not in values and not folders:
            raise ExportFailed("the option kafka.bootstrap.servers has to be set, or path to the log directories")
        if values.get("startingoffsetsbytimestampstrategy", "error").lower() not in ("error", "latest"):
            raise ExportFailed("startingOffsetsByTimestampStrategy: expected error or latest")
        if values.get("kafka.security.protocol", "PLAINTEXT").upper() != "PLAINTEXT":
            raise ExportFailed(f"kafka.security.protocol: kafkad has no {values['kafka.security.protocol']}")
        return cls(
            values=values,
            bootstrap=values.get("kafka.bootstrap.servers"),
            folders=folders,
            min_partitions=_number(values, "minPartitions") or 0,
            most_records=_number(values, "maxRecordsPerPartition"),
            most_offsets=_number(values, "maxOffsetsPerTrigger"),
            fewest_offsets=_number(values, "minOffsetsPerTrigger") or 0,
            longest_delay_s=_delay_s(values.get("maxtriggerdelay", "15m")),
            fails_on_loss=values.get("failondataloss", "true").lower() != "false",
            is_committed=values.get("kafka.isolation.level", "read_committed") != "read_uncommitted",
        )


def plan_read(options: ReadOptions) -> list[tuple[Source, OffsetRange]]:
    """What the tasks of a batch read. Raises `ExportFailed`."""
    with connected(options) as client:
        facts, rows = look_up(client, options)
        starts = places(client, options.values, "starting", rows, facts, "earliest")
        ends = places(client, options.values, "ending", rows, facts, "latest")
        wanted = [_checked(row, starts[row], ends[row], facts[row[0]], options) for row in rows]
        return divide_read(client, options, wanted, facts)


@contextmanager
def connected(options: ReadOptions) -> Iterator[BrokerClient | None]:
    """To the broker that is asked; None where log directories say what there is. Raises `ExportFailed`."""
    if options.bootstrap is None:
        check_folders(options.folders)
        yield None
        return
    try:
        with BrokerClient(options.bootstrap, _TIMEOUT_S) as client:
            yield client
    except BrokerCallFailed as failed:
        raise not_answered(failed) from failed


def look_up(client: BrokerClient | None, options: ReadOptions) -> tuple[dict[str, TopicFacts], list[Partition]]:
    """The topics as they are now, and the partitions that are chosen. Raises `BrokerCallFailed`, `ExportFailed`."""
    chosen = _chosen(client, options)
    facts = {topic: _facts(client, options, topic) for topic in chosen}
    rows = [(topic, each) for topic, partitions in chosen.items() for each in partitions or facts[topic].bounds]
    for topic, partition in rows:
        if partition not in facts[topic].bounds:
            raise ExportFailed(f"there is no partition {topic}-{partition}")
    return facts, rows


def _facts(client: BrokerClient | None, options: ReadOptions, topic: str) -> TopicFacts:
    if client is None:
        return facts_without_broker(options.folders, topic, is_committed=options.is_committed)
    return topic_facts(client, topic, is_committed=options.is_committed)


def divide_read(
    client: BrokerClient | None,
    options: ReadOptions,
    wanted: Sequence[tuple[str, OffsetRange]],
    facts: Mapping[str, TopicFacts],
) -> list[tuple[Source, OffsetRange]]:
    """Pieces for tasks: `minPartitions` of them or more, as long as they are not small."""
    by_topic: dict[str, list[OffsetRange]] = {}
    for topic, whole in wanted:
        if whole.start < whole.end:
            by_topic.setdefault(topic, []).append(whole)
    total = sum(each.end - each.start for ranges in by_topic.values() for each in ranges)
    found = []
    for topic, ranges in by_topic.items():
        paths = {each.partition: _directory(options.folders, topic, each.partition) for each in ranges}
        source = Source(
            topic=topic,
            bootstrap=options.bootstrap,
            directories={partition: path for partition, path in paths.items() if path is not None},
            is_committed=options.is_committed,
            skips_lost=not options.fails_on_loss,
        )
        average = {} if client is None or source.directories else bytes_per_offset(client, topic, facts[topic].bounds)
        share = -(-options.min_partitions * sum(each.end - each.start for each in ranges) // total)
        smallest = 1 if options.min_partitions else SMALLEST_BYTES
        for piece in divide(source, ranges, sizes_of(source, ranges, average), share, smallest_bytes=smallest):
            most = options.most_records or piece.end - piece.start
            found += [(source, each) for each in split_evenly(piece, -(-(piece.end - piece.start) // most))]
    return found


def _number(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise ExportFailed(f"{name}: expected a number, found {text!r}")
    return int(text)


def _delay_s(text: str) -> float:
    found = _DELAY.fullmatch(text.strip().lower())
    if found is None:
        raise ExportFailed(f"maxTriggerDelay: expected a time such as 15m, found {text!r}")
    return int(found[1]) * _MS[found[2] or "ms"] / 1_000


def _chosen(client: BrokerClient | None, options: ReadOptions) -> dict[str, tuple[int, ...]]:
    """The topics, and of each the partitions that are named; none: all."""
    values = options.values
    if "subscribe" in values:
        return {name.strip(): () for name in values["subscribe"].split(",") if name.strip()}
    if "assign" in values:
        return _assigned(values["assign"])
    try:
        pattern = re.compile(values["subscribepattern"])
    except re.error as error:
        raise ExportFailed(f"subscribePattern: {error}") from error
    if client is None:
        names = [each for each in topics_in(options.folders) if not is_internal(each)]
    else:
        names = [each.name for each in client.topics() if not each.is_internal]
    return {each: () for each in names if pattern.fullmatch(each)}


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    chosen = _json(text, "assign")
    for topic, partitions in chosen.items():
        if not isinstance(partitions, list) or not all(type(each) is int for each in partitions):
            raise ExportFailed(f"assign: expected a list of partitions of {topic!r}")
    return {topic: tuple(partitions) for topic, partitions in chosen.items()}


def places(
    client: BrokerClient | None,
    values: Mapping[str, str],
    side: str,
    rows: list[Partition],
    facts: Mapping[str, TopicFacts],
    by_default: str,
) -> dict[Partition, int]:
    """The offsets at which each partition starts, or ends (`side`). Raises `ExportFailed`, `BrokerCallFailed`."""
    is_start = side == "starting"
    by_time = values.get(f"{side}offsetsbytimestamp")
    if f"{side}timestamp" in values or by_time is not None:
        if client is None:
            raise ExportFailed("only a broker knows the offsets at a time: kafka.bootstrap.servers has to be set")
        times = _times(values, side, by_time, rows)
        found: dict[Partition, int] = {}
        for topic in facts:
            asked = {row[1]: times[row] for row in rows if row[0] == topic}
            found |= {(topic, each): offset for each, offset in offsets_at(client, topic, asked).items()}
        if is_start and values.get("startingoffsetsbytimestampstrategy", "error").lower() == "error":
            _check_are_found(found, times)
        return {row: _or_end(found[row], facts[row[0]].bounds[row[1]].end) for row in rows}
    given = values.get(f"{side}offsets", by_default)
    if given.lower() in ("earliest", "latest"):
        if given.lower() == "earliest" and not is_start:
            raise ExportFailed("endingOffsets can't be earliest")
        return {row: _bound(facts, row, _EARLIEST if given.lower() == "earliest" else _LATEST) for row in rows}
    named = _json(given, f"{side}Offsets")
    found = {}
    for topic, partition in rows:
        offset = _of_partition(named, f"{side}Offsets", topic, partition)
        found[topic, partition] = _bound(facts, (topic, partition), offset) if offset < 0 else offset
    return found


def _times(values: Mapping[str, str], side: str, by_time: str | None, rows: list[Partition]) -> dict[Partition, int]:
    text = values.get(f"{side}timestamp")
    if text is not None:
        if not re.fullmatch(r"-?\d+", text, re.ASCII):
            raise ExportFailed(f"{side}Timestamp: expected milliseconds, found {text!r}")
        return dict.fromkeys(rows, int(text))
    option = f"{side}OffsetsByTimestamp"
    named = _json(by_time or "", option)
    return {row: _of_partition(named, option, *row) for row in rows}


def _of_partition(named: Mapping[str, Any], option: str, topic: str, partition: int) -> int:
    """What the option says of each partition; to leave one out would leave its records out."""
    of_topic = named.get(topic)
    number = of_topic.get(str(partition)) if isinstance(of_topic, dict) else None
    if type(number) is not int:
        raise ExportFailed(f"{option} has no number for {topic}-{partition}")
    return number


def _check_are_found(found: Mapping[Partition, int], times: Mapping[Partition, int]) -> None:
    for row, offset in found.items():
        if offset < 0:
            raise ExportFailed(
                f"{row[0]}-{row[1]} has no record from {times[row]} ms on, and no offset for it;"
                " startingOffsetsByTimestampStrategy=latest begins at its end"
            )


def _or_end(offset: int, end: int) -> int:
    return end if offset < 0 else offset


def _bound(facts: Mapping[str, TopicFacts], row: Partition, which: int) -> int:
    bounds = facts[row[0]].bounds[row[1]]
    return bounds.earliest if which == _EARLIEST else bounds.end


def _checked(row: Partition, start: int, end: int, facts: TopicFacts, options: ReadOptions) -> tuple[str, OffsetRange]:
    topic, partition = row
    bounds = facts.bounds[partition]
    if options.fails_on_loss and (start < bounds.earliest or end > bounds.end):
        raise DataLost(
            f"{topic}-{partition} has offsets {bounds.earliest} to {bounds.end - 1}, not all of {start} to {end - 1};"
            " failOnDataLoss=false reads what is there"
        )
    start = min(max(start, bounds.earliest), bounds.end)
    return topic, OffsetRange(partition, start, max(start, min(end, bounds.end)))


def _directory(folders: Sequence[str], topic: str, partition: int) -> str | None:
    """Where the partition lies in one of the log directories; None without them: from the broker."""
    if not folders:
        return None
    name = str(TopicPartition(topic, partition))
    for folder in folders:
        if os.path.isdir(found := f"{folder}/{name}"):
            return found
    raise ExportFailed(f"{name} is not in {', '.join(folders)}")


def _json(text: str, option: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ExportFailed(f"{option}: {error}") from error
    if not isinstance(content, dict):
        raise ExportFailed(f"{option}: expected a JSON object")
    return content
