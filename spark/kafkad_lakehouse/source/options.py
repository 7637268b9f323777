"""The options of the data source, with the names of Spark's Kafka source, and the ranges of a batch."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.core.controller.topics.names import is_internal
from kafkad.core.types import TopicPartition
from kafkad_lakehouse.export.preparation import topic_facts
from kafkad_lakehouse.export.problems import DataLost, ExportFailed, export_failure
from kafkad_lakehouse.export.ranges import OffsetRange, TopicFacts
from kafkad_lakehouse.export.reading.log_directories import check_folders, check_is_of, facts_without_broker, topics_in
from kafkad_lakehouse.export.reading.source import Source
from kafkad_lakehouse.export.reading.splitting import bytes_per_offset, divide, sizes_of
from kafkad_lakehouse.source.errors import IllegalArgumentException
from kafkad_lakehouse.source.offsets import Partition
from kafkad_lakehouse.source.query_bounds import BATCH_END, BATCH_START, offsets_at_side, parse_json
from kafkad_lakehouse.source.task_ranges import divided

_TIMEOUT_S = 30.0
_ENDING = frozenset({"endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"})
_OF_TRIGGERS = frozenset({"maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"})
"""Without effect for batches, as in Spark's Kafka source."""
_OF_STREAMS = frozenset({"startingtable"})
_WITHOUT_EFFECT = frozenset(
    {"kafkaconsumer.polltimeoutms", "fetchoffset.numretries", "fetchoffset.retryintervalms", "groupidprefix"}
)
"""Options for the consumers of Spark's Kafka source, which do not exist here."""
_KNOWN = frozenset(
    {
        *("path", "kafka.bootstrap.servers", "subscribe", "subscribepattern", "assign", "startingoffsets"),
        *("startingtimestamp", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy"),
        *("minpartitions", "maxrecordsperpartition"),
        *("includeheaders", "includemetadata", "failondataloss", "kafka.isolation.level"),
        *(*_ENDING, *_OF_STREAMS, *_OF_TRIGGERS, *_WITHOUT_EFFECT),
    }
)
_REJECTED = {
    "kafka.auto.offset.reset": "startingOffsets is the start of a query, and its checkpoint has the next offsets",
    "kafka.key.deserializer": "keys are bytes",
    "kafka.value.deserializer": "values are bytes",
    "kafka.enable.auto.commit": "offsets are kept in the checkpoint of the query",
    "kafka.interceptor.classes": "there is no consumer that would call them",
}
"""Options that Spark's Kafka source rejects too, with the reasons."""
_COMMITTED, _UNCOMMITTED = "read_committed", "read_uncommitted"
_TOPIC_OPTIONS = ("subscribe", "subscribepattern", "assign")
_DELAY = re.compile(r"(\d+)\s*(us|ms|s|min|m|h|d)?")
_MS = {"us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Checked options; names are in lower case, because Spark's options are case-insensitive."""

    values: Mapping[str, str]
    bootstrap: str | None
    """None: the log directories have the bounds of the topics."""
    folders: tuple[str, ...]
    """Log directories with segment files to read; empty: fetch from the broker."""
    min_partitions: int | None
    max_records: int | None
    """The minimum number of tasks, and the maximum number of offsets of a task."""
    max_offsets: int | None
    """Maximum number of offsets of a batch of a stream."""
    min_offsets: int
    max_delay_s: float
    """A batch of a stream waits for `min_offsets` offsets, for at most `max_delay_s`."""
    fails_on_loss: bool
    is_committed: bool

    @classmethod
    def parse(cls, given: Mapping[str, str], *, is_stream: bool = False) -> Self:
        """Raises `IllegalArgumentException`."""
        values = lower_case(given)
        if not is_stream:
            values = {name: value for name, value in values.items() if name not in _OF_TRIGGERS}
        for name in values:
            if name in (_ENDING if is_stream else _OF_STREAMS):
                raise IllegalArgumentException(f"{name} is no option of {'streams' if is_stream else 'batches'}")
        check(values)
        folders = _folders(values)
        isolation = values.get("kafka.isolation.level", _COMMITTED)
        max_offsets, min_offsets = (_number(values, f"{name}OffsetsPerTrigger") for name in ("max", "min"))
        if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
            raise IllegalArgumentException(
                f"minOffsetsPerTrigger ({min_offsets}) is more than maxOffsetsPerTrigger ({max_offsets})"
            )
        return cls(
            values=values,
            bootstrap=values.get("kafka.bootstrap.servers"),
            folders=folders,
            min_partitions=_number(values, "minPartitions"),
            max_records=_number(values, "maxRecordsPerPartition"),
            max_offsets=max_offsets,
            min_offsets=min_offsets or 0,
            max_delay_s=_delay_s(values.get("maxtriggerdelay", "15m")),
            fails_on_loss=flag(values, "failOnDataLoss", by_default=True),
            is_committed=isolation == _COMMITTED,
        )


def lower_case(given: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in given.items()}


def check(values: Mapping[str, str]) -> None:
    """Check the common options of batches and streams; names are in lower case.

    Raises `IllegalArgumentException`.
    """
    for name in values:
        if name not in _KNOWN and not name.startswith("kafka."):
            raise IllegalArgumentException(f"kafkad has no option {name}")
        if name in _REJECTED:
            raise IllegalArgumentException(f"{name} is not supported: {_REJECTED[name]}")
    if sum(name in values for name in _TOPIC_OPTIONS) != 1:
        raise IllegalArgumentException("one of the options subscribe, subscribePattern and assign is required")
    if "kafka.bootstrap.servers" not in values and not _folders(values):
        raise IllegalArgumentException(
            "the option kafka.bootstrap.servers is required, or path with the log directories"
        )
    if not any(values[name].strip(" ,") for name in _TOPIC_OPTIONS if name in values):
        raise IllegalArgumentException("subscribe, subscribePattern or assign: expected a topic, found none")
    if values.get("startingoffsetsbytimestampstrategy", "error").lower() not in ("error", "latest"):
        raise IllegalArgumentException("startingOffsetsByTimestampStrategy: expected error or latest")
    if values.get("kafka.security.protocol", "PLAINTEXT").upper() != "PLAINTEXT":
        raise IllegalArgumentException(f"kafka.security.protocol: {values['kafka.security.protocol']} is not supported")
    isolation = values.get("kafka.isolation.level", _COMMITTED)
    if isolation not in (_COMMITTED, _UNCOMMITTED):
        raise IllegalArgumentException(
            f"kafka.isolation.level: expected {_COMMITTED} or {_UNCOMMITTED}, found {isolation!r}"
        )


def _folders(values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(each.rstrip("/") or each for each in values.get("path", "").split(",") if each)


def plan_read(options: ReadOptions) -> list[tuple[Source, OffsetRange]]:
    """The ranges of the tasks of a batch. Raises `ExportFailed`."""
    with connected(options) as client:
        facts, rows = load_topics(client, options)
        starts = offsets_at_side(client, options.values, BATCH_START, rows, facts)
        ends = offsets_at_side(client, options.values, BATCH_END, rows, facts)
        offset_ranges = [_checked(row, starts[row], ends[row], facts[row[0]], options) for row in rows]
        return divide_read(client, options, offset_ranges, facts)


@contextmanager
def connected(options: ReadOptions) -> Iterator[BrokerClient | None]:
    """A client of the broker; None without a broker. Raises `ExportFailed`."""
    if options.bootstrap is None:
        check_folders(options.folders)
        yield None
        return
    try:
        with BrokerClient(options.bootstrap, _TIMEOUT_S) as client:
            yield client
    except BrokerCallFailed as failed:
        raise export_failure(failed) from failed


def load_topics(client: BrokerClient | None, options: ReadOptions) -> tuple[dict[str, TopicFacts], list[Partition]]:
    """The present state of the topics, and the selected partitions. Raises `BrokerCallFailed`, `ExportFailed`."""
    chosen = _chosen(client, options)
    facts = {topic: _facts(client, options, topic) for topic in chosen}
    rows = [(topic, each) for topic, partitions in chosen.items() for each in partitions or facts[topic].bounds]
    for topic, partition in rows:
        if partition not in facts[topic].bounds:
            raise ExportFailed(f"no partition {topic}-{partition} exists")
    return facts, rows


def _facts(client: BrokerClient | None, options: ReadOptions, topic: str) -> TopicFacts:
    if client is None:
        return facts_without_broker(options.folders, topic, is_committed=options.is_committed)
    return topic_facts(client, topic, is_committed=options.is_committed)


def divide_read(
    client: BrokerClient | None,
    options: ReadOptions,
    offset_ranges: Sequence[tuple[str, OffsetRange]],
    facts: Mapping[str, TopicFacts],
) -> list[tuple[Source, OffsetRange]]:
    """Divide the ranges into pieces for tasks: as many as options require, or so that no piece is too large."""
    by_topic: dict[str, list[OffsetRange]] = {}
    for topic, whole in offset_ranges:
        if whole.start < whole.end:
            by_topic.setdefault(topic, []).append(whole)
    sources = {topic: _source(options, facts[topic], ranges) for topic, ranges in by_topic.items()}
    if options.min_partitions is not None or options.max_records is not None:
        ranges = [(topic, whole) for topic in by_topic for whole in by_topic[topic]]
        requested = divided(ranges, options.min_partitions, options.max_records)
        return [(sources[topic], piece) for topic, piece in requested]
    found = []
    for topic, whole_ranges in by_topic.items():
        source = sources[topic]
        average = {} if client is None or source.directories else bytes_per_offset(client, topic, facts[topic].bounds)
        pieces = divide(source, whole_ranges, sizes_of(source, whole_ranges, average), 1)
        found += [(source, piece) for piece in pieces]
    return found


def _source(options: ReadOptions, facts: TopicFacts, ranges: Sequence[OffsetRange]) -> Source:
    paths = {each.partition: _directory(options.folders, facts, each.partition) for each in ranges}
    return Source(
        topic=facts.name,
        bootstrap=options.bootstrap,
        directories={partition: path for partition, path in paths.items() if path is not None},
        is_committed=options.is_committed,
        skips_lost=not options.fails_on_loss,
    )


def _number(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise IllegalArgumentException(f"{name}: expected a number from 1 on, found {text!r}")
    return int(text)


def flag(values: Mapping[str, str], name: str, *, by_default: bool = False) -> bool:
    """The value of a boolean option; `values` has names in lower case. Raises `IllegalArgumentException`."""
    text = values.get(name.lower(), str(by_default)).lower()
    if text not in ("true", "false"):
        raise IllegalArgumentException(f"{name}: expected true or false, found {text!r}")
    return text == "true"


def _delay_s(text: str) -> float:
    found = _DELAY.fullmatch(text.strip().lower())
    if found is None:
        raise IllegalArgumentException(f"maxTriggerDelay: expected a time such as 15m, found {text!r}")
    return int(found[1]) * _MS[found[2] or "ms"] / 1_000


def _chosen(client: BrokerClient | None, options: ReadOptions) -> dict[str, tuple[int, ...]]:
    """The selected topics with their selected partitions; empty: all partitions."""
    values = options.values
    if "subscribe" in values:
        return {name.strip(): () for name in values["subscribe"].split(",") if name.strip()}
    if "assign" in values:
        return _assigned(values["assign"])
    try:
        pattern = re.compile(values["subscribepattern"].strip())
    except re.error as error:
        raise IllegalArgumentException(f"subscribePattern: {error}") from error
    if client is None:
        names = [each for each in topics_in(options.folders) if not is_internal(each)]
    else:
        names = [each.name for each in client.topics() if not each.is_internal]
    return {each: () for each in names if pattern.fullmatch(each)}


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    chosen = parse_json(text, "assign")
    for topic, partitions in chosen.items():
        if not isinstance(partitions, list) or not all(type(each) is int for each in partitions):
            raise IllegalArgumentException(f"assign: expected a list of partitions of {topic!r}")
    if not chosen or not all(chosen.values()):
        raise IllegalArgumentException("assign: expected topics with partitions, found a topic without one, or none")
    return {topic: tuple(dict.fromkeys(partitions)) for topic, partitions in chosen.items()}


def _checked(row: Partition, start: int, end: int, facts: TopicFacts, options: ReadOptions) -> tuple[str, OffsetRange]:
    topic, partition = row
    bounds = facts.bounds[partition]
    if start > end and {"startingoffsets", "endingoffsets"} <= options.values.keys():
        raise IllegalArgumentException(f"{topic}-{partition}: startingOffsets ({start}) is after endingOffsets ({end})")
    if options.fails_on_loss and (start < bounds.earliest or end > bounds.end):
        raise DataLost(
            f"{topic}-{partition} has offsets {bounds.earliest} to {bounds.end - 1}, not all of {start} to {end - 1};"
            " failOnDataLoss=false reads the available ones"
        )
    start = min(max(start, bounds.earliest), bounds.end)
    return topic, OffsetRange(partition, start, max(start, min(end, bounds.end)))


def _directory(folders: Sequence[str], facts: TopicFacts, partition: int) -> str | None:
    """The directory of the partition; None without log directories."""
    if not folders:
        return None
    name = str(TopicPartition(facts.name, partition))
    for folder in folders:
        if os.path.isdir(found := f"{folder}/{name}"):
            check_is_of(found, facts)
            return os.path.abspath(found)
    raise ExportFailed(f"{name} is not in {', '.join(folders)}")
