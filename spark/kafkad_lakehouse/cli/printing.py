"""The output of `kafkad export`: progress and summary of `run`, and tables of `status` and `verify`."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from kafkad_lakehouse.export.preparation import Prepared
from kafkad_lakehouse.export.run import Summary
from kafkad_lakehouse.export.sinks.complete_hours import hour_of
from kafkad_lakehouse.export.writing import WrittenFile

if TYPE_CHECKING:
    # Only `verify` needs it.
    from kafkad_lakehouse.export.verification import Verified, WrongFile

_MAX_SKIPPED = 10
"""The number of skipped batches that are printed."""


def with_progress(prepared: Prepared, work: Callable[[Callable[[WrittenFile], None]], Summary]) -> Summary:
    """Show a progress bar on a terminal, with records a second, which are counted by complete files."""
    if not sys.stderr.isatty() or not prepared.lag:
        return work(lambda _file: None)
    began_s = time.monotonic()
    written = 0
    bar: Any = click.progressbar(
        length=prepared.lag,
        label=f"Exporting {prepared.request.topic}",
        item_show_func=lambda rate: rate,
        file=sys.stderr,
        show_pos=True,
        show_eta=True,
    )

    def on_file(file: WrittenFile) -> None:
        nonlocal written
        written += file.rows
        rate = written / max(time.monotonic() - began_s, 0.001)
        bar.update(file.last_offset + 1 - file.first_offset, f"{rate:,.0f} records/s")

    with bar:
        return work(on_file)


def print_plan(prepared: Prepared, *, as_json: bool) -> None:
    topic = prepared.request.topic
    ranges = [each for each in prepared.plan.ranges if each.start < each.end]
    rows = [each._asdict() for each in ranges]
    lost = [each._asdict() for each in prepared.plan.lost]
    if as_json:
        known = {"lag": prepared.lag, "bytes": prepared.bytes, "tasks": len(prepared.tasks), "files": prepared.files}
        click.echo(json.dumps({"topic": topic, "ranges": rows, "lost": lost, **known}))
        return
    for each in ranges:
        click.echo(f"{topic}-{each.partition}: offsets {each.start} to {each.end - 1}")
    for each in prepared.plan.lost:
        click.echo(f"{topic}-{each.partition}: offsets {each.start} to {each.end - 1} are lost")
    click.echo(
        f"{prepared.lag} offsets of {topic}, about {prepared.bytes / 1e6:.1f} MB of the log, in"
        f" {len(prepared.tasks)} tasks and about {prepared.files} files; nothing was exported"
    )


def print_summary(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        row = {
            "topic": summary.topic,
            "commit": summary.version,
            "records": summary.records,
            "bytes": summary.bytes,
            "files": summary.files,
            "seconds": round(summary.seconds, 3),
            "ends": {str(partition): end for partition, end in sorted(summary.ends.items())},
            "lost": [each._asdict() for each in summary.lost],
            "unparsed": summary.unparsed,
            "skipped": [each._asdict() for each in summary.skipped],
            "complete_until": iso_hour(summary.complete_until),
        }
        click.echo(json.dumps(row))
    elif summary.version is None:
        click.echo(f"nothing new in {summary.topic}")
    else:
        rate = summary.records / summary.seconds if summary.seconds else 0.0
        click.echo(
            f"{summary.records} records in {summary.files} files ({summary.bytes / 1e6:.1f} MB) of {summary.topic},"
            f" {rate:,.0f} records/s; commit {summary.version}"
        )
        for each in summary.lost:
            click.echo(f"{summary.topic}-{each.partition}: offsets {each.start} to {each.end - 1} were lost", err=True)
        for batch in summary.skipped[:_MAX_SKIPPED]:
            click.echo(f"{summary.topic}-{batch.partition}: at offset {batch.start}, {batch.reason}: skipped", err=True)
        if len(summary.skipped) > _MAX_SKIPPED:
            click.echo(f"{len(summary.skipped)} batches were skipped", err=True)
        if summary.unparsed:
            click.echo(f"{summary.unparsed} records or batches could not be read", err=True)


def iso_hour(until: int | None) -> str | None:
    """The hour up to which a table is complete; `until` is in microseconds since 1970."""
    return None if until is None else hour_of(until).isoformat()


def print_status(row: Mapping[str, Any]) -> None:
    """Print the status of one table: a line for each partition."""
    for each in row["partitions"]:
        done, there = (f"up to offset {end - 1}" if end else "nothing" for end in (each["exported"], each["end"]))
        click.echo(f"{row['topic']}-{each['partition']}: {each['lag']} behind, exported {done}, the topic has {there}")
    for gap in row["lost"]:
        click.echo(
            f"{row['topic']}-{gap['partition']}: offsets {gap['start']} to {gap['end'] - 1} are lost: they were deleted"
            " before they were exported"
        )
    click.echo(f"{row['topic']}: {_complete(row)}")


def print_short_status(row: Mapping[str, Any]) -> None:
    """Print the status of a table in one line."""
    behind = [each["lag"] for each in row["partitions"] if each["lag"]]
    count = f"{len(behind)} of {len(row['partitions'])} partitions"
    lost = sum(gap["end"] - gap["start"] for gap in row["lost"])
    and_lost = f", {lost} offsets are lost" if lost else ""
    click.echo(f"{row['topic']} in {row['out']}: {row['lag']} behind, in {count}{and_lost}; {_complete(row)}")


def print_verified(topic: str, found: Iterable["Verified"], wrong: Sequence["WrongFile"], *, as_json: bool) -> None:
    """Print a line for each partition, and a line for each file with a problem."""
    if as_json:
        of_partitions = [{**each._asdict(), "right": each.is_right} for each in found]
        click.echo(json.dumps([*of_partitions, *({**each._asdict(), "right": False} for each in wrong)]))
        return
    for each in found:
        verdict = "right" if each.is_right else "WRONG"
        click.echo(
            f"{topic}-{each.partition}: {verdict}: {each.rows} records, {each.doubled} twice;"
            f" of {each.compared} in the log {each.missing} are missing, {each.foreign} are not in the log"
            + (f", {each.compacted} were since compacted in the log" if each.compacted else "")
            + (f", {each.different} differ" if each.different is not None else "")
        )
    for file in wrong:
        click.echo(f"WRONG: {file.path} {file.problem}")


def _complete(row: Mapping[str, Any]) -> str:
    if row["complete_until"] is None:
        return "no hour is complete"
    return f"complete up to {datetime.fromisoformat(row['complete_until']):%Y-%m-%d %H:%M} UTC"
