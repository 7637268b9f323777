"""One run of an export: what the table has, what the topic has, tasks, one commit (decision 062).

Files that were written by a run that does not reach its commit are invisible; `remove_orphans` deletes them.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.groups import commit_offsets
from kafkad.client.log_dirs import describe_log_dirs
from kafkad.client.records import EARLIEST, LATEST, offsets
from kafkad.core.types import NO_TOPIC_ID, TopicPartition
from kafkad.export.places import TableFolder
from kafkad.export.problems import BrokerAway, ExportFailed, not_answered
from kafkad.export.ranges import Bounds, OffsetRange, Plan, TopicFacts, plan
from kafkad.export.reading.log_directories import check_folders, facts_without_broker
from kafkad.export.reading.source import Source
from kafkad.export.sinks.sink import Commit, Sink, TableState
from kafkad.export.splitting import bytes_per_offset, divide
from kafkad.export.task import Task, WrittenFile, check_coverage

GROUP_PREFIX = "kafkad-export-"
_KEPT = timedelta(days=36_500)
"""The group of an export that rests must not expire: `delete-exported` would wait for it no more."""
_PIECES_OF_A_JOB = 2
"""So that a process which is through early has something left to do."""

RunTasks = Callable[[Sequence[Task]], Iterable[WrittenFile]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for. `name` is that of the export: it names its group, in which its lag is seen."""

    topic: str
    out: str
    name: str
    bootstrap: str
    """Empty: there is no broker."""
    format: str = "parquet"
    source: str = "broker"
    log_dirs: tuple[str, ...] = ()
    """With source "files"; none: those that the broker names."""
    start: str = "earliest"
    """earliest, latest, or milliseconds since 1970; for a partition that the table does not have yet."""
    end: str = "latest"
    partition_by: str = "none"
    target_file_bytes: int = 256 * 1024 * 1024
    compression: str = "zstd"
    max_bytes_per_sec: int = 0
    is_committed: bool = True
    skips_lost: bool = False
    accepts_recreated: bool = False
    jobs: int = 1
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run did; `version` is None when there was nothing to do."""

    topic: str
    version: int | None
    records: int = 0
    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    ends: Mapping[int, int] = field(default_factory=dict)
    lost: tuple[OffsetRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run before its first task."""

    wanted: Wanted
    facts: TopicFacts
    state: TableState
    plan: Plan
    tasks: tuple[Task, ...]
    run_id: str
    lag: int
    """Offsets that the table does not have."""
    has_broker: bool
    """Without one the log directories said where the topic ends."""


def open_sink(wanted: Wanted) -> Sink:
    folder = TableFolder(wanted.out)
    if wanted.format == "delta":
        # Only who asks for it needs deltalake.
        from kafkad.export.sinks.delta import DeltaSink  # noqa: PLC0415

        return DeltaSink(folder, wanted.partition_by)
    from kafkad.export.sinks.parquet import ParquetSink  # noqa: PLC0415

    return ParquetSink(folder)


def prepare(wanted: Wanted, sink: Sink) -> Prepared:
    """Ask the broker and the table. Raises `ExportFailed`.

    Segment files in named directories can be read without a broker, up to where their checkpoints say.
    """
    try:
        if wanted.bootstrap:
            with BrokerClient(wanted.bootstrap, wanted.timeout_s) as client:
                facts = topic_facts(client, wanted.topic, is_committed=wanted.is_committed)
                return _prepare(wanted, sink, facts, client)
    except BrokerCallFailed as failed:
        error = not_answered(failed)
        if not isinstance(error, BrokerAway) or wanted.source != "files" or not wanted.log_dirs:
            raise error from failed
    if wanted.source != "files" or not wanted.log_dirs:
        raise ExportFailed("without a broker segment files are read: --source files, and where they lie: --log-dirs")
    return _prepare(wanted, sink, _facts_of_files(wanted), None)


def _facts_of_files(wanted: Wanted) -> TopicFacts:
    return facts_without_broker(wanted.log_dirs, wanted.topic, is_committed=wanted.is_committed)


def _prepare(wanted: Wanted, sink: Sink, facts: TopicFacts, client: BrokerClient | None) -> Prepared:
    partitions = sorted(facts.bounds)
    state = sink.state(partitions)
    committed = _continued(state, facts, accepts_recreated=wanted.accepts_recreated)
    new = [each for each in partitions if each not in committed]
    planned = plan(
        facts,
        committed,
        starts=_offsets_at(client, wanted, new, wanted.start, facts),
        ends=None if wanted.end == "latest" else _offsets_at(client, wanted, partitions, wanted.end, facts),
        skips_lost=wanted.skips_lost,
    )
    source = Source(
        topic=wanted.topic,
        bootstrap=wanted.bootstrap if client is not None else None,
        directories=_directories(client, wanted, partitions) if wanted.source == "files" else {},
        is_committed=wanted.is_committed,
        max_bytes_per_sec=-(-wanted.max_bytes_per_sec // max(wanted.jobs, 1)),
        timeout_s=wanted.timeout_s,
    )
    average = {} if client is None or source.directories else bytes_per_offset(client, wanted.topic, facts.bounds)
    pieces = _PIECES_OF_A_JOB * wanted.jobs if wanted.jobs > 1 else 1
    run_id = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
    tasks = tuple(
        Task(
            source=source,
            ranges=(piece,),
            out=wanted.out,
            run_id=run_id,
            partition_by=wanted.partition_by,
            target_file_bytes=wanted.target_file_bytes,
            compression=wanted.compression,
        )
        for piece in divide(source, planned.ranges, pieces, average)
    )
    lag = sum(each.end - each.start for each in planned.ranges)
    return Prepared(
        wanted=wanted,
        facts=facts,
        state=state,
        plan=planned,
        tasks=tasks,
        run_id=run_id,
        lag=lag,
        has_broker=client is not None,
    )


def carry_out(prepared: Prepared, sink: Sink, run_tasks: RunTasks, told: Callable[[WrittenFile], None]) -> Summary:
    """Run the tasks, then make one commit; `told` hears of each file. Raises `ExportFailed`."""
    wanted, planned = prepared.wanted, prepared.plan
    if not planned.ranges and not planned.lost:
        if prepared.state.offsets and prepared.has_broker:
            # The run that made the last commit may have been killed before it told the group.
            _show_progress(wanted, prepared.state.offsets)
        return Summary(topic=wanted.topic, version=None, ends=prepared.state.offsets)
    began_s = time.monotonic()
    files = _written(prepared, run_tasks, told)
    facts = prepared.facts
    commit = Commit(
        cluster_id=facts.cluster_id,
        topic_id=facts.topic_id,
        topic=wanted.topic,
        ranges=planned.ranges,
        lost=planned.lost,
        files=files,
        run_id=prepared.run_id,
        complete_until=_complete_until(facts, files),
    )
    version = sink.commit(prepared.state, commit)
    TableFolder(wanted.out).remove_unfinished(prepared.run_id)
    ends = {**prepared.state.offsets, **commit.ends}
    if prepared.has_broker:
        _show_progress(wanted, ends)
    return Summary(
        topic=wanted.topic,
        version=version,
        records=sum(file.rows for file in files),
        bytes=sum(file.size for file in files),
        files=len(files),
        seconds=time.monotonic() - began_s,
        ends=ends,
        lost=planned.lost,
    )


def topic_facts(client: BrokerClient, topic: str, *, is_committed: bool) -> TopicFacts:
    """The topic as it is now. Raises `BrokerCallFailed`."""
    (found,) = client.topics([topic])
    partitions = [each.partition for each in found.partitions]
    earliest = offsets(client, topic, partitions, EARLIEST)
    ends = offsets(client, topic, partitions, LATEST, is_committed=is_committed)
    bounds = {each: Bounds(earliest[each], ends[each]) for each in partitions}
    return TopicFacts(client.cluster_id, topic, found.topic_id or NO_TOPIC_ID, bounds)


def remove_orphans(folder: TableFolder, sink: Sink, older_than_s: float) -> list[str]:
    """Delete the files of runs that did not commit, and that are older: they may be under way. Returns their paths."""
    kept = set(sink.files())
    removed = []
    for name in folder.names(recursive=True):
        if name in kept or not name.endswith(".parquet") or name.startswith("_delta_log/"):
            continue
        if folder.age_s(name) >= older_than_s:
            folder.remove(name)
            removed.append(name)
    return removed


def _continued(state: TableState, facts: TopicFacts, *, accepts_recreated: bool) -> Mapping[int, int]:
    """The table's end offsets, if they are of this topic."""
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
        f"topic {facts.name!r} was deleted and made again since the last export: its offsets begin anew. Name another"
        " folder, or append the new topic's records with --recreated append"
    )


def _offsets_at(
    client: BrokerClient | None, wanted: Wanted, partitions: Sequence[int], when: str, facts: TopicFacts
) -> dict[int, int]:
    if when == "earliest":
        return {each: facts.bounds[each].earliest for each in partitions}
    ends = {each: facts.bounds[each].end for each in partitions}
    if when == "latest":
        return ends
    if client is None:
        raise ExportFailed(f"only a broker knows the offsets at {when}, and there is none")
    found = offsets(client, wanted.topic, partitions, int(when))
    return {each: found[each] if found[each] >= 0 else ends[each] for each in partitions}


def _directories(client: BrokerClient | None, wanted: Wanted, partitions: Iterable[int]) -> dict[int, str]:
    """Where the partitions lie on this machine. Raises `ExportFailed` when one of them is in no directory here."""
    folders = wanted.log_dirs
    if client is not None and not folders:
        described = describe_log_dirs(client, {wanted.topic: list(partitions)})
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
        found[partition] = places[0]
    return found


def _written(prepared: Prepared, run_tasks: RunTasks, told: Callable[[WrittenFile], None]) -> list[WrittenFile]:
    """The files of all tasks. Without all of them none is kept."""
    files: list[WrittenFile] = []
    try:
        for file in run_tasks(prepared.tasks):
            files.append(file)
            told(file)
        check_coverage(prepared.plan.ranges, files)
    except BaseException:
        with suppress(OSError, ExportFailed):
            folder = TableFolder(prepared.wanted.out)
            folder.remove_unfinished(prepared.run_id)
            for file in files:
                folder.remove(file.path)
        raise
    return files


def _complete_until(facts: TopicFacts, files: Iterable[WrittenFile]) -> int | None:
    """None while a partition has no timestamp."""
    largest: dict[int, int] = {}
    for file in files:
        if file.max_timestamp is not None:
            largest[file.partition] = max(largest.get(file.partition, 0), file.max_timestamp)
    filled = [partition for partition, bounds in facts.bounds.items() if bounds.end > bounds.earliest]
    if not filled or any(partition not in largest for partition in filled):
        return None
    return min(largest[partition] for partition in filled)


def _show_progress(wanted: Wanted, ends: Mapping[int, int]) -> None:
    """The group shows the lag of the table, and says what retention may delete; nothing begins there."""
    with_topic = {(wanted.topic, partition): end for partition, end in ends.items()}
    try:
        with BrokerClient(wanted.bootstrap, wanted.timeout_s) as client:
            commit_offsets(client, f"{GROUP_PREFIX}{wanted.name}", with_topic, retention=_KEPT)
    except BrokerCallFailed as failed:
        raise type(not_answered(failed))(
            f"the table has what was exported, but the group {GROUP_PREFIX}{wanted.name} could not be told: {failed}"
        ) from failed
