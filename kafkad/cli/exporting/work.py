"""What the commands of `kafkad export` do, and print."""

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
from kafkad.cli.exporting.engines import Engine, open_engine
from kafkad.cli.exporting.printing import (
    iso_hour,
    print_plan,
    print_short_status,
    print_status,
    print_summary,
    print_verified,
    with_progress,
)
from kafkad.cli.exporting.request import NO_BROKER, request_of
from kafkad.cli.exporting.rounds import answered, repeat
from kafkad.cli.exporting.topics import available_requests, export_requests, of_topics
from kafkad.cli.failing import WrongConfiguration
from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.export.dead_letters import folder_of_dead_letters
from kafkad.export.places import TableFolder
from kafkad.export.preparation import Prepared, continued, directories_of, prepare, topic_facts
from kafkad.export.problems import AnotherExport, Away, ExportFailed, NotInstalled, StoreUnfit
from kafkad.export.ranges import TopicFacts, lost_of
from kafkad.export.reading.source import Source
from kafkad.export.request import SKIP, ExportRequest
from kafkad.export.run import Summary, carry_out, orphans, remove_orphans
from kafkad.export.sinks.sink import Merging, Sink, TableState
from kafkad.export.tables import open_dead_letters, open_sink

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
    with _failing():
        # Before the work, and again in each round: a pattern may find more.
        wanted = available_requests(tables, waits=every is not None)
        if dry_run:
            for each in wanted:
                print_plan(_prepared(replace(each, jobs=jobs or 1), open_sink(each)), as_json=as_json)
            return
        write_metrics = _writes_metrics(metrics_file)
        with open_engine(engine, wanted, jobs) as working:

            def one_round() -> None:
                asked = export_requests(tables)
                done, failures = _run_all(asked, working, as_json=as_json)
                write_metrics(done)
                if failures:
                    helps_itself = all(isinstance(each, Away | AnotherExport) for each in failures)
                    kind = Away if helps_itself else ExportFailed
                    raise kind(f"{len(failures)} of {len(asked)} tables are not up to date")

            if every is None:
                one_round()
            else:
                repeat(one_round, every)


def _run_all(
    tables: Sequence[ExportRequest], engine: Engine, *, as_json: bool
) -> tuple[list[tuple[ExportRequest, Summary]], list[ExportFailed]]:
    """Each of them, whatever becomes of the others. The failures of several are told; that of one is raised."""
    done: list[tuple[ExportRequest, Summary]] = []
    failures: list[ExportFailed] = []
    for wanted in tables:
        try:
            summary = _run_once(wanted, engine)
        except ExportFailed as failed:
            if len(tables) == 1:
                raise
            click.echo(f"kafkad: {wanted.topic}: {failed}", err=True)
            failures.append(failed)
        else:
            print_summary(summary, as_json=as_json)
            done.append((wanted, summary))
    return done, failures


def _writes_metrics(path: Path | None) -> Callable[[Sequence[tuple[ExportRequest, Summary]]], None]:
    """Raises `WrongConfiguration` where they can't be written."""
    if path is None:
        return lambda _summaries: None
    # Only who has such a file needs its library.
    from kafkad.cli.exporting.metrics_file import check_metrics_file, write_metrics  # noqa: PLC0415

    check_metrics_file(path)
    return lambda summaries: write_metrics(path, summaries)


def _run_once(wanted: ExportRequest, engine: Engine) -> Summary:
    wanted = replace(wanted, jobs=engine.jobs)
    sink = open_sink(wanted)
    prepared = _prepared(wanted, sink)
    return with_progress(prepared, lambda told: carry_out(prepared, sink, engine.run_tasks_of(wanted), told))


def status(tables: Sequence[Mapping[str, Any]], *, as_json: bool, is_list: bool) -> None:
    """`is_list`: also of one table."""
    with _failing():
        asked = of_topics(tables)
    if is_list or len(asked) > 1:
        _status_of_all(asked, as_json=as_json)
    else:
        _status_of_one(asked[0], as_json=as_json)


def _status_of_one(asked: Mapping[str, Any], *, as_json: bool) -> None:
    row = _status(asked)
    if as_json:
        click.echo(json.dumps(row))
    else:
        print_status(row)
    if row["lost"]:
        sys.exit(LOST)


def _status_of_all(tables: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Of one that can't be asked it is said why; the others are."""
    rows = [_status_or_error(asked) for asked in tables]
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


def _status_or_error(asked: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return _status(asked)
    except CommandFailed as failed:
        return {"topic": asked["topic"], "out": asked["out"], "error": failed.message}


def _status(asked: Mapping[str, Any]) -> dict[str, Any]:
    with _failing():
        wanted = request_of(**{name: each for name, each in asked.items() if name not in ("as_json", "conf_files")})
        sink = open_sink(wanted)
        facts, state = _compared(wanted, sink)
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
        "topic": wanted.topic,
        "out": wanted.out,
        "lag": sum(each["lag"] for each in rows),
        "lost": [lost[partition]._asdict() for partition in sorted(lost)],
        "complete_until": iso_hour(state.complete_until),
        "partitions": rows,
    }


def _iso(time_us: int | None) -> str | None:
    return None if time_us is None else (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time_us)).isoformat()


def verify(*, as_json: bool, deep: bool, **asked: Any) -> None:
    # The other commands compare nothing.
    from kafkad.export.verification import overlaps, read_offsets  # noqa: PLC0415
    from kafkad.export.verification import verify as verify_table  # noqa: PLC0415

    with _failing():
        wanted = request_of(**asked)
        sink = open_sink(wanted)
        facts, state = _compared(wanted, sink)
        if state.topic_id is None:
            raise ExportFailed(f"{wanted.out}: there is no table yet")
        if state.has_earlier_topic:
            raise ExportFailed(
                f"{wanted.out} also has records of an earlier topic {wanted.topic!r}, with the same offsets: they can't"
                " be told from those of the topic as it is now"
            )
        source = _read_again(wanted, facts, with_headers=deep)
        # A table may begin later than its topic.
        begins = sink.begins(state)
        first = {each: max(bounds.earliest, begins.get(each, 0)) for each, bounds in facts.bounds.items()}
        paths = [*_paths(wanted.out, sink), *_paths(folder_of_dead_letters(wanted.out), open_dead_letters(wanted))]
        is_compacted = _is_compacted(wanted)
        read = read_offsets(paths, is_deep=deep)
        found = verify_table(
            *(read, source, state.offsets, first),
            keeps=state.keeps,
            is_compacted=is_compacted,
            skips_damage=wanted.on_damage == SKIP,
            is_deep=deep,
        )
        wrong = [*read.wrong]
        for partition, end in sorted(state.offsets.items()):
            wrong += overlaps(read.offsets.get(partition, ()), end)
    print_verified(wanted.topic, found, wrong, as_json=as_json)
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
    **asked: Any,
) -> None:
    if rebuild_log:
        # The other commands find the log.
        from kafkad.cli.exporting.lost_logs import rebuild_logs  # noqa: PLC0415

        with _failing():
            rebuild_logs(request_of(**asked), is_dry_run=dry_run, as_json=as_json)
        return
    merging = Merging(target_file_size, compression, dry_run)
    removed = []
    merged = []
    summed_up = 0
    with _failing():
        wanted = request_of(**asked)
        table = open_sink(wanted)
        if table.state([]).topic_id is None:
            raise ExportFailed(f"{wanted.out}: there is no table yet")
        for out, sink in ((wanted.out, table), (folder_of_dead_letters(wanted.out), open_dead_letters(wanted))):
            removed += (orphans if dry_run else remove_orphans)(TableFolder(out), sink, older_than)
            merged.append(sink.merge_small(merging))
            summed_up += 0 if dry_run else sink.shorten_log(older_than)
    before, after = (sum(each) for each in zip(*merged, strict=True))
    if as_json:
        rows = {"removed": removed, "merged": before, "into": after, "manifests_removed": summed_up}
        click.echo(json.dumps({**rows, "dry_run": dry_run}))
        return
    will = "would be" if dry_run else "are"
    click.echo(f"{len(removed)} files outside the table {will} removed")
    if before:
        click.echo(f"{before} files {will} merged into {after}")
    if summed_up:
        click.echo(f"{summed_up} manifests before a checkpoint are removed")


def files(*, dead_letters: bool, **asked: Any) -> None:
    with _failing():
        wanted = request_of(**asked)
        out = folder_of_dead_letters(wanted.out) if dead_letters else wanted.out
        root = TableFolder(out).out
        sink = (open_dead_letters if dead_letters else open_sink)(wanted)
        paths = sink.files()
        if not paths:
            # Perhaps the table is of another kind.
            sink.state([])
        for path in paths:
            click.echo(f"{root.rstrip('/')}/{path}")


def _compared(wanted: ExportRequest, sink: Sink) -> tuple[TopicFacts, TableState]:
    """What the topic has now, and what the table has of it. Raises `ExportFailed` for a table of another topic."""
    with _broker(wanted) as client:
        facts = topic_facts(client, wanted.topic, is_committed=wanted.is_committed)
    state = sink.state(sorted(facts.bounds))
    continued(state, facts)
    return facts, state


def _is_compacted(wanted: ExportRequest) -> bool:
    # The other commands need no configs.
    from kafkad.client.configs import topic_configs  # noqa: PLC0415

    with _broker(wanted) as client:
        policies = topic_configs(client, [wanted.topic])[wanted.topic].get("cleanup.policy", "")
    return "compact" in policies.split(",")


def _read_again(wanted: ExportRequest, facts: TopicFacts, *, with_headers: bool) -> Source:
    """The log, where the run reads it."""
    directories: dict[int, str] = {}
    if wanted.source == "files":
        with _broker(wanted) as client:
            directories = directories_of(client, wanted, facts)
    return Source(
        topic=wanted.topic,
        bootstrap=wanted.bootstrap,
        directories=directories,
        with_headers=with_headers,
        sets_damage_aside=True,
        is_committed=wanted.is_committed,
        timeout_s=wanted.timeout_s,
    )


def _paths(out: str, sink: Sink) -> list[tuple[TableFolder, str]]:
    folder = TableFolder(out)
    return [(folder, path) for path in sink.files()]


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except (NotInstalled, StoreUnfit) as wrong:
        raise WrongConfiguration([str(wrong)]) from wrong
    except ExportFailed as failed:
        raise CommandFailed(str(failed)) from failed
    except BrokerCallFailed as failed:
        raise CommandFailed(str(failed)) from failed


@contextmanager
def _broker(wanted: ExportRequest) -> Iterator[BrokerClient]:
    if not wanted.bootstrap:
        raise WrongConfiguration([f"this command needs a broker: only run supports --bootstrap-server {NO_BROKER}"])
    with BrokerClient(wanted.bootstrap, wanted.timeout_s) as client:
        yield client


def _prepared(wanted: ExportRequest, sink: Sink) -> Prepared:
    prepared = answered(partial(prepare, wanted, sink), wanted.timeout_s)
    if wanted.bootstrap and not prepared.has_broker:
        click.echo(
            f"kafkad: no broker at {wanted.bootstrap}: the end of the topic is read from the log directories", err=True
        )
    return prepared
