"""One run of an export: what the table has, what the topic has, tasks, one commit (decision 062).

Files that were written by a run that does not reach its commit are invisible; `remove_orphans` deletes them. What a run
has left undone that was killed behind its commit, the next one does first.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.group_commits import commit_offsets
from kafkad.export.coverage import Manifest, Returned, Skipped, check_coverage
from kafkad.export.dead_letters import folder_of_dead_letters
from kafkad.export.places import UNFINISHED, TableFolder, waiting_path
from kafkad.export.preparation import Prepared
from kafkad.export.problems import AnotherExport, ExportFailed, after_commit, not_answered
from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.kept_files import keep_open
from kafkad.export.reading.retrying import Retries
from kafkad.export.request import KEEP_ALL, ExportRequest
from kafkad.export.schema import DEAD_LETTERS
from kafkad.export.sinks.complete_hours import completes_an_hour, reached_by
from kafkad.export.sinks.rebasing import commit_behind_others
from kafkad.export.sinks.rewriting import discard_refused
from kafkad.export.sinks.sink import Commit, Sink
from kafkad.export.task import Task
from kafkad.export.values.format import DEAD_LETTERS as TO_DEAD_LETTERS
from kafkad.export.writing import DATE, Layout, WrittenFile, is_written_by_run

GROUP_PREFIX = "kafkad-export-"
_KEPT = timedelta(days=36_500)
"""The group of an export that rests must not expire: `delete-exported` would wait for it no more."""

RunTasks = Callable[[Sequence[Task]], Iterable[Returned]]


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
    unparsed: int = 0
    """Records of which something could not be parsed, and batches that are damaged: they are among the dead letters, or
    null.
    """
    skipped: tuple[Skipped, ...] = ()
    complete_until: int | None = None
    """Up to when the table is complete, in microseconds; None: no hour is known to be."""


def carry_out(prepared: Prepared, sink: Sink, run_tasks: RunTasks, told: Callable[[WrittenFile], None]) -> Summary:
    """Run the tasks, then make one commit; `told` hears of each file. Raises `ExportFailed`."""
    wanted, planned = prepared.wanted, prepared.plan
    sinks = [sink, *([] if prepared.dead_letters is None else [prepared.dead_letters.sink])]
    for each in sinks:
        each.settle()
    if not planned.ranges and not planned.lost and not _completes_an_hour(prepared):
        if prepared.committed and prepared.has_broker:
            # The run that made the last commit may have been killed before it told the group.
            _show_progress(wanted, _of_this_run(prepared, prepared.committed))
        until = prepared.state.complete_until if prepared.committed else None
        return Summary(topic=wanted.topic, version=None, ends=prepared.committed, complete_until=until)
    began_s = time.monotonic()
    for each in sinks:
        each.check_store()
    files, skipped = _written(prepared, run_tasks, told)
    commit = _commit(prepared, files, skipped)
    letters = [file for file in files if file.is_dead_letters]
    try:
        if prepared.dead_letters is not None and letters:
            of_letters = commit._replace(files=letters, schema=DEAD_LETTERS, lost=[], skipped=[], keeps=KEEP_ALL)
            commit_behind_others(
                prepared.dead_letters.sink, prepared.dead_letters.state, of_letters, prepared.facts.partitions
            )
        done = commit_behind_others(sink, prepared.state, commit, prepared.facts.partitions)
    except AnotherExport:
        _leave_nothing(prepared, sink, commit.files, letters)
        raise
    with after_commit():
        for folder in _folders(wanted):
            folder.remove_unfinished(prepared.run_id)
    ends = {**prepared.committed, **done.commit.ends}
    if prepared.has_broker:
        _show_progress(wanted, {**_of_this_run(prepared, ends), **done.commit.ends})
    return Summary(
        topic=wanted.topic,
        version=done.version,
        records=sum(file.rows for file in files),
        bytes=sum(file.size for file in files),
        files=len(files),
        seconds=time.monotonic() - began_s,
        ends=ends,
        lost=planned.lost,
        unparsed=sum(file.unparsed for file in files),
        skipped=skipped,
        complete_until=done.complete_until,
    )


def _leave_nothing(
    prepared: Prepared, sink: Sink, files: Sequence[WrittenFile], letters: Sequence[WrittenFile]
) -> None:
    """Another export has committed what this one has written. Dead letters whose own commit was made stay."""
    out = prepared.wanted.out
    discard_refused(TableFolder(out), sink, files)
    if prepared.dead_letters is not None:
        discard_refused(TableFolder(folder_of_dead_letters(out)), prepared.dead_letters.sink, letters)
    with suppress(OSError, ExportFailed):
        for folder in _folders(prepared.wanted):
            folder.remove_unfinished(prepared.run_id)


def _of_this_run(prepared: Prepared, ends: Mapping[int, int]) -> dict[int, int]:
    """Who exports the others knows more of them."""
    return {partition: end for partition, end in ends.items() if partition not in prepared.facts.elsewhere}


def _commit(prepared: Prepared, files: Sequence[WrittenFile], skipped: Sequence[Skipped] = ()) -> Commit:
    facts, planned = prepared.facts, prepared.plan
    return Commit(
        cluster_id=facts.cluster_id,
        topic_id=facts.topic_id,
        topic=facts.name,
        ranges=planned.ranges,
        lost=planned.lost,
        skipped=[OffsetRange(each.partition, each.start, each.end) for each in skipped],
        files=[file for file in files if not file.is_dead_letters],
        run_id=prepared.run_id,
        reached=reached_by(files, prepared.began_us, prepared.idle, round((prepared.wanted.idle_after_s or 0) * 1e6)),
        waits_for=facts.elsewhere | {each for each, bounds in facts.bounds.items() if bounds.end > bounds.earliest},
        schema=prepared.columns.table,
        keeps=prepared.wanted.keeps,
        partition_by=prepared.wanted.partition_by,
        target_file_bytes=prepared.wanted.target_file_bytes,
        compression=prepared.wanted.compression,
    )


def _completes_an_hour(prepared: Prepared) -> bool:
    """Then the commit is worth making without records. A table that is not there has no hours."""
    return bool(prepared.idle and prepared.committed) and completes_an_hour(prepared.state, _commit(prepared, []))


def _folders(wanted: ExportRequest) -> list[TableFolder]:
    """Of the table, and of its dead letters."""
    has_dead_letters = bool(wanted.formats) or wanted.on_damage == TO_DEAD_LETTERS
    outs = [wanted.out, *([folder_of_dead_letters(wanted.out)] if has_dead_letters else [])]
    return [TableFolder(out) for out in outs]


def orphans(folder: TableFolder, sink: Sink, older_than_s: float) -> list[str]:
    """Paths of files that are older and belong to no table: of runs that did not commit (they may be under way), or
    replaced by others. Where there is no table there are none: the files may be those of another kind of table, or of
    one that another catalog knows.

    What others write into the table is theirs, such as files that say which rows they have deleted, and so are the
    tables in folders within this one.

    What others are about to commit is there already: it has to be younger, or it is taken for an orphan.
    """
    # Before `kept`: what comes into the table behind this is not listed, and what has come before is kept.
    names = sorted(_names_of_runs(folder))
    kept = sink.kept(older_than_s)
    if kept is None:
        return []
    return [
        name
        for name in names
        if name not in kept
        and (name.startswith(f"{UNFINISHED}/") or is_written_by_run(name))
        and folder.age_s(name) >= older_than_s
    ]


def _names_of_runs(folder: TableFolder) -> Iterator[str]:
    """Files where runs write them. What else is below the folder may be large, closed, or somebody else's."""
    yield from folder.names()
    for each in folder.folders():
        if each == UNFINISHED or each.startswith(f"{DATE}="):
            yield from folder.names(each, recursive=True)


def remove_orphans(folder: TableFolder, sink: Sink, older_than_s: float) -> list[str]:
    """Delete them. Returns their paths."""
    found = orphans(folder, sink, older_than_s)
    for name in found:
        folder.remove(name)
    return found


def _written(
    prepared: Prepared, run_tasks: RunTasks, told: Callable[[WrittenFile], None]
) -> tuple[list[WrittenFile], tuple[Skipped, ...]]:
    """The files of all tasks, and what they have left out. Without all files none is kept."""
    files: list[WrittenFile] = []
    manifests: list[Manifest] = []
    try:
        with keep_open(_directories(prepared.tasks), prepared.plan.ranges) as kept:
            for returned in run_tasks([_with_kept(task, kept) for task in prepared.tasks]):
                if isinstance(returned, Manifest):
                    manifests.append(returned)
                else:
                    files.append(returned)
                    told(returned)
        check_coverage(prepared.plan.ranges, manifests, files)
        if files:
            _check_are_here(prepared.wanted, prepared.tasks[0].layout, files)
    except BaseException:
        with suppress(OSError, ExportFailed):
            for folder in _folders(prepared.wanted):
                folder.remove_unfinished(prepared.run_id)
                # No two files have the same name.
                for file in files:
                    folder.remove(file.path)
        raise
    return files, tuple(each for manifest in sorted(manifests) for each in manifest.skipped)


def _place(file: WrittenFile, layout: Layout) -> str:
    """Where it is before the commit."""
    return waiting_path(layout.run_id, file.path) if layout.waits else file.path


def _check_are_here(wanted: ExportRequest, layout: Layout, files: Sequence[WrittenFile]) -> None:
    """On a disk: workers may have written on theirs, where no reader of the table looks. Raises `ExportFailed`."""
    for is_letters, folder in enumerate(_folders(wanted)):
        for file in files if folder.is_local else ():
            if file.is_dead_letters == bool(is_letters) and folder.size(_place(file, layout)) != file.size:
                raise ExportFailed(
                    f"{folder.out}/{file.path} was written, but is not here, so nothing of this run is in the table:"
                    " all workers and the driver need the same folder"
                )


def _directories(tasks: Sequence[Task]) -> Mapping[int, str]:
    """All tasks have the same source."""
    return tasks[0].source.directories if tasks else {}


def _with_kept(task: Task, kept: Mapping[int, str]) -> Task:
    return replace(task, source=replace(task.source, kept=kept))


def _show_progress(wanted: ExportRequest, ends: Mapping[int, int]) -> None:
    """The group shows the lag of the table, and says what retention may delete; nothing begins there."""
    with_topic = {(wanted.topic, partition): end for partition, end in ends.items()}
    retries = Retries(wanted.timeout_s)
    while True:
        try:
            with BrokerClient(wanted.bootstrap, wanted.timeout_s) as client:
                commit_offsets(client, f"{GROUP_PREFIX}{wanted.name}", with_topic, retention=_KEPT)
        except BrokerCallFailed as failed:
            retries.wait(
                type(not_answered(failed))(
                    f"the records were committed, but the group {GROUP_PREFIX}{wanted.name} was not updated: {failed}"
                )
            )
        else:
            return
