"""Plan a run: compare the table's end offsets with the bounds of the topic, and divide the difference into tasks."""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.log_dirs import describe_log_dirs
from kafkad.client.records import EARLIEST, LATEST, offsets
from kafkad.core.types import NO_TOPIC_ID, TopicPartition
from kafkad_lakehouse.export.problems import BrokerUnavailable, ExportFailed, export_failure
from kafkad_lakehouse.export.ranges import Bounds, OffsetRange, Plan, TopicFacts, plan
from kafkad_lakehouse.export.reading.local_leaders import local_leaders
from kafkad_lakehouse.export.reading.log_directories import check_folders, check_is_of, facts_without_broker
from kafkad_lakehouse.export.reading.source import Source
from kafkad_lakehouse.export.reading.splitting import bytes_per_offset, divide, group_pieces, sizes_of
from kafkad_lakehouse.export.request import KEEP_LATEST, LED, SKIP, ExportRequest
from kafkad_lakehouse.export.sinks.sink import Sink, TableState
from kafkad_lakehouse.export.table_folder import TableFolder, absolute
from kafkad_lakehouse.export.tables import open_dead_letters
from kafkad_lakehouse.export.task import Task
from kafkad_lakehouse.export.values.format import DEAD_LETTERS, FAIL
from kafkad_lakehouse.export.values.table_columns import Columns, columns_for
from kafkad_lakehouse.export.writing import Layout, identity

_EARLIEST, _LATEST = "earliest", "latest"
_PIECES_OF_A_JOB = 2
"""A process that finishes early takes another piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """The table of dead letters, and its state at the time of the preparation."""

    sink: Sink
    state: TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run before its first task."""

    request: ExportRequest
    facts: TopicFacts
    state: TableState
    plan: Plan
    committed: Mapping[int, int]
    """The end offsets of the table for this topic id."""
    columns: Columns
    dead_letters: DeadLetters | None
    tasks: tuple[Task, ...]
    bytes: int
    """Approximate size of the planned ranges in the log."""
    run_id: str
    has_broker: bool
    """If False, the end offsets of the topic come from the log directories."""
    began_us: int
    """Time of this machine before the first request to a broker."""
    idle: frozenset[int]
    """Partitions of which this run exports all records that existed at `began_us`; empty without --idle-after."""

    @property
    def lag(self) -> int:
        """The number of planned offsets."""
        return sum(each.end - each.start for each in self.plan.ranges)

    @property
    def files(self) -> int:
        """Approximate number of files; --partition-by increases it."""
        return max(sum(len(task.ranges) for task in self.tasks), -(-self.bytes // self.request.target_file_bytes))


def prepare(request: ExportRequest, sink: Sink) -> Prepared:
    """Read the state of the topic and of the table. Raises `ExportFailed`.

    Segment files in given directories can be read without a broker, up to the checkpointed high watermarks.
    """
    began_us = time.time_ns() // 1_000
    try:
        if request.bootstrap:
            with BrokerClient(request.bootstrap, request.timeout_s) as client:
                led = local_leaders(client, request) if request.partitions == LED else None
                facts = topic_facts(client, request.topic, is_committed=request.is_committed, only=led)
                return _prepare(request, sink, facts, client, led, began_us)
    except BrokerCallFailed as failed:
        error = export_failure(failed)
        if not isinstance(error, BrokerUnavailable) or request.source != "files" or not request.log_dirs:
            raise error from failed
        if request.partitions == LED:
            raise error from failed
    if request.partitions == LED:
        raise ExportFailed("without a broker the leaders are unknown: use --partitions all")
    if request.source != "files" or not request.log_dirs:
        raise ExportFailed("without a broker use --source files and --log-dirs")
    return _prepare(request, sink, _facts_of_files(request), None, None, began_us)


def _facts_of_files(request: ExportRequest) -> TopicFacts:
    return facts_without_broker(request.log_dirs, request.topic, is_committed=request.is_committed)


def _prepare(
    request: ExportRequest,
    sink: Sink,
    facts: TopicFacts,
    client: BrokerClient | None,
    led: Mapping[int, str] | None,
    began_us: int,
) -> Prepared:
    """`led`: the directories of the partitions with a leader on this machine, for --partitions led."""
    state = sink.state(facts.partitions)
    if state.topic_id is not None:
        _check_same("--keep", state.keeps, request.keeps)
        _check_same("--partition-by", state.partition_by, request.partition_by)
    committed = offsets_to_continue(state, facts, accepts_recreated=request.accepts_recreated)
    # A Delta table that was created but not committed to has no offsets either.
    planned = _planned(client, request, facts, committed, is_new=not state.offsets)
    # After the bounds are known: no record below them has a newer schema.
    columns = columns_for(request.formats if planned.ranges else (), state.columns, may_widen=request.may_widen)
    dead_letters = _dead_letters(request, columns, facts)
    source = _source(request, facts, client, led)
    # A new table begins with ranges without records.
    ranges = [each for each in planned.ranges if each.start < each.end]
    average = {} if client is None or source.directories else bytes_per_offset(client, request.topic, facts.bounds)
    sizes = sizes_of(source, ranges, average)
    run_id = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
    return Prepared(
        request=request,
        facts=facts,
        state=state,
        plan=planned,
        committed=committed,
        columns=columns,
        dead_letters=dead_letters,
        tasks=_tasks(
            request,
            facts,
            source,
            _divided(request, source, ranges, sizes),
            columns,
            dead_letters,
            run_id,
            has_dates=state.has_dates,
            is_new=not committed,
        ),
        bytes=sum(sizes),
        run_id=run_id,
        has_broker=client is not None,
        began_us=began_us,
        idle=_idle(client, request, facts),
    )


def _check_same(option: str, of_table: str | None, requested: str) -> None:
    if of_table not in (None, requested):
        raise ExportFailed(f"the table has {option} {of_table}, not {option} {requested}: use another folder")


def _idle(client: BrokerClient | None, request: ExportRequest, facts: TopicFacts) -> frozenset[int]:
    """Empty without a broker: the age of the checkpoints in the log directories is unknown."""
    if client is None or request.idle_after_s is None or request.end != _LATEST:
        return frozenset()
    # After the last stable offset there are records of open transactions, which may be old.
    ends = offsets(client, request.topic, facts.bounds, LATEST)
    return frozenset(each for each, bounds in facts.bounds.items() if ends[each] == bounds.end)


def _planned(
    client: BrokerClient | None,
    request: ExportRequest,
    facts: TopicFacts,
    committed: Mapping[int, int],
    *,
    is_new: bool,
) -> Plan:
    partitions = sorted(facts.bounds)
    new = [each for each in facts.partitions if each not in committed]
    starts = _starts(client, request, new, facts, is_new=is_new)
    planned = plan(
        facts,
        committed,
        starts=starts,
        ends=None if request.end == _LATEST else _offsets_at(client, request, partitions, request.end, facts),
        skips_lost=request.skips_lost,
    )
    if is_new and (planned.ranges or request.start == _LATEST):
        planned = _with_beginnings(planned, starts)
    return planned


def _dead_letters(request: ExportRequest, columns: Columns, facts: TopicFacts) -> DeadLetters | None:
    parsing = any(each.on_bad == DEAD_LETTERS for each in columns.formats)
    if not parsing and request.on_damage != DEAD_LETTERS:
        return None
    sink = open_dead_letters(request)
    return DeadLetters(sink=sink, state=sink.state(facts.partitions))


def _source(
    request: ExportRequest, facts: TopicFacts, client: BrokerClient | None, led: Mapping[int, str] | None
) -> Source:
    directories: Mapping[int, str] = {}
    if request.source == "files":
        directories = directories_of(client, request, facts) if led is None else led
    return Source(
        topic=request.topic,
        bootstrap=request.bootstrap if client is not None else None,
        directories=directories,
        sets_damage_aside=request.on_damage != FAIL,
        is_committed=request.is_committed,
        max_bytes_per_sec=-(-request.max_bytes_per_sec // max(request.jobs, 1)),
        timeout_s=request.timeout_s,
    )


def _divided(
    request: ExportRequest, source: Source, ranges: Sequence[OffsetRange], sizes: Sequence[int]
) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task."""
    tasks = _PIECES_OF_A_JOB * request.jobs if request.jobs > 1 else 1
    # With --keep latest a range is not divided: each piece would have its own latest record of a key.
    pieces = ranges if request.keeps == KEEP_LATEST else divide(source, ranges, sizes, tasks)
    return group_pieces(ranges, sizes, pieces, tasks)


def _tasks(
    request: ExportRequest,
    facts: TopicFacts,
    source: Source,
    divided: Sequence[tuple[OffsetRange, ...]],
    columns: Columns,
    dead_letters: DeadLetters | None,
    run_id: str,
    *,
    has_dates: bool,
    is_new: bool,
) -> tuple[Task, ...]:
    is_parquet = request.format == "parquet"
    layout = Layout(
        out=absolute(request.out),
        topic=request.topic,
        run_id=run_id,
        schema=columns.files,
        partition_by=request.partition_by,
        has_dates=has_dates,
        by_transform=request.format == "iceberg" and not has_dates,
        target_file_bytes=request.target_file_bytes,
        compression=request.compression,
        identity=identity(facts.cluster_id, facts.topic_id, facts.name, request.keeps) if is_parquet else {},
        # A table with the latest of each key reads its new files before the commit.
        waits=is_parquet and request.keeps != KEEP_LATEST and TableFolder(request.out).is_local,
    )
    state = dead_letters.state if dead_letters is not None else None
    done = state.offsets if state is not None and state.topic_id == facts.topic_id else {}
    return tuple(
        Task(
            source=source,
            ranges=ranges,
            layout=layout,
            formats=columns.formats,
            keeps=request.keeps,
            drops_tombstones=is_new,
            skips_damage=request.on_damage == SKIP,
            dead_letters_from=dict(done),
        )
        for ranges in divided
    )


def topic_facts(
    client: BrokerClient, topic: str, *, is_committed: bool, only: Collection[int] | None = None
) -> TopicFacts:
    """The current state of the topic; `only` limits the bounds to some partitions. Raises `BrokerCallFailed`."""
    (found,) = client.topics([topic])
    known = [each.partition for each in found.partitions]
    partitions = [each for each in known if only is None or each in only]
    earliest = offsets(client, topic, partitions, EARLIEST)
    ends = offsets(client, topic, partitions, LATEST, is_committed=is_committed)
    bounds = {each: Bounds(earliest[each], ends[each]) for each in partitions}
    elsewhere = frozenset(known) - frozenset(partitions)
    return TopicFacts(client.cluster_id, topic, found.topic_id or NO_TOPIC_ID, bounds, elsewhere)


def _starts(
    client: BrokerClient | None, request: ExportRequest, partitions: Sequence[int], facts: TopicFacts, *, is_new: bool
) -> dict[int, int]:
    """The start offsets of partitions that the table does not have: a new table begins at --start, and partitions that
    were added later begin at offset 0.
    """
    if is_new and client is not None and facts.elsewhere:
        # The exports of the other partitions find a table that is not new.
        facts = topic_facts(client, request.topic, is_committed=request.is_committed)
    if is_new:
        return _offsets_at(client, request, partitions, request.start, facts)
    return dict.fromkeys(partitions, 0)


def _with_beginnings(planned: Plan, starts: Mapping[int, int]) -> Plan:
    """Add empty ranges for partitions without records: losses of their later records are then detected."""
    there = {each.partition for each in planned.ranges}
    begun = [OffsetRange(partition, start, start) for partition, start in starts.items() if partition not in there]
    return planned._replace(ranges=tuple(sorted([*planned.ranges, *begun])))


def offsets_to_continue(state: TableState, facts: TopicFacts, *, accepts_recreated: bool = False) -> Mapping[int, int]:
    """The end offsets of the table, if they belong to this topic id. Raises `ExportFailed` for another topic."""
    if state.topic_id is None:
        return {}
    if state.topic != facts.name:
        raise ExportFailed(f"the table is of topic {state.topic!r}, not {facts.name!r}: use another folder")
    if state.cluster_id != facts.cluster_id:
        raise ExportFailed(
            f"the table is of cluster {state.cluster_id}, the broker of cluster {facts.cluster_id}: use another folder"
        )
    if state.topic_id == facts.topic_id:
        return state.offsets
    if accepts_recreated:
        return {}
    raise ExportFailed(
        f"topic {facts.name!r} was deleted and created again since the last export, and its offsets begin at 0 again:"
        " use another folder, or append the records of the new topic with --recreated append"
    )


def _offsets_at(
    client: BrokerClient | None, request: ExportRequest, partitions: Sequence[int], when: str, facts: TopicFacts
) -> dict[int, int]:
    if when == _EARLIEST:
        return {each: facts.bounds[each].earliest for each in partitions}
    ends = {each: facts.bounds[each].end for each in partitions}
    if when == _LATEST:
        return ends
    if client is None:
        raise ExportFailed(f"a broker is required to find the offsets at {when}")
    found = offsets(client, request.topic, partitions, int(when))
    # The record of that time may be after the last stable offset, in an open transaction.
    return {each: min(found[each], ends[each]) if found[each] >= 0 else ends[each] for each in partitions}


def directories_of(client: BrokerClient | None, request: ExportRequest, facts: TopicFacts) -> dict[int, str]:
    """The directories of the partitions on this machine. Raises `ExportFailed` if a partition has none here."""
    folders, partitions = request.log_dirs, sorted(facts.bounds)
    if client is not None and not folders:
        described = describe_log_dirs(client, {request.topic: partitions})
        folders = tuple(row.path for row in described if row.error is None)
    check_folders(request.log_dirs)
    found: dict[int, str] = {}
    for partition in partitions:
        name = str(TopicPartition(request.topic, partition))
        places = [path for folder in folders if os.path.isdir(path := f"{folder}/{name}")]
        if not places:
            raise ExportFailed(
                f"{name} is in no log directory on this machine ({', '.join(folders) or 'none is known'}): use"
                " --log-dirs or --source broker"
            )
        check_is_of(places[0], facts)
        found[partition] = os.path.abspath(places[0])
    return found
