"""What would a run do? The table says what it has, the topic what there is, and tasks are the difference."""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.log_dirs import describe_log_dirs
from kafkad.client.records import EARLIEST, LATEST, offsets
from kafkad.core.types import NO_TOPIC_ID, TopicPartition
from kafkad.export.places import TableFolder, absolute
from kafkad.export.problems import BrokerAway, ExportFailed, not_answered
from kafkad.export.ranges import Bounds, OffsetRange, Plan, TopicFacts, plan
from kafkad.export.reading.led_here import led_here
from kafkad.export.reading.log_directories import check_folders, check_is_of, facts_without_broker
from kafkad.export.reading.source import Source
from kafkad.export.reading.splitting import bytes_per_offset, divide, gathered, sizes_of
from kafkad.export.request import KEEP_LATEST, LED, SKIP, ExportRequest
from kafkad.export.sinks.sink import Sink, TableState
from kafkad.export.tables import open_dead_letters
from kafkad.export.task import Task
from kafkad.export.values.format import DEAD_LETTERS, FAIL
from kafkad.export.values.table_columns import Columns, columns_for
from kafkad.export.writing import Layout, identity

_FIRST, _NOW = "earliest", "latest"
_PIECES_OF_A_JOB = 2
"""So that a process which is through early has something left to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """The table of dead letters, and what it had when the run was prepared."""

    sink: Sink
    state: TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run before its first task."""

    wanted: ExportRequest
    facts: TopicFacts
    state: TableState
    plan: Plan
    committed: Mapping[int, int]
    """The end offsets of the table, if they are of this topic."""
    columns: Columns
    dead_letters: DeadLetters | None
    tasks: tuple[Task, ...]
    bytes: int
    """Of the log, about."""
    run_id: str
    has_broker: bool
    """Without one the log directories said where the topic ends."""
    began_us: int
    """By the clock of this machine, before anybody was asked."""
    idle: frozenset[int]
    """Partitions that had nothing then which this run does not bring, if anybody wants to know."""

    @property
    def lag(self) -> int:
        """Offsets that the table does not have."""
        return sum(each.end - each.start for each in self.plan.ranges)

    @property
    def files(self) -> int:
        """About how many: more where they are divided by date, fewer bytes in each where values compress well."""
        return max(sum(len(task.ranges) for task in self.tasks), -(-self.bytes // self.wanted.target_file_bytes))


def prepare(wanted: ExportRequest, sink: Sink) -> Prepared:
    """Ask the broker and the table. Raises `ExportFailed`.

    Segment files in named directories can be read without a broker, up to where their checkpoints say.
    """
    began_us = time.time_ns() // 1_000
    try:
        if wanted.bootstrap:
            with BrokerClient(wanted.bootstrap, wanted.timeout_s) as client:
                led = led_here(client, wanted) if wanted.partitions == LED else None
                facts = topic_facts(client, wanted.topic, is_committed=wanted.is_committed, only=led)
                return _prepare(wanted, sink, facts, client, led, began_us)
    except BrokerCallFailed as failed:
        error = not_answered(failed)
        if not isinstance(error, BrokerAway) or wanted.source != "files" or not wanted.log_dirs:
            raise error from failed
        if wanted.partitions == LED:
            raise error from failed
    if wanted.partitions == LED:
        raise ExportFailed("without a broker the leaders are unknown: use --partitions all")
    if wanted.source != "files" or not wanted.log_dirs:
        raise ExportFailed("without a broker use --source files and --log-dirs")
    return _prepare(wanted, sink, _facts_of_files(wanted), None, None, began_us)


def _facts_of_files(wanted: ExportRequest) -> TopicFacts:
    return facts_without_broker(wanted.log_dirs, wanted.topic, is_committed=wanted.is_committed)


def _prepare(
    wanted: ExportRequest,
    sink: Sink,
    facts: TopicFacts,
    client: BrokerClient | None,
    led: Mapping[int, str] | None,
    began_us: int,
) -> Prepared:
    """`led`: the directories of the partitions that are led here, if only those are wanted."""
    state = sink.state(facts.partitions)
    if state.topic_id is not None:
        _check_same("--keep", state.keeps, wanted.keeps)
        _check_same("--partition-by", state.partition_by, wanted.partition_by)
    committed = continued(state, facts, accepts_recreated=wanted.accepts_recreated)
    # A Delta table that was made, but whose first commit was not reached, has no offsets either.
    planned = _planned(client, wanted, facts, committed, is_new=not state.offsets)
    # After the bounds: what was written before them has no newer schema.
    columns = columns_for(wanted.formats if planned.ranges else (), state.columns, may_widen=wanted.may_widen)
    dead_letters = _dead_letters(wanted, columns, facts)
    source = _source(wanted, facts, client, led)
    # A range without records is what a new table begins with.
    ranges = [each for each in planned.ranges if each.start < each.end]
    average = {} if client is None or source.directories else bytes_per_offset(client, wanted.topic, facts.bounds)
    sizes = sizes_of(source, ranges, average)
    run_id = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
    return Prepared(
        wanted=wanted,
        facts=facts,
        state=state,
        plan=planned,
        committed=committed,
        columns=columns,
        dead_letters=dead_letters,
        tasks=_tasks(
            wanted,
            facts,
            source,
            _divided(wanted, source, ranges, sizes),
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
        idle=_idle(client, wanted, facts),
    )


def _check_same(option: str, of_table: str | None, asked: str) -> None:
    if of_table not in (None, asked):
        raise ExportFailed(f"the table has {option} {of_table}, not {option} {asked}: use another folder")


def _idle(client: BrokerClient | None, wanted: ExportRequest, facts: TopicFacts) -> frozenset[int]:
    """Without a broker nobody knows of when the log directories are."""
    if client is None or wanted.idle_after_s is None or wanted.end != _NOW:
        return frozenset()
    # Behind the last stable offset are records of open transactions, which may be old.
    ends = offsets(client, wanted.topic, facts.bounds, LATEST)
    return frozenset(each for each, bounds in facts.bounds.items() if ends[each] == bounds.end)


def _planned(
    client: BrokerClient | None, wanted: ExportRequest, facts: TopicFacts, committed: Mapping[int, int], *, is_new: bool
) -> Plan:
    partitions = sorted(facts.bounds)
    new = [each for each in facts.partitions if each not in committed]
    starts = _starts(client, wanted, new, facts, is_new=is_new)
    planned = plan(
        facts,
        committed,
        starts=starts,
        ends=None if wanted.end == _NOW else _offsets_at(client, wanted, partitions, wanted.end, facts),
        skips_lost=wanted.skips_lost,
    )
    if is_new and (planned.ranges or wanted.start == _NOW):
        planned = _with_beginnings(planned, starts)
    return planned


def _dead_letters(wanted: ExportRequest, columns: Columns, facts: TopicFacts) -> DeadLetters | None:
    parsing = any(each.on_bad == DEAD_LETTERS for each in columns.formats)
    if not parsing and wanted.on_damage != DEAD_LETTERS:
        return None
    sink = open_dead_letters(wanted)
    return DeadLetters(sink=sink, state=sink.state(facts.partitions))


def _source(
    wanted: ExportRequest, facts: TopicFacts, client: BrokerClient | None, led: Mapping[int, str] | None
) -> Source:
    directories: Mapping[int, str] = {}
    if wanted.source == "files":
        directories = directories_of(client, wanted, facts) if led is None else led
    return Source(
        topic=wanted.topic,
        bootstrap=wanted.bootstrap if client is not None else None,
        directories=directories,
        sets_damage_aside=wanted.on_damage != FAIL,
        is_committed=wanted.is_committed,
        max_bytes_per_sec=-(-wanted.max_bytes_per_sec // max(wanted.jobs, 1)),
        timeout_s=wanted.timeout_s,
    )


def _divided(
    wanted: ExportRequest, source: Source, ranges: Sequence[OffsetRange], sizes: Sequence[int]
) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task."""
    tasks = _PIECES_OF_A_JOB * wanted.jobs if wanted.jobs > 1 else 1
    # Of a piece only that piece's latest would be known.
    pieces = ranges if wanted.keeps == KEEP_LATEST else divide(source, ranges, sizes, tasks)
    return gathered(ranges, sizes, pieces, tasks)


def _tasks(
    wanted: ExportRequest,
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
    is_parquet = wanted.format == "parquet"
    layout = Layout(
        out=absolute(wanted.out),
        topic=wanted.topic,
        run_id=run_id,
        schema=columns.files,
        partition_by=wanted.partition_by,
        has_dates=has_dates,
        by_transform=wanted.format == "iceberg" and not has_dates,
        target_file_bytes=wanted.target_file_bytes,
        compression=wanted.compression,
        identity=identity(facts.cluster_id, facts.topic_id, facts.name, wanted.keeps) if is_parquet else {},
        # What is written anew for a table of the latest of each key is read before the commit.
        waits=is_parquet and wanted.keeps != KEEP_LATEST and TableFolder(wanted.out).is_local,
    )
    state = dead_letters.state if dead_letters is not None else None
    done = state.offsets if state is not None and state.topic_id == facts.topic_id else {}
    return tuple(
        Task(
            source=source,
            ranges=ranges,
            layout=layout,
            formats=columns.formats,
            keeps=wanted.keeps,
            drops_tombstones=is_new,
            skips_damage=wanted.on_damage == SKIP,
            dead_letters_from=dict(done),
        )
        for ranges in divided
    )


def topic_facts(
    client: BrokerClient, topic: str, *, is_committed: bool, only: Collection[int] | None = None
) -> TopicFacts:
    """The topic as it is now, or with the bounds of some partitions only. Raises `BrokerCallFailed`."""
    (found,) = client.topics([topic])
    known = [each.partition for each in found.partitions]
    partitions = [each for each in known if only is None or each in only]
    earliest = offsets(client, topic, partitions, EARLIEST)
    ends = offsets(client, topic, partitions, LATEST, is_committed=is_committed)
    bounds = {each: Bounds(earliest[each], ends[each]) for each in partitions}
    elsewhere = frozenset(known) - frozenset(partitions)
    return TopicFacts(client.cluster_id, topic, found.topic_id or NO_TOPIC_ID, bounds, elsewhere)


def _starts(
    client: BrokerClient | None, wanted: ExportRequest, partitions: Sequence[int], facts: TopicFacts, *, is_new: bool
) -> dict[int, int]:
    """Where partitions begin that the table does not have: in a new table where it was told, later with their first
    record.
    """
    if is_new and client is not None and facts.elsewhere:
        # Who exports those finds a table that is not new.
        facts = topic_facts(client, wanted.topic, is_committed=wanted.is_committed)
    if is_new:
        return _offsets_at(client, wanted, partitions, wanted.start, facts)
    return dict.fromkeys(partitions, 0)


def _with_beginnings(planned: Plan, starts: Mapping[int, int]) -> Plan:
    """Also of partitions that have nothing yet: what they get from now on is of this table, and may be lost."""
    there = {each.partition for each in planned.ranges}
    begun = [OffsetRange(partition, start, start) for partition, start in starts.items() if partition not in there]
    return planned._replace(ranges=tuple(sorted([*planned.ranges, *begun])))


def continued(state: TableState, facts: TopicFacts, *, accepts_recreated: bool = False) -> Mapping[int, int]:
    """The table's end offsets, if they are of this topic. Raises `ExportFailed` for a table of another one."""
    if state.topic_id is None:
        return {}
    if state.topic != facts.name:
        raise ExportFailed(f"the table is of topic {state.topic!r}, not {facts.name!r}: name another folder")
    if state.cluster_id != facts.cluster_id:
        raise ExportFailed(
            f"the table is of cluster {state.cluster_id}, the broker of cluster {facts.cluster_id}: name another folder"
        )
    if state.topic_id == facts.topic_id:
        return state.offsets
    if accepts_recreated:
        return {}
    raise ExportFailed(
        f"topic {facts.name!r} was deleted and created again since the last export: its offsets begin at 0 again. Use"
        " another folder, or append the new topic's records with --recreated append"
    )


def _offsets_at(
    client: BrokerClient | None, wanted: ExportRequest, partitions: Sequence[int], when: str, facts: TopicFacts
) -> dict[int, int]:
    if when == _FIRST:
        return {each: facts.bounds[each].earliest for each in partitions}
    ends = {each: facts.bounds[each].end for each in partitions}
    if when == _NOW:
        return ends
    if client is None:
        raise ExportFailed(f"the offsets at {when} need a broker")
    found = offsets(client, wanted.topic, partitions, int(when))
    # A record of that time may be of an open transaction, behind the last stable offset: the table would begin there.
    return {each: min(found[each], ends[each]) if found[each] >= 0 else ends[each] for each in partitions}


def directories_of(client: BrokerClient | None, wanted: ExportRequest, facts: TopicFacts) -> dict[int, str]:
    """Where the partitions lie on this machine. Raises `ExportFailed` when one of them is in no directory here."""
    folders, partitions = wanted.log_dirs, sorted(facts.bounds)
    if client is not None and not folders:
        described = describe_log_dirs(client, {wanted.topic: partitions})
        folders = tuple(row.path for row in described if row.error is None)
    check_folders(wanted.log_dirs)
    found: dict[int, str] = {}
    for partition in partitions:
        name = str(TopicPartition(wanted.topic, partition))
        places = [path for folder in folders if os.path.isdir(path := f"{folder}/{name}")]
        if not places:
            raise ExportFailed(
                f"{name} is in none of {', '.join(folders) or 'no directory'} here: name --log-dirs, or --source broker"
            )
        check_is_of(places[0], facts)
        found[partition] = os.path.abspath(places[0])
    return found
