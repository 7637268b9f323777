"""The commands of `kafkad export`."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click

from kafkad.cli.broker_options import CommandFailed
from kafkad.cli.errors import WrongConfiguration
from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad_lakehouse.cli.engines import Engine, open_engine
from kafkad_lakehouse.cli.printing import (
    iso_hour,
    print_plan,
    print_short_status,
    print_status,
    print_summary,
    print_verified,
    with_progress,
)
from kafkad_lakehouse.cli.request import NO_BROKER, request_of
from kafkad_lakehouse.cli.rounds import repeat, with_retries
from kafkad_lakehouse.cli.topics import available_requests, export_requests, of_topics
from kafkad_lakehouse.export.dead_letters import folder_of_dead_letters
from kafkad_lakehouse.export.preparation import Prepared, directories_of, offsets_to_continue, prepare, topic_facts
from kafkad_lakehouse.export.problems import (
    CommitConflict,
    ExportFailed,
    NotInstalled,
    ServiceUnavailable,
    UnsupportedStore,
)
from kafkad_lakehouse.export.ranges import TopicFacts, lost_of
from kafkad_lakehouse.export.reading.source import Source
from kafkad_lakehouse.export.request import SKIP, ExportRequest
from kafkad_lakehouse.export.run import Summary, orphans, remove_orphans, run_export
from kafkad_lakehouse.export.sinks.sink import Merging, Sink, TableState
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.tables import open_dead_letters, open_sink

LOST = 3
"""Exit code of `status`: records were deleted before they were exported."""


def run(
    tables: Sequence[Mapping[str, Any]],
    *,
    engine: str,
    jobs: int | None,
    dry_run: bool,
    every: float | None,
    as_json: bool,
    metrics_file: Path | None,
) -> None:
    if dry_run and every is not None:
        raise WrongConfiguration(["--dry-run and --every exclude each other"])
    with _report_failures():
        # Before the first run, and again before each run: a pattern may match new topics.
        requests = available_requests(tables, waits=every is not None)
        if dry_run:
            for each in requests:
                print_plan(_prepare_with_retries(replace(each, jobs=jobs or 1), open_sink(each)), as_json=as_json)
            return
        write_metrics = _metrics_writer(metrics_file)
        with open_engine(engine, requests, jobs) as opened:

            def one_round() -> None:
                current = export_requests(tables)
                done, failures = _run_all(current, opened, as_json=as_json)
                write_metrics(done)
                if failures:
                    is_temporary = all(isinstance(each, ServiceUnavailable | CommitConflict) for each in failures)
                    kind = ServiceUnavailable if is_temporary else ExportFailed
                    raise kind(f"{len(failures)} of {len(current)} tables are not up to date")

            if every is None:
                one_round()
            else:
                repeat(one_round, every)


def _run_all(
    tables: Sequence[ExportRequest], engine: Engine, *, as_json: bool
) -> tuple[list[tuple[ExportRequest, Summary]], list[ExportFailed]]:
    """Run the export of each table, also after failures. Failures of several tables are printed and returned; the
    failure of a single table is raised.
    """
    done: list[tuple[ExportRequest, Summary]] = []
    failures: list[ExportFailed] = []
    for request in tables:
        try:
            summary = _run_once(request, engine)
        except ExportFailed as failed:
            if len(tables) == 1:
                raise
            click.echo(f"kafkad: {request.topic}: {failed}", err=True)
            failures.append(failed)
        else:
            print_summary(summary, as_json=as_json)
            done.append((request, summary))
    return done, failures


def _metrics_writer(path: Path | None) -> Callable[[Sequence[tuple[ExportRequest, Summary]]], None]:
    """A function that writes the metrics. Raises `WrongConfiguration` if the file can't be written."""
    if path is None:
        return lambda _summaries: None
    # Only --metrics-file needs the library.
    from kafkad_lakehouse.cli.metrics_file import check_metrics_file, write_metrics  # noqa: PLC0415

    check_metrics_file(path)
    return lambda summaries: write_metrics(path, summaries)


def _run_once(request: ExportRequest, engine: Engine) -> Summary:
    request = replace(request, jobs=engine.jobs)
    sink = open_sink(request)
    prepared = _prepare_with_retries(request, sink)
    return with_progress(prepared, lambda on_file: run_export(prepared, sink, engine.run_tasks_of(request), on_file))


def status(tables: Sequence[Mapping[str, Any]], *, as_json: bool, is_list: bool) -> None:
    """`is_list`: print a list also for one table."""
    with _report_failures():
        options = of_topics(tables)
    if is_list or len(options) > 1:
        _status_of_all(options, as_json=as_json)
    else:
        _status_of_one(options[0], as_json=as_json)


def _status_of_one(options: Mapping[str, Any], *, as_json: bool) -> None:
    row = _status(options)
    if as_json:
        click.echo(json.dumps(row))
    else:
        print_status(row)
    if row["lost"]:
        sys.exit(LOST)


def _status_of_all(tables: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print the status of each table; for an unavailable one print the error."""
    rows = [_status_or_error(options) for options in tables]
    if as_json:
        click.echo(json.dumps(rows))
    for row in rows:
        if "error" in row:
            click.echo(f"kafkad: {row['topic']} in {row['out']}: {row['error']}", err=True)
        elif not as_json:
            print_short_status(row)
    if any("error" in row for row in rows):
        sys.exit(1)
    if any(row["lost"] for row in rows):
        sys.exit(LOST)


def _status_or_error(options: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return _status(options)
    except CommandFailed as failed:
        return {"topic": options["topic"], "out": options["out"], "error": failed.message}


def _status(options: Mapping[str, Any]) -> dict[str, Any]:
    with _report_failures():
        request = request_of(**{name: each for name, each in options.items() if name not in ("as_json", "conf_files")})
        sink = open_sink(request)
        facts, state = _topic_and_table(request, sink)
    starts = dict.fromkeys(facts.bounds, 0) if state.offsets else None
    lost = lost_of(facts, state.offsets, starts=starts)
    rows = [
        {
            "partition": each,
            "exported": state.offsets.get(each),
            "end": bounds.end,
            "lag": bounds.end - max(state.offsets.get(each, bounds.earliest), bounds.earliest),
            "reached": _iso(state.reached.get(each)),
        }
        for each, bounds in sorted(facts.bounds.items())
    ]
    return {
        "topic": request.topic,
        "out": request.out,
        "lag": sum(each["lag"] for each in rows),
        "lost": [lost[partition]._asdict() for partition in sorted(lost)],
        "complete_until": iso_hour(state.complete_until),
        "partitions": rows,
    }


def _iso(time_us: int | None) -> str | None:
    return None if time_us is None else (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time_us)).isoformat()


def verify(*, as_json: bool, deep: bool, **options: Any) -> None:
    # Only this command needs it.
    from kafkad_lakehouse.export.verification import overlaps, read_offsets  # noqa: PLC0415
    from kafkad_lakehouse.export.verification import verify as verify_table  # noqa: PLC0415

    with _report_failures():
        request = request_of(**options)
        sink = open_sink(request)
        facts, state = _topic_and_table(request, sink)
        if state.topic_id is None:
            raise ExportFailed(f"{request.out}: there is no table yet")
        if state.has_earlier_topic:
            raise ExportFailed(
                f"{request.out} also has records of an earlier topic {request.topic!r} with the same offsets: verify"
                " can't distinguish them from the records of the present topic"
            )
        source = _log_source(request, facts, with_headers=deep)
        # A table may begin after the log start offset of its topic.
        begins = sink.begins(state)
        first = {each: max(bounds.earliest, begins.get(each, 0)) for each, bounds in facts.bounds.items()}
        paths = [*_paths(request.out, sink), *_paths(folder_of_dead_letters(request.out), open_dead_letters(request))]
        is_compacted = _is_compacted(request)
        read = read_offsets(paths, is_deep=deep)
        found = verify_table(
            *(read, source, state.offsets, first),
            keeps=state.keeps,
            is_compacted=is_compacted,
            skips_damage=request.on_damage == SKIP,
            is_deep=deep,
        )
        wrong = [*read.wrong]
        for partition, end in sorted(state.offsets.items()):
            wrong += overlaps(read.offsets.get(partition, ()), end)
    print_verified(request.topic, found, wrong, as_json=as_json)
    if wrong or not all(each.is_right for each in found):
        sys.exit(1)


def maintain(
    *,
    older_than: float,
    as_json: bool,
    dry_run: bool,
    target_file_size: int,
    compression: str,
    rebuild_log: bool,
    **options: Any,
) -> None:
    if rebuild_log:
        # Only --rebuild-log needs it.
        from kafkad_lakehouse.cli.lost_logs import rebuild_logs  # noqa: PLC0415

        with _report_failures():
            rebuild_logs(request_of(**options), is_dry_run=dry_run, as_json=as_json)
        return
    merging = Merging(target_file_size, compression, dry_run)
    removed = []
    merged = []
    checkpointed = 0
    with _report_failures():
        request = request_of(**options)
        table = open_sink(request)
        if table.state([]).topic_id is None:
            raise ExportFailed(f"{request.out}: there is no table yet")
        for out, sink in ((request.out, table), (folder_of_dead_letters(request.out), open_dead_letters(request))):
            removed += (orphans if dry_run else remove_orphans)(TableFolder(out), sink, older_than)
            merged.append(sink.merge_small(merging))
            checkpointed += 0 if dry_run else sink.shorten_log(older_than)
    before, after = (sum(each) for each in zip(*merged, strict=True))
    if as_json:
        rows = {"removed": removed, "merged": before, "into": after, "manifests_removed": checkpointed}
        click.echo(json.dumps({**rows, "dry_run": dry_run}))
        return
    will = "would be" if dry_run else "are"
    click.echo(f"{len(removed)} files outside the table {will} removed")
    if before:
        click.echo(f"{before} files {will} merged into {after}")
    if checkpointed:
        click.echo(f"{checkpointed} manifests before a checkpoint are removed")


def files(*, dead_letters: bool, **options: Any) -> None:
    with _report_failures():
        request = request_of(**options)
        out = folder_of_dead_letters(request.out) if dead_letters else request.out
        root = TableFolder(out).out
        sink = (open_dead_letters if dead_letters else open_sink)(request)
        paths = sink.files()
        if not paths:
            # Report a table of another format.
            sink.state([])
        for path in paths:
            click.echo(f"{root.rstrip('/')}/{path}")


def _topic_and_table(request: ExportRequest, sink: Sink) -> tuple[TopicFacts, TableState]:
    """The present states of the topic and of the table. Raises `ExportFailed` for a table of another topic."""
    with _broker(request) as client:
        facts = topic_facts(client, request.topic, is_committed=request.is_committed)
    state = sink.state(sorted(facts.bounds))
    offsets_to_continue(state, facts)
    return facts, state


def _is_compacted(request: ExportRequest) -> bool:
    # Only `verify` needs configs.
    from kafkad.client.configs import topic_configs  # noqa: PLC0415

    with _broker(request) as client:
        policies = topic_configs(client, [request.topic])[request.topic].get("cleanup.policy", "")
    return "compact" in policies.split(",")


def _log_source(request: ExportRequest, facts: TopicFacts, *, with_headers: bool) -> Source:
    """The source of the log, as for a run."""
    directories: dict[int, str] = {}
    if request.source == "files":
        with _broker(request) as client:
            directories = directories_of(client, request, facts)
    return Source(
        topic=request.topic,
        bootstrap=request.bootstrap,
        directories=directories,
        with_headers=with_headers,
        sets_damage_aside=True,
        is_committed=request.is_committed,
        timeout_s=request.timeout_s,
    )


def _paths(out: str, sink: Sink) -> list[tuple[TableFolder, str]]:
    folder = TableFolder(out)
    return [(folder, path) for path in sink.files()]


@contextmanager
def _report_failures() -> Iterator[None]:
    try:
        yield
    except (NotInstalled, UnsupportedStore) as wrong:
        raise WrongConfiguration([str(wrong)]) from wrong
    except ExportFailed as failed:
        raise CommandFailed(str(failed)) from failed
    except BrokerCallFailed as failed:
        raise CommandFailed(str(failed)) from failed


@contextmanager
def _broker(request: ExportRequest) -> Iterator[BrokerClient]:
    if not request.bootstrap:
        raise WrongConfiguration([f"this command needs a broker: only run supports --bootstrap-server {NO_BROKER}"])
    with BrokerClient(request.bootstrap, request.timeout_s) as client:
        yield client


def _prepare_with_retries(request: ExportRequest, sink: Sink) -> Prepared:
    prepared = with_retries(partial(prepare, request, sink), request.timeout_s)
    if request.bootstrap and not prepared.has_broker:
        click.echo(
            f"kafkad: no broker responds at {request.bootstrap}: using the checkpoints in the log directories", err=True
        )
    return prepared
