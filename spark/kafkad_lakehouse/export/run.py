"""One run of an export: run the prepared tasks, then make one commit (decision 062).

Files of a run without a commit are invisible; `remove_orphans` deletes them. If a run was killed after its commit, the
next run first completes the remaining steps.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.group_commits import commit_offsets
from kafkad_lakehouse.export.coverage import Manifest, Returned, Skipped, check_coverage
from kafkad_lakehouse.export.dead_letters import folder_of_dead_letters
from kafkad_lakehouse.export.preparation import Prepared
from kafkad_lakehouse.export.problems import CommitConflict, ExportFailed, after_commit, export_failure
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.kept_files import keep_open
from kafkad_lakehouse.export.reading.retrying import Retries
from kafkad_lakehouse.export.request import KEEP_ALL, ExportRequest
from kafkad_lakehouse.export.schema import DEAD_LETTERS
from kafkad_lakehouse.export.sinks.complete_hours import completes_an_hour, reached_by
from kafkad_lakehouse.export.sinks.foreign_files import remove_failed_run
from kafkad_lakehouse.export.sinks.rebasing import commit_with_rebase
from kafkad_lakehouse.export.sinks.rewriting import discard_rejected
from kafkad_lakehouse.export.sinks.sink import Commit, Sink
from kafkad_lakehouse.export.table_folder import UNFINISHED, TableFolder, pending_path
from kafkad_lakehouse.export.task import Task
from kafkad_lakehouse.export.values.format import DEAD_LETTERS as TO_DEAD_LETTERS
from kafkad_lakehouse.export.writing import DATE, Layout, WrittenFile, is_run_file

GROUP_PREFIX = "kafkad-export-"
_KEPT = timedelta(days=36_500)
"""The group of a paused export must not expire: `delete-exported` would no longer wait for it."""

RunTasks = Callable[[Sequence[Task]], Iterable[Returned]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The result of a run; `version` is None if there was nothing to do."""

    topic: str
    version: int | None
    records: int = 0
    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    ends: Mapping[int, int] = field(default_factory=dict)
    lost: tuple[OffsetRange, ...] = ()
    unparsed: int = 0
    """Records with an unparsable key or value, and damaged batches: dead letters, or null in their column."""
    skipped: tuple[Skipped, ...] = ()
    complete_until: int | None = None
    """The time up to which the table is complete, in microseconds since 1970; None: no hour is complete."""


def run_export(prepared: Prepared, sink: Sink, run_tasks: RunTasks, on_file: Callable[[WrittenFile], None]) -> Summary:
    """Run the tasks, then make one commit; calls `on_file` for each file. Raises `ExportFailed`."""
    request, planned = prepared.request, prepared.plan
    sinks = [sink, *([] if prepared.dead_letters is None else [prepared.dead_letters.sink])]
    for each in sinks:
        each.recover()
    if not planned.ranges and not planned.lost and not _completes_an_hour(prepared):
        if prepared.committed and prepared.has_broker:
            # The run that made the last commit may have been killed before it committed the offsets of the group.
            _commit_group_offsets(request, _offsets_of_run(prepared, prepared.committed))
        until = prepared.state.complete_until if prepared.committed else None
        return Summary(topic=request.topic, version=None, ends=prepared.committed, complete_until=until)
    began_s = time.monotonic()
    for each in sinks:
        each.check_store()
    files, skipped = _written(prepared, run_tasks, on_file)
    commit = _commit(prepared, files, skipped)
    letters = [file for file in files if file.is_dead_letters]
    try:
        if prepared.dead_letters is not None and letters:
            of_letters = commit._replace(files=letters, schema=DEAD_LETTERS, lost=[], skipped=[], keeps=KEEP_ALL)
            commit_with_rebase(
                prepared.dead_letters.sink, prepared.dead_letters.state, of_letters, prepared.facts.partitions
            )
        done = commit_with_rebase(sink, prepared.state, commit, prepared.facts.partitions)
    except CommitConflict:
        _discard_uncommitted(prepared, sink, commit.files, letters)
        raise
    with after_commit():
        for folder in _folders(request):
            folder.remove_unfinished(prepared.run_id)
    ends = {**prepared.committed, **done.commit.ends}
    if prepared.has_broker:
        _commit_group_offsets(request, {**_offsets_of_run(prepared, ends), **done.commit.ends})
    return Summary(
        topic=request.topic,
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


def _discard_uncommitted(
    prepared: Prepared, sink: Sink, files: Sequence[WrittenFile], letters: Sequence[WrittenFile]
) -> None:
    """Delete the files of a rejected commit. Dead letters of a successful commit stay."""
    out = prepared.request.out
    discard_rejected(TableFolder(out), sink, files)
    if prepared.dead_letters is not None:
        discard_rejected(TableFolder(folder_of_dead_letters(out)), prepared.dead_letters.sink, letters)
    with suppress(OSError, ExportFailed):
        for folder in _folders(prepared.request):
            folder.remove_unfinished(prepared.run_id)


def _offsets_of_run(prepared: Prepared, ends: Mapping[int, int]) -> dict[int, int]:
    """The offsets of partitions that this export reads; other exports commit the offsets of the others."""
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
        reached=reached_by(files, prepared.began_us, prepared.idle, round((prepared.request.idle_after_s or 0) * 1e6)),
        required_partitions=facts.elsewhere
        | {each for each, bounds in facts.bounds.items() if bounds.end > bounds.earliest},
        schema=prepared.columns.table,
        keeps=prepared.request.keeps,
        partition_by=prepared.request.partition_by,
        target_file_bytes=prepared.request.target_file_bytes,
        compression=prepared.request.compression,
    )


def _completes_an_hour(prepared: Prepared) -> bool:
    """Whether a commit without records would complete an hour; a new table has no hours."""
    return bool(prepared.idle and prepared.committed) and completes_an_hour(prepared.state, _commit(prepared, []))


def _folders(request: ExportRequest) -> list[TableFolder]:
    """The folders of the table and of its dead letters."""
    has_dead_letters = bool(request.formats) or request.on_damage == TO_DEAD_LETTERS
    outs = [request.out, *([folder_of_dead_letters(request.out)] if has_dead_letters else [])]
    return [TableFolder(out) for out in outs]


def orphans(folder: TableFolder, sink: Sink, older_than_s: float) -> list[str]:
    """Paths of older files that do not belong to the table: files of runs without a commit, and replaced files.

    Empty without a table: the files may belong to a table of another format or in another catalog. Files of other
    writers, such as deletion files, and tables in subfolders are never orphans. Files of runs that are in progress
    must be younger than `older_than_s`.
    """
    # List files before reading `kept`: files that are added later are not listed, earlier ones are in `kept`.
    names = sorted(_names_of_runs(folder))
    kept = sink.kept(older_than_s)
    if kept is None:
        return []
    return [
        name
        for name in names
        if name not in kept
        and (name.startswith(f"{UNFINISHED}/") or is_run_file(name))
        and folder.age_s(name) >= older_than_s
    ]


def _names_of_runs(folder: TableFolder) -> Iterator[str]:
    """Files in the folders of runs. Other folders may be large, unreadable or foreign."""
    yield from folder.names()
    for each in folder.folders():
        if each == UNFINISHED or each.startswith(f"{DATE}="):
            yield from folder.names(each, recursive=True)


def remove_orphans(folder: TableFolder, sink: Sink, older_than_s: float) -> list[str]:
    """Delete the orphans. Returns their paths."""
    found = orphans(folder, sink, older_than_s)
    for name in found:
        folder.remove(name)
    return found


def _written(
    prepared: Prepared, run_tasks: RunTasks, on_file: Callable[[WrittenFile], None]
) -> tuple[list[WrittenFile], tuple[Skipped, ...]]:
    """The files and skipped batches of all tasks. On an error all files of the run are deleted."""
    files: list[WrittenFile] = []
    manifests: list[Manifest] = []
    try:
        with keep_open(_directories(prepared.tasks), prepared.plan.ranges) as kept:
            for returned in run_tasks([_with_kept(task, kept) for task in prepared.tasks]):
                if isinstance(returned, Manifest):
                    manifests.append(returned)
                else:
                    files.append(returned)
                    on_file(returned)
        check_coverage(prepared.plan.ranges, manifests, files)
        if files:
            _check_are_here(prepared.request, prepared.tasks[0].layout, files)
    except BaseException:
        with suppress(OSError, ExportFailed):
            for folder in _folders(prepared.request):
                remove_failed_run(folder, prepared.run_id)
        raise
    return files, tuple(each for manifest in sorted(manifests) for each in manifest.skipped)


def _place(file: WrittenFile, layout: Layout) -> str:
    """The path of the file before the commit."""
    return pending_path(layout.run_id, file.path) if layout.waits else file.path


def _check_are_here(request: ExportRequest, layout: Layout, files: Sequence[WrittenFile]) -> None:
    """Check files on a disk: workers on other machines may have written to their own disks. Raises `ExportFailed`."""
    for is_letters, folder in enumerate(_folders(request)):
        for file in files if folder.is_local else ():
            if file.is_dead_letters == bool(is_letters) and folder.size(_place(file, layout)) != file.size:
                raise ExportFailed(
                    f"a worker has written {folder.out}/{file.path}, but the driver does not find it, so this run"
                    " committed nothing: all workers and the driver need the same folder"
                )


def _directories(tasks: Sequence[Task]) -> Mapping[int, str]:
    """All tasks have the same source."""
    return tasks[0].source.directories if tasks else {}


def _with_kept(task: Task, kept: Mapping[int, str]) -> Task:
    return replace(task, source=replace(task.source, kept=kept))


def _commit_group_offsets(request: ExportRequest, ends: Mapping[int, int]) -> None:
    """Commit the offsets of the export's group, for its lag and for `delete-exported`. Runs do not read them."""
    with_topic = {(request.topic, partition): end for partition, end in ends.items()}
    retries = Retries(request.timeout_s)
    while True:
        try:
            with BrokerClient(request.bootstrap, request.timeout_s) as client:
                commit_offsets(client, f"{GROUP_PREFIX}{request.name}", with_topic, retention=_KEPT)
        except BrokerCallFailed as failed:
            retries.wait(
                type(export_failure(failed))(
                    f"the records were committed, but the group {GROUP_PREFIX}{request.name} was not updated: {failed}"
                )
            )
        else:
            return
